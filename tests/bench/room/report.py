"""The results as a table: measures as lines, modes as columns, ratios to quota alone."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.table import Table

from tests.bench.room.load import Load
from tests.bench.room.modes import QUOTA, ROOM
from tests.bench.room.runs import Result

_GOAL = 1.5
_PROCESSES = (
    "reconciler",
    "extender",
    "kube-scheduler",
    "controller-manager",
    "apiserver",
    "etcd",
    "kwok",
)

Value = Callable[[Result], float | None]


def title(load: Load, name: str) -> str:
    """Return the load in one line."""
    nodes = sum(each.count for each in load.nodes)
    quota = " + ".join(f"{each / 1000:g}" for each in load.quotas.values())
    return (
        f"{name}: {load.free / 1000:g} CPU free on {nodes} nodes, quota {quota}, "
        f"{load.window_seconds:g} s"
    )


def table(results: Sequence[Result], load: Load, name: str) -> Table:
    """Return the measures of the modes; beside a value its ratio to quota alone."""
    made = Table(title=title(load, name), title_justify="left")
    made.add_column("")
    for each in results:
        made.add_column(each.title, justify="right")
    base = next((each for each in results if each.mode == QUOTA), None)
    for text, form, value in _rows(load):
        made.add_row(text, *(_cell(each, base, form, value) for each in results))
    return made


def faults(results: Sequence[Result]) -> list[str]:
    """Return, as sentences, the Jobs that were admitted by room and waited for it."""
    return [
        f"{each.title}: {each.measures.waited} of {each.measures.admitted} admissions waited for "
        "room"
        for each in results
        if each.mode == ROOM and each.measures.waited
    ]


def notes(load: Load) -> list[str]:
    """Return what the measures mean, and what is favoured."""
    return [
        f"goals, against quota alone: no admission that waits, usage not lower, {_GOAL} as many "
        "Jobs/s",
        f"waited for room: all pods made and {load.waited_seconds:g} s later not all on nodes, or "
        f"sent back after {load.pods_ready_timeout_seconds:g} s without being ready; a short "
        "time-out favours quota alone, the default is 30 minutes",
    ]


def as_builtins(results: Sequence[Result], load: Load, name: str) -> dict[str, Any]:
    """Return everything that was measured, as JSON has it."""
    return {
        "title": title(load, name),
        "load": load.model_dump(mode="json", by_alias=True),
        "runs": [
            {**msgspec.to_builtins(each), "jobs_per_second": each.jobs_per_second}
            for each in results
        ],
        "faults": faults(results),
    }


def _rows(load: Load) -> list[tuple[str, str, Value]]:
    classes = [each.class_name for each in load.classes]
    return [
        ("Jobs finished/s", "{:.2f}", lambda each: each.jobs_per_second),
        *((f"  {kind}", "{:.2f}", _rate(kind)) for kind in classes),
        ("finished work, % of free CPU", "{:.1f}", lambda e: e.measures.useful * 100),
        ("node usage, % of free CPU", "{:.1f}", lambda e: e.measures.usage.used * 100),
        ("  by Jobs not all on nodes", "{:.1f}", lambda e: e.measures.usage.idle * 100),
        ("Workloads", "{:.0f}", lambda each: each.measures.made),
        ("  waited: quota and no room", "{:.0f}", lambda e: e.measures.without_room),
        ("admissions", "{:.0f}", lambda each: each.measures.admitted),
        *((f"  {kind}", "{:.0f}", _of_class(kind, "admitted")) for kind in classes),
        ("then waited for room", "{:.0f}", lambda e: e.measures.waited),
        *((f"  {kind}", "{:.0f}", _of_class(kind, "waited")) for kind in classes),
        ("  sent back for that", "{:.0f}", lambda each: each.measures.timeouts),
        ("s until all are made, median", "{:.2f}", lambda e: e.measures.median_made_seconds),
        ("s until all on nodes, median", "{:.2f}", lambda e: e.measures.median_seconds),
        ("s until all on nodes, most", "{:.2f}", _most_seconds),
        *((f"CPU s, {name}", "{:.1f}", _cpu(name)) for name in _PROCESSES),
    ]


def _cell(result: Result, base: Result | None, form: str, value: Value) -> str:
    found = value(result)
    if found is None:
        return ""
    text = form.format(found)
    before = value(base) if base is not None and base is not result else None
    return f"{text}  x{found / before:.2f}" if before else text


def _rate(kind: str) -> Value:
    return lambda each: each.of_class(kind)


def _of_class(kind: str, field: str) -> Value:
    return lambda each: float(getattr(each.measures.classes[kind], field))


def _most_seconds(result: Result) -> float | None:
    return max(result.measures.seconds, default=None)


def _cpu(name: str) -> Value:
    return lambda each: each.cpu_seconds.get(name)
