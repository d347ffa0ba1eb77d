"""`python -m tests.bench.loop`: how long one step of either process holds its event loop.

kube-scheduler waits for the loop of `serve`, and health, leases and the queue for that of
`reconcile`. Both run as `gang-extender` runs them, against a stand-in that lists, watches and takes
writes, with 5000 nodes and 100,000 pods, gangs that wait, and 800 ClusterQueues of 16 heads. What
is counted is the CPU of the loop's thread, so that other work on the machine changes little. Beside
each figure is that of the commit before this benchmark, from tests/bench/loop/before.json.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.bench.loop import report
from tests.bench.loop.scenes import SCENES, Row, Sizes, run
from tests.bench.progress import Progress

DEFAULT: Final = Sizes()
KNOWN: Final = [scene.name for scene in SCENES]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"One scene, once for each: {', '.join(KNOWN)}. Default all."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=100, help="Nodes.")] = DEFAULT.nodes,
    pods: Annotated[int, typer.Option(min=1000, help="Pods on them.")] = DEFAULT.pods,
    queues: Annotated[int, typer.Option(min=8, help="ClusterQueues.")] = DEFAULT.queues,
    seconds: Annotated[
        int, typer.Option(min=1, help="For how long a node is relabelled each second.")
    ] = DEFAULT.seconds,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where a step is over 50 ms.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="File for the figures, as JSON.")] = None,
    how: Annotated[str, typer.Option(help="How they were measured, for that file.")] = "",
) -> None:
    """Play the scenes and print the table."""
    unknown = set(only or ()) - set(KNOWN)
    if unknown:
        raise typer.BadParameter(f"no scene {sorted(unknown)}; there are {KNOWN}")
    sizes = Sizes(nodes=nodes, pods=pods, queues=queues, seconds=seconds)
    sizes = replace(sizes, zone=min(sizes.zone, nodes // 5))
    progress, rows = Progress(), list[Row]()
    for scene in SCENES:
        if not only or scene.name in only:
            rows += run(scene, sizes, progress.say)
            if save is not None:
                report.write(save, rows, how=how)
    console = Console(width=140)
    before = report.read(report.BEFORE) if report.BEFORE.exists() else {}
    console.print(report.table(rows, before))
    faults = report.too_long(rows)
    for fault in faults:
        console.print(fault, highlight=False)
    if strict and faults:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
