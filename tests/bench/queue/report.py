"""The results, for people as a table and for machines as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec
from rich.table import Table

from tests.bench.queue.load import Load
from tests.bench.queue.runs import Result
from tests.bench.report import cell

_PROCESSES = ("controller", "apiserver", "etcd", "generator", "runner")


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
    """Return measures as lines and controllers as columns: medians, and the spread of repeats."""
    columns: dict[str, list[Result]] = {}
    for result in results:
        columns.setdefault(result.controller, []).append(result)
    made = Table(title=title(load, name), title_justify="left")
    made.add_column("")
    for column in columns.values():
        made.add_column(column[0].title, justify="right")
    for text, form, values in _rows(load):
        cells = [cell([values(each) for each in column], form) for column in columns.values()]
        if any(cells):
            made.add_row(text, *cells)
    return made


def _rows(load: Load) -> list[tuple[str, str, Any]]:
    return [
        ("Workloads/s, first created to last finished", "{:.1f}", _rate),
        ("seconds, first created to last finished", "{:.1f}", lambda each: each.seconds),
        ("Workloads finished", "{:.0f}", lambda each: each.measures.finished),
        *(row for kind in load.classes() for row in _wait_rows(kind)),
        ("mean use of the quota, %", "{:.1f}", lambda each: each.measures.usage * 100),
        ("evictions", "{:.0f}", lambda each: each.measures.evictions),
        ("API writes per Workload", "{:.2f}", lambda each: each.writes_per_workload),
        ("events with more than the quota", "{:.0f}", lambda each: each.measures.broken),
        *((f"CPU s, {name}", "{:.1f}", _of("cpu_seconds", name)) for name in _PROCESSES),
        *((f"peak MiB, {name}", "{:.0f}", _of("peak_mib", name)) for name in _PROCESSES),
        ("seconds of creating", "{:.1f}", lambda each: each.generation_seconds),
    ]


def _wait_rows(kind: str) -> list[tuple[str, str, Any]]:
    def of(field: str) -> Any:
        def value(result: Result) -> float | None:
            return getattr(result.measures.waits.get(kind), field, None)

        return value

    return [
        (f"seconds to admission, {kind}, mean", "{:.2f}", of("mean")),
        (f"seconds to admission, {kind}, p99", "{:.2f}", of("p99")),
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
