"""`python -m tests.bench.extender`: what a pod costs the extender, with nothing else in the way.

`gang-extender serve` runs as it does in a cluster, between stand-ins for kube-scheduler and the API
server that are processes of their own and answer at once. Gangs come one after the other while
100,000 pods run. The stand-in for the API server adds up what is bound: exit code 1 says that a
gang is partial, a pod was bound twice or has two Events about it, a node is overcommitted, or a run
did not come to its end.
"""

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from rich.console import Console

from tests.bench.extender import report
from tests.bench.extender.runs import Limits, Result, measure
from tests.bench.extender.scene import Scene
from tests.bench.progress import Progress

_LIMITS: Final = Limits()
_MOST_PODS: Final = 100_000

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    *,
    nodes: Annotated[str, typer.Option(help="Numbers of nodes, with commas.")] = "1000,5000,20000",
    running: Annotated[int, typer.Option(min=0, help="Pods that run from the start.")] = 100_000,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs that come.")] = 100,
    size: Annotated[int, typer.Option(min=1, help="Members of a gang.")] = 50,
    ahead: Annotated[int, typer.Option(min=1, help="Gangs that wait at any time.")] = 10,
    plain: Annotated[
        int, typer.Option(min=0, help="Pods of no gang that come after each gang.")
    ] = 0,
    lag: Annotated[
        float, typer.Option(min=0, help="Milliseconds after which changes reach kube-scheduler.")
    ] = 0,
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs of each, in turn.")] = 3,
    config: Annotated[
        Path | None, typer.Option(exists=True, help="Configuration of the extender.")
    ] = None,
    limit: Annotated[float, typer.Option(help="Most seconds of scheduling in a run.")] = (
        _LIMITS.run
    ),
    total: Annotated[float, typer.Option(help="No run begins after so many seconds.")] = 1800,
    json: Annotated[Path | None, typer.Option(help="Write all results there.")] = None,
) -> None:
    scenes = [
        _scene(count, running=running, gangs=gangs, size=size, ahead=ahead, plain=plain)
        for count in _numbers(nodes)
    ]
    settings: dict[str, Any] = yaml.safe_load(config.read_text()) if config else {}
    progress, until = Progress(), time.monotonic() + total
    results: list[Result] = []
    for repeat in range(1, runs + 1):
        for scene in scenes:
            if time.monotonic() > until:
                progress.say(f"{scene.nodes} nodes, run {repeat}: left out, the time is up")
                continue
            found = measure(
                scene,
                repeat=repeat,
                settings=settings,
                limits=Limits(run=limit),
                progress=progress,
                lag=lag / 1000,
            )
            progress.say(report.line(found))
            results.append(found)
            if json is not None:
                json.write_bytes(report.as_json(results))
    console = Console(width=140)
    console.print(report.table(results))
    if faults := report.faults(results):
        console.print("\n".join(faults), highlight=False, markup=False)
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--nodes: {text!r} are no numbers") from None
    if not all(1 <= each <= _MOST_PODS for each in found):
        raise typer.BadParameter(f"--nodes: from 1 to {_MOST_PODS}")
    return found


def _scene(nodes: int, *, running: int, gangs: int, size: int, ahead: int, plain: int) -> Scene:
    scene = Scene(nodes=nodes, running=running, gangs=gangs, size=size, ahead=ahead, plain=plain)
    if scene.pods > min(scene.room, _MOST_PODS):
        most = min(scene.room, _MOST_PODS)
        raise typer.BadParameter(f"{nodes} nodes: {scene.pods} pods come, {most} have room")
    return scene


if __name__ == "__main__":
    app()
