"""The results, for people as a table and for machines as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.table import Table

from tests.bench import tables
from tests.bench.preempt.load import Load
from tests.bench.preempt.runs import Result
from tests.bench.results import STOCK
from tests.bench.tables import Row

_PROCESSES = ("scheduler", "extender", "reconciler", "apiserver", "etcd", "bench")

Value = Callable[[Result], float | None]


def title(load: Load, qps: str) -> str:
    """Return the load in one line."""
    turn = " in turn" if load.interleave else ""
    return (
        f"{load.nodes} nodes full of {load.gangs} gangs of {load.size}{turn}, then "
        f"{load.preemptors} of higher priority, {'stock QPS' if qps == STOCK else f'QPS {qps}'}"
    )


def table(results: Sequence[Result], load: Load, qps: str) -> Table:
    """Return measures as lines and sides as columns."""
    columns = tables.columns(results, lambda each: each.side)
    return tables.table(title(load, qps), columns, _rows(), heading=lambda each: each.title)


def summary(result: Result) -> str:
    """Return one line about a run."""
    made = result.measures
    seconds = "not all bound" if made.seconds is None else f"{made.seconds:.1f} s"
    return (
        f"{seconds}, {made.whole} of {result.load.preemptors} gangs whole, {made.evictions} "
        f"evictions of {result.load.wanted}, partial gangs left behind: {made.left_partial}, "
        f"overcommits: {len(result.overcommits)}"
    )


def as_builtins(results: Sequence[Result], load: Load, qps: str) -> dict[str, Any]:
    """Return everything that was measured, as JSON has it."""
    runs = [{**msgspec.to_builtins(each), "faults": each.faults} for each in results]
    return {"title": title(load, qps), "load": msgspec.to_builtins(load), "runs": runs}


def _rows() -> list[Row[Result]]:
    return [
        Row("seconds, first created to last on a node", lambda r: r.measures.seconds, "{:.1f}"),
        Row(
            "seconds, last created to last on a node",
            lambda r: r.measures.seconds_from_last,
            "{:.1f}",
        ),
        Row("pods of high priority on nodes", lambda r: r.measures.bound),
        Row("gangs of high priority whole", lambda r: r.measures.whole),
        Row("gangs of high priority partial", lambda r: r.measures.partial),
        Row("evictions", lambda r: r.measures.evictions),
        Row("evictions, at least", lambda r: r.load.wanted),
        Row("gangs that lost pods", lambda r: r.measures.gangs_hit),
        Row("gangs that lost pods, at least", lambda r: r.load.preemptors),
        Row("partial gangs left behind", lambda r: r.measures.left_partial),
        Row("overcommits", lambda r: len(r.overcommits)),
        Row("collisions", lambda r: r.collisions),
        Row("scheduling attempts per pod", _attempts, "{:.2f}"),
        *(Row(f"CPU s, {name}", _cpu(name), "{:.1f}") for name in _PROCESSES),
        *(Row(f"peak MiB, {name}", _peak(name)) for name in _PROCESSES[:-1]),
    ]


def _attempts(result: Result) -> float | None:
    return result.attempts / result.load.wanted if result.attempts else None


def _cpu(name: str) -> Value:
    return lambda each: each.cpu_seconds.get(name)


def _peak(name: str) -> Value:
    return lambda each: each.peak_mib.get(name)
