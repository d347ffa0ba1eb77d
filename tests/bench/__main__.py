"""`python -m tests.bench`: the same load for kube-scheduler, without our extender and with it.

Every run has a control plane of its own. Tables go to standard output, progress to standard
error. Books of nodes are kept beside each run, apart from what is measured. Exit code 1 says that
a gang of ours was not whole in the end, that a pod of one that cannot fit was bound, that a node
was overcommitted, that a pod of ours has two Events about its binding, or that a run failed. With
--preempt it says so too where ours evicted other than as few pods as make room, or left a gang of
low priority in part.
"""

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from tests.bench import report, shapes, sides, summary
from tests.bench.creation import Pace, PaceError
from tests.bench.load import GroupKind, Load
from tests.bench.preempt import command
from tests.bench.progress import Progress
from tests.bench.report import Comparison
from tests.bench.results import STOCK, Case, Result
from tests.bench.runs import Limits, measure
from tests.bench.shapes import Shape
from tests.bench.sides import PLAIN, Side
from tests.harness import objects
from tests.harness.toolchain import ensure_binaries

# At the stock QPS the plain kube-scheduler binds some 50 pods a second, whatever there is to do.
_NODES = {True: "500", False: "1000,5000"}
_SHAPES = {True: "40x50", False: "100x50"}

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
            "once), `next` (when the pods of the one before are there), or gangs a second. "
            "Several with commas."
        ),
    ] = "",
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, in turn.")] = 1,
    node_cpu: Annotated[str, typer.Option(help="CPU of a node.")] = "8",
    pod_cpu: Annotated[str, typer.Option(help="CPU that a pod requests.")] = "100m",
    interleave: Annotated[
        bool, typer.Option("--interleave", help="Create the gangs member by member, in turn.")
    ] = False,
    gated: Annotated[
        bool,
        typer.Option(
            "--gated", help="Create our pods behind our gate, to be taken away when a gang fits."
        ),
    ] = False,
    without_policies: Annotated[
        bool,
        typer.Option(
            "--without-policies", help="One more column: ours without the admission policies."
        ),
    ] = False,
    both_ways: Annotated[
        bool,
        typer.Option("--both-ways", help="One more column: ours with gang.bindTogether: off."),
    ] = False,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare",
            help="One more column: the same Bindings, written without any scheduler; with "
            "--arrive each gang's when all its pods are there.",
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
    only: Annotated[
        str,
        typer.Option(
            help="Only these sides: plain, ours; and open, off, bare, peer with their own options."
        ),
    ] = "",
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
    _check_native(native and any((arrive, gated, preempt, peer)))
    compared = [sides.plain(native=native)]
    compared += [
        sides.ours(settings, gated=gated, policies=policies, together=together, native=native)
        for wanted, policies, together in (
            (True, True, True),
            (without_policies, False, True),
            (both_ways, True, False),
        )
        if wanted
    ]
    compared += _bare(wanted=bare, arriving=bool(arrive), goes=not preempt)
    if peer:
        if peer_config is None:
            raise typer.BadParameter("--peer needs --peer-config")
        kind = GroupKind(peer_label, peer_pod_group_api)
        compared.append(sides.peer(peer, peer_config, name=peer_name, kind=kind, crds=peer_crd))
    if only:
        compared = _chosen(compared, only.split(","))
    if preempt:
        if arrive or gated:
            raise typer.BadParameter("--preempt goes neither with --arrive nor with --gated")
        wanted = command.Wanted(
            nodes=_numbers(nodes or _NODES[False].partition(",")[0]),
            shapes=_shapes(shape or [_SHAPES[False]]),
            qps=_qps(qps),
            preemptors=preemptors,
            node_cpu=node_cpu,
            interleave=interleave,
        )
        limits = Limits(run=limit)
        benches = command.benches(wanted, compared, settings, limits=limits, repeat=repeat)
        ensure_binaries()
        raise typer.Exit(command.run(benches, json))
    cases = [
        Case(
            load=_load(
                each, nodes=count, node_cpu=node_cpu, pod_cpu=pod_cpu, interleave=interleave
            ),
            qps=rate,
            pace=pace,
        )
        for rate in _qps(qps)
        for count in _numbers(nodes or _NODES[rate == STOCK])
        for each in _shapes(shape or [_SHAPES[rate == STOCK]])
        for pace in _paces(arrive, plain=interleave or each.churn)
    ]
    ensure_binaries()
    bench = _Bench(compared, repeat=repeat, limits=Limits(run=limit), total=total)
    for case in cases:
        bench.run(case)
        if json:
            json.write_bytes(report.as_json(bench.comparisons))
    bench.show(Console())
    raise typer.Exit(1 if bench.failures else 0)


def _bare(*, wanted: bool, arriving: bool, goes: bool) -> list[Side]:
    if wanted and not goes:
        raise typer.BadParameter("--bare does not go with --preempt")
    return [sides.bare(arriving=arriving)] if wanted else []


def _check_native(wrong: bool) -> None:
    if wrong:
        raise typer.BadParameter("--native goes with no --arrive, --gated, --preempt or --peer")


def _chosen(compared: Sequence[Side], keys: Sequence[str]) -> list[Side]:
    there = [side.key for side in compared]
    if unknown := [key for key in keys if key not in there]:
        raise typer.BadParameter(f"--only: {', '.join(unknown)} is not among {', '.join(there)}")
    return [side for side in compared if side.key in keys]


def _qps(text: str) -> list[str]:
    values = text.split(",")
    for value in values:
        if value != STOCK:
            _numbers(value)
    return values


def _shapes(texts: Sequence[str]) -> list[Shape]:
    try:
        return shapes.parse(texts)
    except shapes.ShapeError as error:
        raise typer.BadParameter(str(error)) from error


def _paces(text: str, *, plain: bool) -> list[Pace | None]:
    if text and plain:
        raise typer.BadParameter("--arrive goes neither with churn nor with --interleave")
    try:
        return [Pace.parse(each) for each in text.split(",")] if text else [None]
    except PaceError as error:
        raise typer.BadParameter(str(error)) from error


def _load(shape: Shape, *, nodes: int, node_cpu: str, pod_cpu: str, interleave: bool) -> Load:
    load = Load(
        nodes=nodes,
        gangs=shape.gangs,
        size=shape.size,
        node_cpu=node_cpu,
        pod_cpu=pod_cpu,
        interleave=interleave,
    )
    if load.pods > load.room:
        raise typer.BadParameter(f"{nodes} nodes take {load.room} pods, not {load.pods}")
    return load.churned() if shape.churn else load


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
        for number, (side, run) in product(range(1, self._repeat + 1), self._runs(case)):
            self._progress.title = f"{report.title(run)}, {side.title} {number}/{self._repeat}"
            result = self._measured(run, side, number)
            if result:
                results.append(result)
        if results:
            self.comparisons.append(Comparison(case, results))

    def show(self, console: Console) -> None:
        """Print a table and then a line of each case, and what failed."""
        for comparison in self.comparisons:
            report.show(comparison, console)
            self.failures += report.broken(comparison)
        for comparison in self.comparisons:
            console.print(summary.line(comparison), soft_wrap=True, highlight=False)
        for sentence in self.failures:
            console.print(f"FAILED: {sentence}", style="bold red")

    def _runs(self, case: Case) -> list[tuple[Side, Case]]:
        """Return each side and what it runs: where gangs cannot fit, its own baseline too."""
        if not case.load.impossible:
            return [(side, case) for side in self._compared]
        others = [side for side in self._compared if side.key != PLAIN]
        return [(side, run) for side in others for run in (case.alone(), case)]

    def _measured(self, case: Case, side: Side, number: int) -> Result | None:
        if time.monotonic() > self._deadline:
            self._say("left out, the time is up (--total)")
            return None
        try:
            result = measure(
                case, side, repeat=number, limits=self._limits, progress=self._progress
            )
        except (
            AssertionError,
            RuntimeError,
            ExceptionGroup,
        ) as error:  # with the logs of the control plane
            self._say(f"failed: {error}")
            self.failures.append(f"{self._progress.title}: the run failed")
            return None
        self._say(
            f"{result.pods_per_second_from_ready:.0f} pods/s,"
            f" {result.gangs.whole} of {case.load.gangs} gangs whole, {report.outcome([result])},"
            f" {report.audited([result])}"
        )
        return result

    def _say(self, text: str) -> None:
        self._progress.say(f"{self._progress.title}: {text}")


if __name__ == "__main__":
    app()
