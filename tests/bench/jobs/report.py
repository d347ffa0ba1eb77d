"""The results as a table: measures as lines, sides as columns, ratios to the other queue."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.table import Table

from tests.bench.jobs.load import Load
from tests.bench.jobs.measures import Times
from tests.bench.jobs.runs import Result
from tests.bench.report import cell

_PROCESSES = (
    "controller",
    "extender",
    "apiserver",
    "etcd",
    "controller-manager",
    "kube-scheduler",
    "kwok",
    "bench",
)
_MEASURED = ("controller", "extender", "apiserver")
_LEAST_FOR_EACH = 0.01

Value = Callable[[Result], float | None]


def title(load: Load) -> str:
    """Return the load in one line."""
    rate = f"{load.rate:g} created each second" if load.rate else "created at once"
    return (
        f"{load.jobs} Jobs of {load.pods} pods of {load.runtime:g} s, {rate}, "
        f"quota for {load.at_once}"
    )


def table(results: Sequence[Result], load: Load) -> Table:
    """Return measures as lines and sides as columns: medians, and the spread of repeats."""
    columns: dict[str, list[Result]] = {}
    for result in results:
        columns.setdefault(result.side, []).append(result)
    made = Table(title=title(load), title_justify="left")
    made.add_column("")
    for column in columns.values():
        made.add_column(column[0].title, justify="right")
    for text, form, value in _rows():
        cells = [cell([value(each) for each in column], form) for column in columns.values()]
        if any(cells):
            made.add_row(text, *cells)
    return made


def notes(results: Sequence[Result]) -> list[str]:
    """Return what the requests were, and what is to be known of single runs."""
    lines = []
    for each in results:
        name = f"{each.title}, repeat {each.repeat}"
        for what, counts in (("writes", each.writes), ("reads", each.reads)):
            complete = max(each.measures.complete, 1)
            found = (
                f"{count / complete:.2f} {kind}"
                for kind, count in counts.items()
                if count / complete >= _LEAST_FOR_EACH
            )
            lines.append(f"{name}: {what} for each Job: {', '.join(found) or 'none'}")
        if each.note:
            lines.append(f"{name}: {each.note}")
    return lines


def as_builtins(results: Sequence[Result], load: Load) -> dict[str, Any]:
    """Return everything that was measured, as JSON has it."""
    return {
        "title": title(load),
        "load": msgspec.to_builtins(load),
        "runs": [
            {
                **msgspec.to_builtins(each),
                "seconds": each.seconds,
                "jobs_per_second": each.jobs_per_second,
                "faults": each.faults,
            }
            for each in results
        ],
    }


def _rows() -> list[tuple[str, str, Value]]:
    return [
        ("Jobs/s, first created to last Complete", "{:.2f}", lambda each: each.jobs_per_second),
        ("seconds, first created to last Complete", "{:.1f}", lambda each: each.seconds),
        ("Jobs complete", "{:.0f}", lambda each: each.measures.complete),
        *_times("created to admitted", lambda each: each.measures.to_admission),
        *_times("created to Complete", lambda each: each.measures.to_complete),
        *_times("admitted to Complete", lambda each: each.measures.running),
        ("mean use of the quota, %", "{:.1f}", lambda each: each.measures.usage * 100),
        ("evictions", "{:.0f}", lambda each: each.measures.evictions),
        ("events with more than the quota", "{:.0f}", lambda each: each.measures.broken),
        ("API writes for each Job", "{:.2f}", lambda each: each.for_each(each.writes)),
        ("API reads for each Job", "{:.2f}", lambda each: each.for_each(each.reads)),
        *((f"CPU s, {name}", "{:.1f}", _cpu(name)) for name in _PROCESSES),
        *((f"peak MiB, {name}", "{:.0f}", _peak(name)) for name in _MEASURED),
    ]


def _times(text: str, times: Callable[[Result], Times | None]) -> list[tuple[str, str, Value]]:
    def of(field: str) -> Value:
        return lambda each: getattr(times(each), field, None)

    return [
        (f"seconds, {text}, median", "{:.2f}", of("median")),
        (f"seconds, {text}, p99", "{:.2f}", of("p99")),
    ]


def _cpu(name: str) -> Value:
    return lambda each: each.cpu_seconds.get(name)


def _peak(name: str) -> Value:
    return lambda each: each.peak_mib.get(name)
