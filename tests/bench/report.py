"""The results, for people as tables and for machines as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench import tables
from tests.bench.results import Case, Latency, Result
from tests.bench.sides import OFF, OPEN, OURS, PLAIN
from tests.bench.tables import Row
from tests.bench.waits import Quantiles, Waits

_MOST_OVERCOMMITS = 10  # of a run that are printed
_PROCESSES = ("scheduler", "extender", "controllers", "apiserver", "etcd", "bench")

Value = Callable[[Result], float | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of one case; `repeat` says which ones were made together."""

    case: Case
    results: Sequence[Result]

    def of(self, side: str) -> list[Result]:
        """Return the runs of one side."""
        return [result for result in self.results if result.side == side]

    def columns(self) -> list[list[Result]]:
        """Return the runs of each side on each load, in the order of the first ones."""
        return tables.columns(self.results, lambda each: (each.side, each.impossible))

    def ratio(self, result: Result, value: Value) -> float | None:
        """Return `value` relative to its baseline of the same repeat.

        That is the plain kube-scheduler; with gangs that cannot fit the same side without them.
        """
        baseline = result.side if self.case.load.impossible else PLAIN
        for other in self.of(baseline):
            if other.repeat == result.repeat and not other.impossible:
                ours, theirs = value(result), value(other)
                return ours / theirs if ours and theirs else None
        return None


def broken(comparison: Comparison) -> list[str]:
    """Return, as sentences, what must not be.

    Our gangs that are not whole, or cannot be; nodes of any run that had more than they have room
    for; pods of ours with two Events about their one binding.
    """
    wanted = comparison.case.load.gangs
    gangs = [
        f"{title(comparison.case)}: {result.gangs.whole} of {wanted} gangs are whole, "
        f"{outcome([result])} (repeat {result.repeat})"
        for side in (OURS, OPEN, OFF)
        for result in comparison.of(side)
        if result.gangs.whole < wanted
        or result.gangs.partial
        or result.gangs.impossible_bound
        or result.ledger.partial
    ]
    return [*gangs, *(text for each in comparison.results for text in _faults(comparison, each))]


def _faults(comparison: Comparison, result: Result) -> list[str]:
    run = f"{title(comparison.case)}, {result.title}, repeat {result.repeat}"
    overcommits = result.ledger.overcommits
    found = [f"{run}: {each}" for each in overcommits[:_MOST_OVERCOMMITS]]
    if len(overcommits) > len(found):
        found.append(f"{run}: {len(overcommits) - len(found)} more overcommits")
    if result.side in {OURS, OPEN, OFF} and result.ledger.repeated_events:
        found.append(f"{run}: pods with two Events: {result.ledger.repeated_events}")
    return found


def outcome(results: Sequence[Result]) -> str:
    """Return, for all these runs together, how much there is of what must not be."""
    if not results:
        return "partial gangs: unknown"
    partial = f"partial gangs: {sum(each.gangs.partial for each in results)}"
    if not any(each.impossible for each in results):
        return partial
    bound = sum(each.gangs.impossible_bound for each in results)
    return f"{partial}, pods bound of gangs that cannot fit: {bound}"


def audited(results: Sequence[Result]) -> str:
    """Return what the books of all these runs say together."""
    if not results:
        return "overcommits: unknown"
    overcommits = sum(len(each.ledger.overcommits) for each in results)
    collisions = sum(each.ledger.collisions for each in results)
    return f"overcommits: {overcommits}, collisions: {collisions}"


def title(case: Case) -> str:
    """Return the case in one line."""
    load = case.load
    qps = "stock QPS" if case.qps == "stock" else f"QPS {case.qps}"
    nodes, gangs = f"{load.nodes} nodes", f"{load.gangs} gangs of {load.size}"
    if load.large_nodes:
        nodes += f" and {load.large_nodes} large ones"
    if load.impossible:
        gangs += " and as many that cannot fit"
    if case.pace:
        gangs += f" {case.pace}"
    return f"{nodes}, {gangs}, {qps}"


def show(comparison: Comparison, console: Console) -> None:
    """Print the table of one case, and the notes of its runs."""
    console.print(table(comparison))
    for result in comparison.results:
        for note in result.notes:
            console.print(f"  {result.title}, repeat {result.repeat}: {note}")


def table(comparison: Comparison) -> Table:
    """Return measures as lines and sides as columns."""
    return tables.table(
        title(comparison.case),
        comparison.columns(),
        _rows(comparison),
        heading=lambda each: _heading(comparison, each),
    )


def _heading(comparison: Comparison, result: Result) -> str:
    if not comparison.case.load.impossible:
        return result.title
    return f"{result.title}, {'churn' if result.impossible else 'alone'}"


def rate(result: Result) -> float:
    """Return pods a second by the clock that begins with the first pod."""
    return result.pods_per_second


def rate_from_ready(result: Result) -> float:
    """Return pods a second by the clock that begins when the scheduler is ready."""
    return result.pods_per_second_from_ready


def as_json(comparisons: Sequence[Comparison]) -> bytes:
    """Return everything that was measured, with the rates and ratios."""
    document = [
        {
            "title": title(comparison.case),
            "case": msgspec.to_builtins(comparison.case),
            "runs": [_run(comparison, result) for result in comparison.results],
        }
        for comparison in comparisons
    ]
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _run(comparison: Comparison, result: Result) -> dict[str, Any]:
    rates: Mapping[str, Value] = {
        "pods_per_second": rate,
        "pods_per_second_from_ready": rate_from_ready,
    }
    run: dict[str, Any] = msgspec.to_builtins(result)
    for name, value in rates.items():
        run[name] = value(result)
        run[f"{name}_ratio"] = comparison.ratio(result, value)
    return run


def _rows(comparison: Comparison) -> list[Row[Result]]:
    return [
        Row("pods/s, scheduler ready to last", rate_from_ready),
        Row("  ratio", lambda each: comparison.ratio(each, rate_from_ready), "{:.2f}"),
        Row("pods/s, first to last", rate),
        Row("  ratio", lambda each: comparison.ratio(each, rate), "{:.2f}"),
        Row("seconds, scheduler ready to last", lambda each: each.ready_seconds, "{:.1f}"),
        Row("seconds, first to last", lambda each: each.seconds, "{:.1f}"),
        Row("pods scheduled", lambda each: each.scheduled),
        Row("scheduling attempts per pod", _attempts, "{:.2f}"),
        Row("gangs whole", lambda each: each.gangs.whole),
        Row("partial gangs at the end", lambda each: each.gangs.partial),
        Row("gangs partial at once, at most", lambda each: each.gangs.partial_peak),
        Row("pods that cannot fit, bound", _impossible(lambda each: each.gangs.impossible_bound)),
        Row("pods that cannot fit, refused", _impossible(lambda each: each.refused)),
        Row("overcommits", lambda each: len(each.ledger.overcommits)),
        Row("collisions", lambda each: each.ledger.collisions),
        Row("Events Scheduled", lambda each: each.ledger.events),
        Row("gang, first to last pod, ms", _spread),
        *_wait_rows(comparison, "last", lambda each: each.from_last),
        *_wait_rows(comparison, "first", lambda each: each.from_first),
        Row("pods created/s", lambda each: each.waits.created_per_second if each.waits else None),
        Row("filter calls per pod", _filter_calls, "{:.2f}"),
        *_latency_rows("filter", lambda each: each.filter),
        *_latency_rows("bind", lambda each: each.bind),
        *(Row(f"CPU s, {name}", _cpu(name), "{:.1f}") for name in _PROCESSES),
        Row("CPU s, bench, of it the books", lambda each: each.ledger.cpu_seconds, "{:.1f}"),
        Row("seconds, last pod to last Event", lambda each: each.ledger.late_seconds, "{:.1f}"),
        *(
            Row(f"CPU s until the last Event, {name}", _late_cpu(name), "{:.1f}")
            for name in _PROCESSES[:-1]
        ),
        *(Row(f"peak MiB, {name}", _peak(name)) for name in _PROCESSES[:-1]),
    ]


def _wait_rows(
    comparison: Comparison, since: str, of: Callable[[Waits], Quantiles]
) -> list[Row[Result]]:
    def row(name: str, quantile: Callable[[Quantiles], float]) -> list[Row[Result]]:
        def milliseconds(result: Result) -> float | None:
            return quantile(of(result.waits)) * 1000 if result.waits else None

        return [
            Row(f"{since} pod created to last on a node, {name}, ms", milliseconds),
            Row("  ratio", lambda each: comparison.ratio(each, milliseconds), "{:.2f}"),
        ]

    return [*row("p50", lambda each: each.p50), *row("p99", lambda each: each.p99)]


def _latency_rows(name: str, latency: Callable[[Result], Latency | None]) -> list[Row[Result]]:
    def at(quantile: Callable[[Latency], float | None]) -> Value:
        def milliseconds(result: Result) -> float | None:
            found = latency(result)
            seconds = quantile(found) if found else None
            return None if seconds is None else seconds * 1000

        return milliseconds

    return [
        Row(f"{name} p50, ms", at(lambda each: each.p50), "{:.2f}"),
        Row(f"{name} p99, ms", at(lambda each: each.p99), "{:.2f}"),
    ]


def _impossible(value: Value) -> Value:
    return lambda result: value(result) if result.impossible else None


def _attempts(result: Result) -> float | None:
    return result.attempts / result.scheduled if result.attempts and result.scheduled else None


def _spread(result: Result) -> float | None:
    seconds = result.gangs.spread_seconds
    return None if seconds is None else seconds * 1000


def _filter_calls(result: Result) -> float | None:
    return result.filter.count / result.scheduled if result.filter and result.scheduled else None


def _cpu(process: str) -> Value:
    return lambda result: result.cpu_seconds.get(process)


def _late_cpu(process: str) -> Value:
    return lambda result: result.late_cpu_seconds.get(process)


def _peak(process: str) -> Value:
    return lambda result: result.peak_mib.get(process)
