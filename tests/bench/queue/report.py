"""The results, for people as a table and for machines as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec
from rich.table import Table

from tests.bench import tables
from tests.bench.queue.load import Load
from tests.bench.queue.runs import Result
from tests.bench.tables import Row

_PROCESSES = ("controller", "apiserver", "etcd", "generator", "runner")

Value = Callable[[Result], float | None]


@dataclass(frozen=True, slots=True)
class Reference:
    """What another machine of two cores once measured; seconds are means, by class."""

    title: str
    workloads_per_second: float
    wait_seconds: dict[str, float]
    cpu_seconds: float
    peak_mib: float


KUEUE = Reference(
    title="Kueue with its default settings",
    workloads_per_second=38.0,
    wait_seconds={"large": 30.0, "medium": 101.0, "small": 230.0},
    cpu_seconds=109.0,
    peak_mib=640.0,
)


def title(load: Load, name: str) -> str:
    """Return the load in one line."""
    queues = list(load.queues())
    cohorts = len({queue.cohort for queue in queues})
    return f"{name}: {load.workloads} Workloads, {len(queues)} queues in {cohorts} cohorts"


def table(results: Sequence[Result], load: Load, name: str) -> Table:
    """Return measures as lines and controllers as columns."""
    columns = tables.columns(results, lambda each: each.controller)
    return tables.table(title(load, name), columns, _rows(load), heading=lambda each: each.title)


def _rows(load: Load) -> list[Row[Result]]:
    return [
        Row("Workloads/s, first created to last finished", _rate, "{:.1f}"),
        Row("seconds, first created to last finished", lambda each: each.seconds, "{:.1f}"),
        Row("Workloads finished", lambda each: each.measures.finished),
        *(row for kind in load.classes() for row in _wait_rows(kind)),
        Row("mean use of the quota, %", lambda each: each.measures.usage * 100, "{:.1f}"),
        Row("evictions", lambda each: each.measures.evictions),
        Row("API writes per Workload", lambda each: each.writes_per_workload, "{:.2f}"),
        Row("events with more than the quota", lambda each: each.measures.broken),
        *(Row(f"CPU s, {name}", _of("cpu_seconds", name), "{:.1f}") for name in _PROCESSES),
        *(Row(f"peak MiB, {name}", _of("peak_mib", name)) for name in _PROCESSES),
        Row("seconds of creating", lambda each: each.generation_seconds, "{:.1f}"),
    ]


def _wait_rows(kind: str) -> list[Row[Result]]:
    def of(field: str) -> Value:
        return lambda each: getattr(each.measures.waits.get(kind), field, None)

    return [
        Row(f"seconds to admission, {kind}, mean", of("mean"), "{:.2f}"),
        Row(f"seconds to admission, {kind}, p99", of("p99"), "{:.2f}"),
    ]


def _rate(result: Result) -> float:
    return result.workloads_per_second


def _of(field: str, name: str) -> Any:
    return lambda result: getattr(result, field).get(name)


def notes(results: Sequence[Result]) -> list[str]:
    """Return what is to be known of single runs, and what the writes were."""
    lines = []
    for each in results:
        run = f"{each.title}, repeat {each.repeat}"
        written = ", ".join(f"{count} {what}" for what, count in each.writes.items())
        lines.append(f"{run}: writes: {written or 'none'}")
        lines += [f"{run}: {note}" for note in each.notes]
    return lines


def compared(results: Sequence[Result], reference: Reference) -> list[str]:
    """Return what the runs are relative to a reference, which is another machine's."""
    lines = [
        f"{reference.title}, run on another 2-core machine: "
        f"{reference.workloads_per_second:g} Workloads/s, mean seconds to admission "
        + ", ".join(f"{kind} {wait:g}" for kind, wait in reference.wait_seconds.items())
        + f", {reference.cpu_seconds:g} CPU s, {reference.peak_mib:g} MiB. Relative to that run:"
    ]
    for name in dict.fromkeys(each.title for each in results):
        runs = [each for each in results if each.title == name]
        ratios = {
            "Workloads/s": median(map(_rate, runs)) / reference.workloads_per_second,
            **{
                f"wait of {kind}": median(waits) / wait
                for kind, wait in reference.wait_seconds.items()
                if (
                    waits := [r.measures.waits[kind].mean for r in runs if kind in r.measures.waits]
                )
            },
            "CPU": median(_of("cpu_seconds", "controller")(each) for each in runs)
            / reference.cpu_seconds,
            "memory": median(_of("peak_mib", "controller")(each) for each in runs)
            / reference.peak_mib,
        }
        lines.append(
            f"{name}: " + ", ".join(f"{what} x{each:.2f}" for what, each in ratios.items())
        )
    return lines


def as_builtins(results: Sequence[Result], load: Load, name: str) -> dict[str, Any]:
    """Return everything that was measured, as JSON has it."""
    return {
        "title": title(load, name),
        "load": load.model_dump(mode="json", by_alias=True),
        "runs": [_run(each) for each in results],
    }


def _run(result: Result) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(result),
        "seconds": result.seconds,
        "workloads_per_second": result.workloads_per_second,
        "writes_per_workload": result.writes_per_workload,
        "faults": result.faults,
    }
