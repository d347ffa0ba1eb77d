"""What a case comes to, in one line: our rates, what they are compared with, and the ratios."""

from collections.abc import Sequence

from tests.bench.report import (
    Comparison,
    Value,
    audited,
    outcome,
    rate,
    rate_from_ready,
    title,
)
from tests.bench.results import Result
from tests.bench.sides import OURS, PLAIN
from tests.bench.tables import cell

_CLOCKS = (("first to last", rate), ("ready to last", rate_from_ready))
_WAITS: Sequence[tuple[str, Value]] = (
    ("p50", lambda each: each.waits.from_last.p50 * 1000 if each.waits else None),
    ("p99", lambda each: each.waits.from_last.p99 * 1000 if each.waits else None),
)
_CHURN_GOAL = 0.9
_NO_PLAIN = "not kube-scheduler alone: it would place pods of gangs that cannot fit"


def line(comparison: Comparison) -> str:
    """Return both clocks and the partial gangs; medians, and the spread of repeats."""
    ours = comparison.of(OURS)
    if comparison.case.load.impossible:
        before = [each for each in ours if not each.impossible]
        after = [each for each in ours if each.impossible]
        what = "gangs that fit, alone → among the others"
        end = [f"goal {_CHURN_GOAL}", outcome(ours), audited(ours), _NO_PLAIN]
    else:
        before, after = comparison.of(PLAIN), ours
        what = "kube-scheduler alone → with gang-extender"
        end = [outcome(ours), audited(ours)]
    clocks = [_clock(comparison, clock, before=before, after=after) for clock in _CLOCKS]
    if comparison.case.pace:
        clocks += [_wait(comparison, wait) for wait in _WAITS]
    return f"{title(comparison.case)}: {what}: " + "; ".join([*clocks, *end])


def _clock(
    comparison: Comparison,
    clock: tuple[str, Value],
    *,
    before: Sequence[Result],
    after: Sequence[Result],
) -> str:
    name, value = clock
    ratio = _known([comparison.ratio(each, value) for each in after], "{:.2f}")
    return f"{name} {_rates(before, value)} → {_rates(after, value)} pods/s, ratio {ratio}"


def _wait(comparison: Comparison, wait: tuple[str, Value]) -> str:
    """Return how long gangs waited of all that were compared, ours and others alike."""
    name, value = wait
    columns = ((each[0].title, [*map(value, each)]) for each in comparison.columns())
    texts = [f"{side} {_known(values, '{:.0f}')}" for side, values in columns]
    return f"last pod created to last on a node, {name}, ms: {', '.join(texts)}"


def _rates(results: Sequence[Result], value: Value) -> str:
    return _known([value(each) for each in results], "{:.0f}")


def _known(values: Sequence[float | None], form: str) -> str:
    return cell(values, form) or "unknown"
