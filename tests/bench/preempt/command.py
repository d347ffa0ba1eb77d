"""What `python -m tests.bench --preempt` runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console

from tests.bench.preempt.bench import Bench
from tests.bench.preempt.load import Load, LoadError
from tests.bench.preempt.runs import with_reconciler
from tests.bench.runs import Limits
from tests.bench.shapes import Shape
from tests.bench.sides import OFF, OPEN, OURS, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the options ask for: each of several is run."""

    nodes: Sequence[int]
    shapes: Sequence[Shape]
    qps: Sequence[str]
    preemptors: int
    node_cpu: str
    interleave: bool


def benches(
    wanted: Wanted,
    compared: Sequence[Side],
    settings: Mapping[str, Any] | None,
    *,
    limits: Limits,
    repeat: int,
) -> list[Bench]:
    """Return what is to be run; typer.BadParameter where the gangs cannot fill the nodes."""
    loads = [_load(wanted, nodes, shape) for nodes in wanted.nodes for shape in wanted.shapes]
    sides = [
        with_reconciler(side, settings) if side.key in {OURS, OPEN, OFF} else side
        for side in compared
    ]
    return [
        Bench(load, qps, sides, limits=limits, repeat=repeat)
        for qps in wanted.qps
        for load in loads
    ]


def run(benches: Sequence[Bench], results: Path | None) -> int:
    """Run them, print and write what came of it, and return the exit code."""

    def save() -> None:
        if results:
            document = [each.as_builtins() for each in benches if each.results]
            results.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))

    for each in benches:
        each.run(save)
    console = Console()
    for each in benches:
        each.show(console)
    failures = [sentence for each in benches for sentence in each.failures]
    for sentence in failures:
        console.print(f"FAILED: {sentence}", style="bold red")
    return 1 if failures else 0


def _load(wanted: Wanted, nodes: int, shape: Shape) -> Load:
    if shape.churn:
        raise typer.BadParameter("--preempt does not go with churn")
    try:
        return Load(
            nodes=nodes,
            gangs=shape.gangs,
            size=shape.size,
            preemptors=wanted.preemptors,
            node_cpu=wanted.node_cpu,
            interleave=wanted.interleave,
        )
    except LoadError as error:
        raise typer.BadParameter(str(error)) from error
