"""The report of `make chaos`: kills, faults, gangs and Jobs, and what was lost."""

from collections.abc import Iterator, Sequence

from tests.chaos.scenarios import Outcome

_MOST = 20


def of_one(outcome: Outcome) -> Iterator[str]:
    """Yield the lines for one scenario."""
    yield f"{outcome.name} ({outcome.seconds:.0f} s)"
    yield f"  gangs {outcome.gangs}, Jobs {outcome.jobs}"
    if outcome.kills:
        yield f"  kills {outcome.kills.total()}: {_counts(outcome.kills)}"
    if outcome.faults:
        yield f"  faults {outcome.faults.total()}: {_counts(outcome.faults)}"
    for name, value in outcome.figures.items():
        yield f"  {name}: {value}"
    yield f"  lost: {len(outcome.lost) or 'nothing'}"
    yield from (f"    {sentence}" for sentence in outcome.lost[:_MOST])


def in_all(outcomes: Sequence[Outcome]) -> str:
    """Return the last line: the sums of all scenarios."""
    kills = sum(each.kills.total() for each in outcomes)
    faults = sum(each.faults.total() for each in outcomes)
    gangs, jobs = sum(each.gangs for each in outcomes), sum(each.jobs for each in outcomes)
    lost = sum(len(each.lost) for each in outcomes)
    return (
        f"in all: {kills} kills, {faults} faults, {gangs} gangs, {jobs} Jobs; "
        f"lost: {lost or 'nothing'}"
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
