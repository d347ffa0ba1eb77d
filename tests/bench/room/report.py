"""The results as a table: measures as lines, modes as columns, ratios to quota alone."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import msgspec
from rich.table import Table

from tests.bench import tables
from tests.bench.room.load import Load
from tests.bench.room.modes import QUOTA
from tests.bench.room.runs import Result
from tests.bench.tables import Row, cell

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
    """Return measures as lines and modes as columns; beside a value its ratio to quota alone."""
    columns = tables.columns(results, lambda each: each.mode)
    base = next((runs for runs in columns if runs[0].mode == QUOTA), None)
    made = Table(title=title(load, name), title_justify="left")
    made.add_column("")
    for runs in columns:
        made.add_column(runs[0].title, justify="right")
    for row in _rows(load):
        made.add_row(row.name, *(_cell(runs, base, row) for runs in columns))
    return made


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
            {
                **msgspec.to_builtins(each),
                "jobs_per_second": each.jobs_per_second,
                "faults": each.faults,
            }
            for each in results
        ],
    }


def _rows(load: Load) -> list[Row[Result]]:
    classes = [each.class_name for each in load.classes]
    return [
        Row("Jobs finished/s", lambda each: each.jobs_per_second, "{:.2f}"),
        *(Row(f"  {kind}", _rate(kind), "{:.2f}") for kind in classes),
        Row("finished work, % of free CPU", lambda e: e.measures.useful * 100, "{:.1f}"),
        Row("node usage, % of free CPU", lambda e: e.measures.usage.used * 100, "{:.1f}"),
        Row("  by Jobs not all on nodes", lambda e: e.measures.usage.idle * 100, "{:.1f}"),
        Row("Workloads", lambda each: each.measures.made),
        Row("  waited: quota and no room", lambda each: each.measures.without_room),
        Row("admissions", lambda each: each.measures.admitted),
        *(Row(f"  {kind}", _of_class(kind, "admitted")) for kind in classes),
        Row("then waited for room", lambda each: each.measures.waited),
        *(Row(f"  {kind}", _of_class(kind, "waited")) for kind in classes),
        Row("  sent back for that", lambda each: each.measures.timeouts),
        Row("s until all are made, median", lambda e: e.measures.median_made_seconds, "{:.2f}"),
        Row("s until all on nodes, median", lambda e: e.measures.median_seconds, "{:.2f}"),
        Row("s until all on nodes, most", _most_seconds, "{:.2f}"),
        *(Row(f"CPU s, {name}", _cpu(name), "{:.1f}") for name in _PROCESSES),
    ]


def _cell(runs: Sequence[Result], base: Sequence[Result] | None, row: Row[Result]) -> str:
    """Return the median of the runs and its ratio to that of the base."""
    text = cell([row.value(each) for each in runs], row.form)
    if base is None or base is runs:
        return text
    found, before = _median(runs, row.value), _median(base, row.value)
    return text if found is None or not before else f"{text}  x{found / before:.2f}"


def _median(runs: Sequence[Result], value: Value) -> float | None:
    known = [found for each in runs if (found := value(each)) is not None]
    return median(known) if known else None


def _rate(kind: str) -> Value:
    return lambda each: each.of_class(kind)


def _of_class(kind: str, field: str) -> Value:
    return lambda each: float(getattr(each.measures.classes[kind], field))


def _most_seconds(result: Result) -> float | None:
    return max(result.measures.seconds, default=None)


def _cpu(name: str) -> Value:
    return lambda each: each.cpu_seconds.get(name)
