"""One measured run: real Jobs on a fresh control plane with nodes and both of our processes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.load import Progress
from tests.bench.meter import Meter
from tests.bench.room import manifests
from tests.bench.room.driver import drive
from tests.bench.room.load import Load
from tests.bench.room.measures import Measures, measure
from tests.bench.room.modes import ROOM, UNKEPT, Mode
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

_READY_SECONDS = 120.0
_BEGIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave; CPU seconds of the window by process."""

    mode: str
    title: str
    repeat: int
    measures: Measures
    cpu_seconds: Mapping[str, float]

    @property
    def jobs_per_second(self) -> float:
        """Rate of finished Jobs in the window."""
        return self.measures.finished / self.measures.window

    def of_class(self, name: str) -> float:
        """Rate of finished Jobs of a class."""
        return self.measures.classes[name].finished / self.measures.window

    @property
    def faults(self) -> list[str]:
        """What must not be, as sentences: Jobs that were admitted by room and waited for it."""
        found = self.measures
        if self.mode not in {ROOM, UNKEPT} or not found.waited:
            return []
        return [f"{found.waited} of {found.admitted} admissions waited for room"]


def run(load: Load, mode: Mode, *, repeat: int, progress: Progress) -> Result:
    """Return what became of the load. RuntimeError when it never began or could not go on."""
    progress("starting a control plane")
    with ControlPlane() as plane, Meter() as meter:
        progress("starting the extender, kube-scheduler and the reconciler")
        gang = GangScheduler(plane)
        reconciler = Reconciler(plane, settings=mode.settings(load))
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
        history = asyncio.run(
            drive(plane.admin_kubeconfig, load, begin_seconds=_BEGIN_SECONDS, say=progress)
        )
        measured = measure(history, load)
        if measured is None:
            raise RuntimeError(f"no Job was admitted\n{plane.tails()}")
    return Result(
        mode=mode.key,
        title=mode.title,
        repeat=repeat,
        measures=measured,
        cpu_seconds=meter.cpu_seconds(measured.start, measured.end),
    )


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

        def active() -> bool:
            kind = f"{manifests.API_VERSION}/localqueues"
            return all(
                condition(api.get(kind, name, manifests.NAMESPACE), "Active")
                for name in load.quotas
            )

        plane.wait_until("the queues are active", active, _READY_SECONDS)
