"""The results, for people as a table and for machines as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.table import Table

from tests.bench import tables
from tests.bench.jobs.load import Load
from tests.bench.jobs.measures import Times
from tests.bench.jobs.runs import Result
from tests.bench.tables import Row

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
    """Return measures as lines and sides as columns."""
    columns = tables.columns(results, lambda each: each.side)
    return tables.table(title(load), columns, _rows(), heading=lambda each: each.title)


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


def _rows() -> list[Row[Result]]:
    return [
        Row("Jobs/s, first created to last Complete", lambda each: each.jobs_per_second, "{:.2f}"),
        Row("seconds, first created to last Complete", lambda each: each.seconds, "{:.1f}"),
        Row("Jobs complete", lambda each: each.measures.complete),
        *_times("created to admitted", lambda each: each.measures.to_admission),
        *_times("created to Complete", lambda each: each.measures.to_complete),
        *_times("admitted to Complete", lambda each: each.measures.running),
        Row("mean use of the quota, %", lambda each: each.measures.usage * 100, "{:.1f}"),
        Row("evictions", lambda each: each.measures.evictions),
        Row("events with more than the quota", lambda each: each.measures.broken),
        Row("API writes for each Job", lambda each: each.for_each(each.writes), "{:.2f}"),
        Row("API reads for each Job", lambda each: each.for_each(each.reads), "{:.2f}"),
        *(Row(f"CPU s, {name}", _cpu(name), "{:.1f}") for name in _PROCESSES),
        *(Row(f"peak MiB, {name}", _peak(name)) for name in _MEASURED),
    ]


def _times(text: str, times: Callable[[Result], Times | None]) -> list[Row[Result]]:
    def of(field: str) -> Value:
        return lambda each: getattr(times(each), field, None)

    return [
        Row(f"seconds, {text}, median", of("median"), "{:.2f}"),
        Row(f"seconds, {text}, p99", of("p99"), "{:.2f}"),
    ]


def _cpu(name: str) -> Value:
    return lambda each: each.cpu_seconds.get(name)


def _peak(name: str) -> Value:
    return lambda each: each.peak_mib.get(name)
