"""`python -m tests.bench.extender`: what a pod costs the extender, with nothing else in the way.

`gang-extender serve` runs as it does in a cluster, between stand-ins for kube-scheduler and the API
server that are processes of their own and answer at once. Gangs come one after the other while
100,000 pods run. The stand-in for the API server adds up what is bound: exit code 1 says that a
gang is partial, a pod was bound twice or has two Events about it, a node is overcommitted, or a run
did not come to its end.
"""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from tests.bench.extender.runs import Bench
from tests.bench.extender.scene import Scene
from tests.bench.series import Limits, play

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
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs of each, in turn.")] = 3,
    config: Annotated[
        Path | None, typer.Option(exists=True, help="Configuration of the extender.")
    ] = None,
    limit: Annotated[float, typer.Option(help="Most seconds of scheduling in a run.")] = 300,
    json: Annotated[Path | None, typer.Option(help="Write all results there.")] = None,
) -> None:
    scenes = [
        _scene(count, running=running, gangs=gangs, size=size, ahead=ahead)
        for count in _numbers(nodes)
    ]
    settings: dict[str, Any] = yaml.safe_load(config.read_text()) if config else {}
    raise typer.Exit(play([Bench(scenes, settings, Limits(run=limit), runs)], json))


def _numbers(text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--nodes: {text!r} are no numbers") from None
    if not all(1 <= each <= _MOST_PODS for each in found):
        raise typer.BadParameter(f"--nodes: from 1 to {_MOST_PODS}")
    return found


def _scene(nodes: int, *, running: int, gangs: int, size: int, ahead: int) -> Scene:
    scene = Scene(nodes=nodes, running=running, gangs=gangs, size=size, ahead=ahead)
    if scene.pods > min(scene.room, _MOST_PODS):
        most = min(scene.room, _MOST_PODS)
        raise typer.BadParameter(f"{nodes} nodes: {scene.pods} pods come, {most} have room")
    return scene


if __name__ == "__main__":
    app()
