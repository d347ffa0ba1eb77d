"""`python -m tests.bench.loop`: how long one step of either process holds its event loop.

kube-scheduler waits for the loop of `serve`, and health, leases and the queue for that of
`reconcile`. Both run as `gang-extender` runs them, against a stand-in that lists, watches and takes
writes, with 5000 nodes and 100,000 pods, gangs that wait, and 800 ClusterQueues of 16 heads. What
is counted is the CPU of the loop's thread, so that other work on the machine changes little.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from tests.bench.loop.scenes import SCENES, Row, Sizes, run
from tests.bench.loop.steps import SLOW_SECONDS
from tests.bench.series import Progress

DEFAULT: Final = Sizes()
KNOWN: Final = [scene.name for scene in SCENES]
LIMIT: Final = 1000 * SLOW_SECONDS

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
    console = Console(width=140)
    console.print(table(rows))
    for fault in too_long(rows):
        console.print(fault, highlight=False)


def table(rows: Sequence[Row]) -> Table:
    """Return a table; what is over the limit is marked."""
    made = Table(title="Longest step and sum of all, in ms of CPU", title_justify="left")
    for name in ("", "longest", "sum", "over", "garbage", "MiB"):
        made.add_column(name, justify="left" if not name else "right")
    for row in rows:
        made.add_row(
            row.name,
            f"{row.longest:.0f}{' !' if row.longest > LIMIT else ''}",
            f"{row.total:.0f}",
            str(row.slow),
            f"{row.collection:.0f}",
            f"{row.resident / 2**20:.0f}",
        )
    return made


def too_long(rows: Sequence[Row]) -> list[str]:
    """Return, as sentences, which steps were too long."""
    return [
        f"{row.name}: a step of {row.longest:.0f} ms in {row.where}"
        for row in rows
        if row.longest > LIMIT
    ]


if __name__ == "__main__":
    app()
