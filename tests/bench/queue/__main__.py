"""`python -m tests.bench.queue`: Workloads under quota, admitted by our reconciler or by others.

Part `quota`: a real API server and etcd, no nodes and no pods: an admitted Workload is finished
after the runtime of its class, an evicted one lets its quota go. Part `room`: real Jobs on nodes
that are partly used, with room asked for and with quota alone. Every run has a control plane of
its own. Tables go to standard output, progress to standard error. Exit code 1 says that more
quota was held than there is, that Workloads were not finished in time, that one which was
admitted by room waited for it, or that a run failed.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx
import msgspec
import typer
import yaml
from rich.console import Console

from tests.bench.progress import Progress
from tests.bench.queue import controllers, report
from tests.bench.queue import load as loads
from tests.bench.queue.controllers import Controller
from tests.bench.queue.runs import Limits, Result, measure
from tests.bench.room import load as rooms
from tests.bench.room.bench import Bench as RoomBench
from tests.harness.client import ApiError
from tests.harness.toolchain import ensure_binaries

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
L = TypeVar("L")


class Part(StrEnum):
    """What is measured."""

    QUOTA = "quota"
    ROOM = "room"
    ALL = "all"


@app.command(help=__doc__)
def main(
    part: Annotated[Part, typer.Option(help="Which part.")] = Part.ALL,
    config: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The load: cohorts, queues, and classes of Workloads with count, interval, "
            "runtime, priority and request. tests/bench/queue/loads has two.",
        ),
    ] = loads.BASELINE,
    room_config: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The load of part room: nodes, quota, classes of Jobs, times. "
            "tests/bench/room/loads has some.",
        ),
    ] = rooms.FRAGMENTED,
    external: Annotated[
        str,
        typer.Option(
            help="Part quota: measure this command in place of ours. It gets KUBECONFIG, with all "
            "rights, serves the same API, and is stopped by SIGTERM. No shell is between, and its "
            "own process is measured: a script should end with `exec`."
        ),
    ] = "",
    external_name: Annotated[str, typer.Option(help="What its column is called.")] = "external",
    external_crds: Annotated[
        Path,
        typer.Option(exists=True, help="Its CRDs, a file or folder of YAML; default ours."),
    ] = controllers.CRDS,
    both: Annotated[
        bool, typer.Option("--both", help="With --external: measure ours too, in turn.")
    ] = False,
    settings: Annotated[
        Path | None, typer.Option(exists=True, help="Configuration of our reconciler.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    timeout: Annotated[
        float, typer.Option(min=1, help="Most seconds of a run, from its first Workload.")
    ] = 900,
    json: Annotated[Path | None, typer.Option(help="Write all results there.")] = None,
) -> None:
    load, room_load = _load(config, loads.read), _load(room_config, rooms.read)
    ours = controllers.ours(yaml.safe_load(settings.read_text()) if settings else None)
    measured = [ours] if both or not external else []
    if external:
        measured.append(controllers.external(external, name=external_name, crds=external_crds))
    ensure_binaries()
    console = Console()
    quota, room = _Bench(config, Limits(run=timeout)), RoomBench(room_load, room_config)
    if part is not Part.ROOM:
        for number, controller in product(range(1, repeat + 1), measured):
            quota.run(controller, number, f"{number}/{repeat}")
            _write(json, report.as_builtins(quota.results, load, config.stem))
        _show(console, quota.results, load, config)
    if part is not Part.QUOTA:
        room.run()
        _write(json, report.as_builtins(quota.results, load, config.stem), room.as_builtins())
        room.show(console)
    failures = quota.failures + room.failures
    for sentence in failures:
        console.print(f"FAILED: {sentence}", style="bold red", soft_wrap=True, highlight=False)
    raise typer.Exit(1 if failures else 0)


def _load(config: Path, read: Callable[[Path], L]) -> L:
    try:
        return read(config)
    except loads.LoadError as error:
        raise typer.BadParameter(f"{config}:\n{error}") from error


def _write(file: Path | None, quota: dict[str, Any], room: dict[str, Any] | None = None) -> None:
    if file:
        document = quota if room is None else {**quota, "room": room}
        file.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))


def _show(console: Console, results: Sequence[Result], load: loads.Load, config: Path) -> None:
    if not results:
        return
    console.print(report.table(results, load, config.stem))
    lines = report.notes(results)
    whole = [each for each in results if not each.faults]
    if whole and load == loads.read(loads.BASELINE):
        lines += report.compared(whole, report.KUEUE)
    for line in lines:
        console.print(f"  {line}", soft_wrap=True, highlight=False)


class _Bench:
    """Runs one after the other; a run that fails does not end it."""

    def __init__(self, config: Path, limits: Limits) -> None:
        self.results: list[Result] = []
        self.failures: list[str] = []
        self._config = config
        self._limits = limits
        self._progress = Progress()

    def run(self, controller: Controller, repeat: int, number: str) -> None:
        """Measure once."""
        self._progress.title = f"{self._config.stem}, {controller.title} {number}"
        try:
            result = measure(
                self._config,
                controller,
                repeat=repeat,
                limits=self._limits,
                progress=self._progress,
            )
        except (RuntimeError, ApiError, httpx.TransportError) as error:
            self._progress.say(f"{self._progress.title}: failed: {error}")
            self.failures.append(f"{self._progress.title}: the run failed")
            return
        self.results.append(result)
        self.failures += [f"{self._progress.title}: {fault}" for fault in result.faults]
        self._progress.say(
            f"{self._progress.title}: {result.workloads_per_second:.1f} Workloads/s, "
            f"{result.measures.finished} of {result.workloads} finished"
        )


if __name__ == "__main__":
    app()
