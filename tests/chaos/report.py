"""The report of `make chaos`: kills, faults, gangs and Jobs, and what was lost."""

from collections.abc import Iterable, Iterator

from tests.chaos.scenarios import Outcome

_MOST = 20


def lines(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the report's lines."""
    all_of = list(outcomes)
    for each in all_of:
        yield f"{each.name} ({each.seconds:.0f} s)"
        yield f"  gangs {each.gangs}, Jobs {each.jobs}"
        if each.kills:
            yield f"  kills {each.kills.total()}: {_counts(each.kills)}"
        if each.faults:
            yield f"  faults {each.faults.total()}: {_counts(each.faults)}"
        for name, value in each.figures.items():
            yield f"  {name}: {value}"
        yield f"  lost: {len(each.lost) or 'nothing'}"
        yield from (f"    {sentence}" for sentence in each.lost[:_MOST])
    kills = sum(each.kills.total() for each in all_of)
    faults = sum(each.faults.total() for each in all_of)
    gangs, jobs = sum(each.gangs for each in all_of), sum(each.jobs for each in all_of)
    lost = sum(len(each.lost) for each in all_of)
    yield (
        f"in all: {kills} kills, {faults} faults, {gangs} gangs, {jobs} Jobs; "
        f"lost: {lost or 'nothing'}"
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
