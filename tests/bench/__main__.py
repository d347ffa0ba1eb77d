"""`python -m tests.bench`: the same load for kube-scheduler, without our extender and with it.

Every run has a control plane of its own. Tables go to standard output, progress to standard
error. Exit code 1 says that a gang of ours was not whole in the end, or that a run failed.
"""

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from tests.bench import report, sides
from tests.bench.load import GroupKind, Load
from tests.bench.progress import Progress
from tests.bench.report import Comparison
from tests.bench.runs import STOCK, Case, Limits, Result, measure
from tests.bench.sides import Side
from tests.harness import objects
from tests.harness.toolchain import ensure_binaries

# At the stock QPS the plain kube-scheduler binds some 50 pods a second, whatever there is to do.
_NODES = {True: "500", False: "1000,5000"}
_GANGS = {True: 40, False: 100}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    nodes: Annotated[
        str, typer.Option(help="Numbers of nodes; default 1000,5000, and 500 at the stock QPS.")
    ] = "",
    gangs: Annotated[
        int, typer.Option(min=0, help="Number of gangs; default 100, and 40 at the stock QPS.")
    ] = 0,
    size: Annotated[int, typer.Option(min=1, help="Members of a gang.")] = 50,
    qps: Annotated[
        str,
        typer.Option(
            help="QPS of the scheduler's client, `stock` or numbers; burst is twice that."
        ),
    ] = "stock,1000",
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, in turn.")] = 1,
    node_cpu: Annotated[str, typer.Option(help="CPU of a node.")] = "8",
    pod_cpu: Annotated[str, typer.Option(help="CPU that a pod requests.")] = "100m",
    interleave: Annotated[
        bool, typer.Option("--interleave", help="Create the gangs member by member, in turn.")
    ] = False,
    only: Annotated[str, typer.Option(help="Only these sides: plain, ours, peer.")] = "",
    limit: Annotated[float, typer.Option(help="Most seconds of scheduling in a run.")] = 300,
    total: Annotated[float, typer.Option(help="No run begins after so many seconds.")] = 3600,
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
    peer_label: Annotated[
        str, typer.Option(help="Pod label that carries the name of its groups.")
    ] = objects.POD_GROUP_LABEL,
    peer_crd: Annotated[
        Path | None, typer.Option(exists=True, help="Its CRDs, a file or folder; default ours.")
    ] = None,
    peer_pod_group_api: Annotated[
        str, typer.Option(help="apiVersion of its PodGroups.")
    ] = objects.POD_GROUP_V1ALPHA1,
) -> None:
    settings = yaml.safe_load(extender_config.read_text()) if extender_config else None
    compared = [sides.plain(), sides.ours(settings)]
    if peer:
        if peer_config is None:
            raise typer.BadParameter("--peer needs --peer-config")
        kind = GroupKind(peer_label, peer_pod_group_api)
        compared.append(sides.peer(peer, peer_config, name=peer_name, kind=kind, crds=peer_crd))
    if only:
        compared = [side for side in compared if side.key in only.split(",")]
    cases = [
        Case(
            load=Load(
                nodes=count,
                gangs=gangs or _GANGS[each == STOCK],
                size=size,
                node_cpu=node_cpu,
                pod_cpu=pod_cpu,
                interleave=interleave,
            ),
            qps=each,
        )
        for each in _qps(qps)
        for count in _numbers(nodes or _NODES[each == STOCK])
    ]
    ensure_binaries()
    bench = _Bench(compared, repeat=repeat, limits=Limits(run=limit), total=total)
    for case in cases:
        bench.run(case)
        if json:
            json.write_bytes(report.as_json(bench.comparisons))
    console = Console()
    for comparison in bench.comparisons:
        report.show(comparison, console)
        bench.failures += report.broken(comparison)
    for sentence in bench.failures:
        console.print(f"FAILED: {sentence}", style="bold red")
    raise typer.Exit(1 if bench.failures else 0)


def _qps(text: str) -> list[str]:
    values = text.split(",")
    for value in values:
        if value != STOCK:
            _numbers(value)
    return values


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers") from error


class _Bench:
    """Runs the cases one after the other; a run that fails does not end it."""

    def __init__(
        self, compared: Sequence[Side], *, repeat: int, limits: Limits, total: float
    ) -> None:
        self.comparisons: list[Comparison] = []
        self.failures: list[str] = []
        self._compared = compared
        self._repeat = repeat
        self._limits = limits
        self._deadline = time.monotonic() + total
        self._progress = Progress()

    def run(self, case: Case) -> None:
        """Run every side `repeat` times, in turn."""
        results = []
        for number, side in product(range(1, self._repeat + 1), self._compared):
            self._progress.title = f"{report.title(case)}, {side.title} {number}/{self._repeat}"
            result = self._measured(case, side, number)
            if result:
                results.append(result)
        if results:
            self.comparisons.append(Comparison(case, results))

    def _measured(self, case: Case, side: Side, number: int) -> Result | None:
        if time.monotonic() > self._deadline:
            self._tell("left out, the time is up (--total)")
            return None
        try:
            result = measure(
                case, side, repeat=number, limits=self._limits, progress=self._progress
            )
        except (RuntimeError, ExceptionGroup) as error:  # with the logs of the control plane
            self._tell(f"failed: {error}")
            self.failures.append(f"{self._progress.title}: the run failed")
            return None
        self._tell(
            f"{result.pods_per_second_from_ready:.0f} pods/s,"
            f" {result.gangs.whole} of {case.load.gangs} gangs whole"
        )
        return result

    def _tell(self, text: str) -> None:
        self._progress.say(f"{self._progress.title}: {text}")


if __name__ == "__main__":
    app()
