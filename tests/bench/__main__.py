"""`python -m tests.bench`: the same load for kube-scheduler, without our extender and with it.

Every run has a control plane of its own. Tables go to standard output, progress to standard
error. Books of nodes are kept beside each run, apart from what is measured. Exit code 1 says that
a gang of ours was not whole in the end, that a pod of one that cannot fit was bound, that a node
was overcommitted, or that a run failed. With --preempt it says so too where ours evicted other than
as few pods as make room, or left a gang of low priority in part.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from tests.bench import load as loads
from tests.bench import preempt as preemption
from tests.bench import sides
from tests.bench.creation import Pace, PaceError
from tests.bench.load import Load, Shape
from tests.bench.runs import STOCK, Bench, Case
from tests.bench.series import Limits, Series, play
from tests.harness.toolchain import ensure_binaries

# At the stock QPS the plain kube-scheduler binds some 50 pods a second, whatever there is to do.
_NODES = {STOCK: "500", "fast": "1000,5000", "preempt": "1000"}
_SHAPES = {STOCK: "40x50", "fast": "100x50", "preempt": "100x50"}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    nodes: Annotated[
        str, typer.Option(help="Numbers of nodes; default 1000,5000, and 500 at the stock QPS.")
    ] = "",
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help="GANGSxSIZE, or churn:GANGSxSIZE for as many gangs again that cannot fit; "
            "`churn` is churn:50x50, `all` are those of docs/benchmarks.md. Several: with "
            "commas or again. Default 100x50, and 40x50 at the stock QPS."
        ),
    ] = None,
    qps: Annotated[
        str,
        typer.Option(
            help="QPS of the scheduler's client, `stock` or numbers; burst is twice that."
        ),
    ] = "stock,1000",
    arrive: Annotated[
        str,
        typer.Option(
            help="Create gangs as Jobs while the scheduler runs: `burst` (one after the other at "
            "once), or gangs a second. Several with commas."
        ),
    ] = "",
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, in turn.")] = 1,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare",
            help="One more column: the same Bindings, written without any scheduler, each gang's "
            "when all its pods are there.",
        ),
    ] = False,
    native: Annotated[
        bool,
        typer.Option(
            "--native",
            help="Gangs of Kubernetes' own PodGroups, which kube-scheduler schedules itself: "
            "alone, and with the extender beside it.",
        ),
    ] = False,
    preempt: Annotated[
        bool,
        typer.Option(
            "--preempt",
            help="Fill the nodes with gangs of low priority (of a pod's CPU as much as fills "
            "them), and then create gangs of high priority: seconds and evictions. Default "
            "1000 nodes and 100x50.",
        ),
    ] = False,
    preemptors: Annotated[
        int, typer.Option(min=1, help="With --preempt: how many gangs of high priority.")
    ] = 20,
    limit: Annotated[float, typer.Option(help="Most seconds of scheduling in a run.")] = 300,
    json: Annotated[Path | None, typer.Option(help="Write all results there.")] = None,
    extender_config: Annotated[
        Path | None, typer.Option(exists=True, help="Configuration of our extender.")
    ] = None,
    peer: Annotated[
        Path | None, typer.Option(exists=True, help="Another scheduler, as one more column.")
    ] = None,
    peer_config: Annotated[
        Path | None, typer.Option(exists=True, help="Its KubeSchedulerConfiguration.")
    ] = None,
    peer_name: Annotated[str, typer.Option(help="What its column is called.")] = "peer",
) -> None:
    settings = yaml.safe_load(extender_config.read_text()) if extender_config else None
    if native and any((arrive, preempt, peer)):
        raise typer.BadParameter("--native goes with no --arrive, --preempt or --peer")
    if preempt and (arrive or bare):
        raise typer.BadParameter("--preempt goes neither with --arrive nor with --bare")
    compared = [sides.plain(native=native), sides.ours(settings, native=native)]
    compared += [sides.bare()] * bare
    if peer:
        if peer_config is None:
            raise typer.BadParameter("--peer needs --peer-config")
        compared.append(sides.peer(peer, peer_config, name=peer_name))
    limits = Limits(run=limit)
    benches: list[Series[Any, Any]] = []
    try:
        for rate, count, each in _loads(nodes, shape, _qps(qps), preempt=preempt):
            if preempt:
                full = _full(each, nodes=count, preemptors=preemptors)
                benches.append(
                    preemption.Bench(full, rate, compared, settings, limits=limits, repeat=repeat)
                )
            else:
                load = _load(each, nodes=count)
                benches += [
                    Bench(Case(load=load, qps=rate, pace=pace), compared, limits, repeat)
                    for pace in _paces(arrive, churn=each.churn)
                ]
    except (loads.LoadError, PaceError) as error:
        raise typer.BadParameter(str(error)) from error
    ensure_binaries()
    raise typer.Exit(play(benches, json))


def _loads(
    nodes: str, texts: Sequence[str] | None, rates: Sequence[str], *, preempt: bool
) -> Iterator[tuple[str, int, Shape]]:
    """Yield the QPS, the number of nodes and the shape of each load."""
    for rate in rates:
        kind = "preempt" if preempt else STOCK if rate == STOCK else "fast"
        shapes = loads.shapes(texts or [_SHAPES[kind]])
        yield from product([rate], _numbers(nodes or _NODES[kind]), shapes)


def _qps(text: str) -> list[str]:
    values = text.split(",")
    for value in values:
        if value != STOCK:
            _numbers(value)
    return values


def _paces(text: str, *, churn: bool) -> list[Pace | None]:
    if text and churn:
        raise typer.BadParameter("--arrive does not go with churn")
    return [Pace.parse(each) for each in text.split(",")] if text else [None]


def _load(shape: Shape, *, nodes: int) -> Load:
    load = Load(nodes=nodes, gangs=shape.gangs, size=shape.size)
    if load.pods > load.room:
        raise typer.BadParameter(f"{nodes} nodes take {load.room} pods, not {load.pods}")
    return load.churned() if shape.churn else load


def _full(shape: Shape, *, nodes: int, preemptors: int) -> preemption.Load:
    if shape.churn:
        raise typer.BadParameter("--preempt does not go with churn")
    return preemption.Load(nodes=nodes, gangs=shape.gangs, size=shape.size, preemptors=preemptors)


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers") from error


if __name__ == "__main__":
    app()
