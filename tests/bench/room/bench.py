"""Real Jobs on nodes that are partly used: with room asked for, kept for what waits, and without.

Each run has a fresh control plane with nodes and both of our processes.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, cast

from rich.table import Table
from typing_extensions import override

from tests.bench import tables
from tests.bench.meter import Meter
from tests.bench.queue.driving import drive
from tests.bench.queue.manifests import are_active
from tests.bench.room import manifests
from tests.bench.room.driver import RoomDriver
from tests.bench.room.load import Load
from tests.bench.room.measures import Measures, OfClass, measure
from tests.bench.series import Limits, Run, Series
from tests.bench.tables import Row, cell
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

ROOM, UNKEPT, QUOTA = "room", "unkept", "quota"
_PROCESSES = (
    "reconciler",
    "extender",
    "kube-scheduler",
    "controller-manager",
    "apiserver",
    "etcd",
    "kwok",
)
_READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One column of the report."""

    key: str
    title: str
    room: bool = False
    keep: bool = False
    """Whether room is kept for what has waited for long."""

    def settings(self, load: Load) -> dict[str, Any]:
        """Return the reconciler's configuration. It is not elected: there is no other."""
        return {
            "reconcile": {"leaderElect": False},
            "queue": {
                "requireRoom": self.room,
                "agingSeconds": load.aging_seconds if self.keep else 0,
                "podGroups": "Auto" if self.room else "Off",
                "waitForPodsReady": {
                    "enable": True,
                    "timeout": load.pods_ready_timeout_seconds,
                    "requeuingStrategy": {"backoffBaseSeconds": load.backoff_base_seconds},
                },
            },
        }


MODES = (
    Mode(key=ROOM, title="quota and room", room=True, keep=True),
    Mode(key=UNKEPT, title="quota and room, none kept", room=True),
    Mode(key=QUOTA, title="quota alone"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave, in its window."""

    derived: ClassVar[Sequence[str]] = ("jobs_per_second",)
    measures: Measures

    @property
    def jobs_per_second(self) -> float:
        """Rate of finished Jobs."""
        return self.measures.every.finished / (self.measures.end - self.measures.start)

    @property
    @override
    def faults(self) -> list[str]:
        """Jobs that were admitted by room and waited for it."""
        found = self.measures.every
        if self.side == QUOTA or not found.waited:
            return []
        return [f"{found.waited} of {found.admitted} admissions waited for room"]


class Bench(Series[Mode, Result]):
    """Runs the load of a file in every mode, `repeat` times."""

    def __init__(self, load: Load, file: Path, repeat: int) -> None:
        nodes = sum(each.count for each in load.nodes)
        quota = " + ".join(f"{each / 1000:g}" for each in load.quotas.values())
        name = (
            f"{file.stem}: {load.free / 1000:g} CPU free on {nodes} nodes, quota {quota}, "
            f"{load.window_seconds:g} s"
        )
        super().__init__(name, MODES, repeat)
        self._load = load

    @override
    def measure(self, side: Mode, repeat: int) -> Result:
        load, progress = self._load, self.progress
        progress("starting a control plane")
        with ControlPlane() as plane, Meter() as meter:
            progress("starting the extender, kube-scheduler and the reconciler")
            gang = GangScheduler(plane)
            reconciler = Reconciler(plane, settings=side.settings(load))
            reconciler.wait_leading()
            progress("setting the stage")
            _set(plane, load)
            for name, component in {
                "reconciler": reconciler.process,
                "extender": gang.extender,
                "kube-scheduler": gang.scheduler,
                "controller-manager": plane.controller_manager,
                "apiserver": plane.apiserver,
                "etcd": plane.etcd,
                "kwok": plane.kwok,
            }.items():
                meter.add(name, component.pid)
            driver, _ = asyncio.run(
                drive(
                    plane.admin_kubeconfig,
                    lambda http, tasks: RoomDriver(http, tasks, load),
                    limits=Limits(run=math.inf, stall=math.inf),
                    say=progress,
                )
            )
            measured = measure(driver.seen, load)
            if measured is None:
                raise RuntimeError(f"no Job was admitted\n{plane.tails()}")
        return Result(
            side=side.key,
            title=side.title,
            repeat=repeat,
            measures=measured,
            cpu_seconds=meter.cpu_seconds(measured.start, measured.end),
            peak_mib=meter.peak_mib(),
        )

    @override
    def summary(self, result: Result) -> str:
        return f"{result.jobs_per_second:.2f} Jobs/s"

    @override
    def table(self) -> Table:
        """Return measures as lines and modes as columns; beside each its ratio to quota alone."""
        columns = tables.columns(self.results, lambda each: each.side)
        base = next((runs for runs in columns if runs[0].side == QUOTA), None)
        made = Table(title=self.name, title_justify="left")
        made.add_column("")
        for runs in columns:
            made.add_column(runs[0].title, justify="right")
        for row in _rows(self._load):
            made.add_row(row.name, *(_cell(runs, base, row) for runs in columns))
        return made

    @override
    def notes(self) -> list[str]:
        load = self._load
        return [
            f"waited for room: all pods made and {load.waited_seconds:g} s later not all on "
            f"nodes, or sent back after {load.pods_ready_timeout_seconds:g} s without being ready; "
            "a short time-out favours quota alone, the default is 30 minutes",
        ]

    @override
    def load_as_builtins(self) -> Any:
        return self._load.model_dump(mode="json", by_alias=True)


def _rows(load: Load) -> list[Row[Result]]:
    def of_class(kind: str, field: str) -> Callable[[Result], float]:
        return lambda run: float(getattr(run.measures.classes[kind], field))

    def every(field: str) -> Callable[[Result], float | None]:
        def value(run: Result) -> float | None:
            found: OfClass = run.measures.every
            return cast("float | None", getattr(found, field))

        return value

    classes = [each.class_name for each in load.classes]
    return [
        Row("Jobs finished/s", lambda run: run.jobs_per_second, "{:.2f}"),
        *(Row(f"  {kind} finished", of_class(kind, "finished")) for kind in classes),
        Row("finished work, % of free CPU", lambda run: run.measures.useful * 100, "{:.1f}"),
        Row("node usage, % of free CPU", lambda run: run.measures.usage.used * 100, "{:.1f}"),
        Row("  by Jobs not all on nodes", lambda run: run.measures.usage.idle * 100, "{:.1f}"),
        Row("Workloads with quota and no room", lambda run: run.measures.without_room),
        Row("admissions", every("admitted")),
        Row("then waited for room", every("waited")),
        *(Row(f"  {kind}", of_class(kind, "waited")) for kind in classes),
        Row("  sent back for that", every("timeouts")),
        Row("s until all on nodes, median", every("median_seconds"), "{:.2f}"),
        *cast("list[Row[Result]]", tables.of_processes(_PROCESSES)),
    ]


def _cell(runs: Sequence[Result], base: Sequence[Result] | None, row: Row[Result]) -> str:
    """Return the median of the runs and its ratio to that of the base."""
    text = cell([row.value(each) for each in runs], row.form)
    if base is None or base is runs:
        return text
    found, before = _median(runs, row), _median(base, row)
    return text if found is None or not before else f"{text}  x{found / before:.2f}"


def _median(runs: Sequence[Result], row: Row[Result]) -> float | None:
    known = [found for each in runs if (found := row.value(each)) is not None]
    return median(known) if known else None


def _set(plane: ControlPlane, load: Load) -> None:
    """Return when all nodes are there, filled as the load says, and the queue is active."""
    with Api(plane.admin_kubeconfig) as api:
        api.create(*manifests.nodes(load), *manifests.queues(load))

        def ready() -> bool:
            return all(condition(each, "Ready") for each in api.list("nodes"))

        plane.wait_until("all nodes are ready", ready, _READY_SECONDS)
        fillers = list(manifests.fillers(load))
        if fillers:
            api.create(*fillers)

        def runs() -> bool:
            pods = api.list("pods", manifests.BESIDE)
            return all(condition(each, "Ready") for each in pods)

        plane.wait_until("the nodes are filled", runs, _READY_SECONDS)
        plane.wait_until("the queues are active", lambda: are_active(api), _READY_SECONDS)
