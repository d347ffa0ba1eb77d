"""The results, for people as tables and for machines as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench.runs import Case, Latency, Result
from tests.bench.sides import OURS, PLAIN

_PROCESSES = ("scheduler", "extender", "apiserver", "etcd", "bench")

Value = Callable[[Result], float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: a number of every run, and how it is written."""

    name: str
    value: Value
    form: str = "{:.0f}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of one case; `repeat` says which ones were made together."""

    case: Case
    results: Sequence[Result]

    def of(self, side: str) -> list[Result]:
        """Return the runs of one side."""
        return [result for result in self.results if result.side == side]

    def sides(self) -> list[str]:
        """Return the sides in the order of their first runs."""
        return list(dict.fromkeys(result.side for result in self.results))

    def ratio(self, result: Result, value: Value) -> float | None:
        """Return `value` relative to the plain kube-scheduler of the same repeat."""
        for other in self.of(PLAIN):
            if other.repeat == result.repeat:
                ours, theirs = value(result), value(other)
                return ours / theirs if ours and theirs else None
        return None


def broken(comparison: Comparison) -> list[str]:
    """Return, as sentences, what must not be: our gangs that are not whole."""
    wanted = comparison.case.load.gangs
    return [
        f"{title(comparison.case)}: {result.gangs.whole} of {wanted} gangs are whole, "
        f"{result.gangs.partial} are partial (repeat {result.repeat})"
        for result in comparison.of(OURS)
        if result.gangs.whole < wanted or result.gangs.partial
    ]


def title(case: Case) -> str:
    """Return the case in one line."""
    load = case.load
    qps = "stock QPS" if case.qps == "stock" else f"QPS {case.qps}"
    return f"{load.nodes} nodes, {load.gangs} gangs of {load.size}, {qps}"


def show(comparison: Comparison, console: Console) -> None:
    """Print the table of one case, and the notes of its runs."""
    console.print(table(comparison))
    for result in comparison.results:
        for note in result.notes:
            console.print(f"  {result.title}, repeat {result.repeat}: {note}")


def table(comparison: Comparison) -> Table:
    """Return measures as lines and sides as columns: medians, and the spread of repeats."""
    sides = comparison.sides()
    made = Table(title=title(comparison.case), title_justify="left")
    made.add_column("")
    for side in sides:
        made.add_column(comparison.of(side)[0].title, justify="right")
    for row in _rows(comparison):
        cells = [
            cell([row.value(each) for each in comparison.of(side)], row.form) for side in sides
        ]
        if any(cells):
            made.add_row(row.name, *cells)
    return made


def cell(values: Sequence[float | None], form: str) -> str:
    """Return the median, with lowest and highest where they differ from it; "" without any."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    text, low, high = (form.format(value) for value in (median(known), min(known), max(known)))
    return text if low == text == high else f"{text} ({low}..{high})"


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
    rates: Mapping[str, Value] = {"pods_per_second": _rate, "pods_per_second_from_ready": _ready}
    run: dict[str, Any] = msgspec.to_builtins(result)
    for name, value in rates.items():
        run[name] = value(result)
        run[f"{name}_ratio"] = comparison.ratio(result, value)
    return run


def _rate(result: Result) -> float:
    return result.pods_per_second


def _ready(result: Result) -> float:
    return result.pods_per_second_from_ready


def _rows(comparison: Comparison) -> list[Row]:
    return [
        Row("pods/s, scheduler ready to last", _ready),
        Row("  ratio", lambda each: comparison.ratio(each, _ready), "{:.2f}"),
        Row("pods/s, first to last", _rate),
        Row("  ratio", lambda each: comparison.ratio(each, _rate), "{:.2f}"),
        Row("seconds, scheduler ready to last", lambda each: each.ready_seconds, "{:.1f}"),
        Row("seconds, first to last", lambda each: each.seconds, "{:.1f}"),
        Row("pods scheduled", lambda each: each.scheduled),
        Row("scheduling attempts per pod", _attempts, "{:.2f}"),
        Row("gangs whole", lambda each: each.gangs.whole),
        Row("gangs partial at the end", lambda each: each.gangs.partial),
        Row("gangs partial at once, at most", lambda each: each.gangs.partial_peak),
        Row("gang, first to last pod, ms", _spread),
        Row("filter calls per pod", _filter_calls, "{:.2f}"),
        *_latency_rows("filter", lambda each: each.filter),
        *_latency_rows("bind", lambda each: each.bind),
        *(Row(f"CPU s, {name}", _cpu(name), "{:.1f}") for name in _PROCESSES),
        *(Row(f"peak MiB, {name}", _peak(name)) for name in _PROCESSES[:-1]),
    ]


def _latency_rows(name: str, latency: Callable[[Result], Latency | None]) -> list[Row]:
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


def _attempts(result: Result) -> float | None:
    return result.attempts / result.scheduled if result.attempts and result.scheduled else None


def _spread(result: Result) -> float | None:
    seconds = result.gangs.spread_seconds
    return None if seconds is None else seconds * 1000


def _filter_calls(result: Result) -> float | None:
    return result.filter.count / result.scheduled if result.filter and result.scheduled else None


def _cpu(process: str) -> Value:
    return lambda result: result.cpu_seconds.get(process)


def _peak(process: str) -> Value:
    return lambda result: result.peak_mib.get(process)
