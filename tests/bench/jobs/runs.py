"""One measured run: a fresh control plane with nodes, the queue, kube-scheduler, then the Jobs."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.jobs import manifests
from tests.bench.jobs.driver import drive
from tests.bench.jobs.load import Load
from tests.bench.jobs.measures import Measures, measure
from tests.bench.jobs.sides import Side
from tests.bench.load import Progress
from tests.bench.meter import Meter
from tests.bench.queue import controllers, writes
from tests.bench.queue import manifests as queues
from tests.bench.queue.runs import Limits
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component

_READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave; CPU seconds and MiB by process, times in seconds."""

    side: str
    title: str
    repeat: int
    jobs: int
    measures: Measures
    writes: Mapping[str, int]
    """Of all processes but the bench, by "VERB resource"."""
    reads: Mapping[str, int]
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]
    note: str = ""
    """Why it was not waited for all Jobs."""

    @property
    def seconds(self) -> float:
        """Time from the first creation to the last Complete."""
        return self.measures.end - self.measures.start

    @property
    def jobs_per_second(self) -> float:
        """Rate of complete Jobs in that time."""
        return self.measures.complete / self.seconds if self.seconds else 0.0

    def for_each(self, requests: Mapping[str, int]) -> float | None:
        """Return requests for each complete Job."""
        complete = self.measures.complete
        return sum(requests.values()) / complete if complete else None

    @property
    def faults(self) -> list[str]:
        """What must not be, as sentences."""
        found = []
        if self.measures.complete < self.jobs:
            found.append(f"{self.measures.complete} of {self.jobs} Jobs are complete")
        if self.measures.broken:
            found.append(f"quota was exceeded at {self.measures.broken} events:")
            found += self.measures.violations
        return found


def run(load: Load, side: Side, *, repeat: int, limits: Limits, progress: Progress) -> Result:
    """Return what the side made of the load. RuntimeError when it could not begin, or go on."""
    progress("starting a control plane")
    with ControlPlane() as plane, Meter() as meter:
        progress("starting kube-scheduler and the queue")
        started = side.scheduler(plane)
        started["controller"] = side.controller.start(plane)
        try:
            progress("setting the stage")
            _set(plane, load, started)
            for name, pid in _pids(plane, started).items():
                meter.add(name, pid)
            before = writes.page(plane)
            history, note = asyncio.run(
                drive(
                    plane.admin_kubeconfig,
                    load,
                    limits=limits,
                    gone=lambda: _gone(started),
                    say=progress,
                )
            )
            if note:
                progress(f"{note}\n{plane.tails()}")
            progress("waiting for the last writes")
            after = writes.settled(plane)
        finally:
            controllers.stop(started["controller"])
        measured = measure(history, load)
    return Result(
        side=side.key,
        title=side.title,
        repeat=repeat,
        jobs=load.jobs,
        measures=measured,
        writes=_between(before, after, writes.WRITES, {"POST jobs": measured.created}),
        reads=_between(before, after, writes.READS, {}),
        cpu_seconds=meter.cpu_seconds(measured.start, measured.end),
        peak_mib=meter.peak_mib(),
        note=note,
    )


def _set(plane: ControlPlane, load: Load, started: Mapping[str, Component]) -> None:
    """Return when all nodes are ready and all queues are served."""
    with Api(plane.admin_kubeconfig) as api:
        api.create(*manifests.nodes(load), *queues.setting(load.quotas()))

        def ready() -> bool:
            return all(condition(each, "Ready") for each in api.list("nodes"))

        plane.wait_until("all nodes are ready", ready, _READY_SECONDS)

        def active() -> bool:
            if gone := _gone(started):
                raise RuntimeError(f"{gone}\n{plane.tails()}")
            return queues.are_active(api)

        plane.wait_until("all queues are active", active, _READY_SECONDS)


def _pids(plane: ControlPlane, started: Mapping[str, Component]) -> dict[str, int]:
    components = {
        **started,
        "apiserver": plane.apiserver,
        "controller-manager": plane.controller_manager,
        "etcd": plane.etcd,
        "kwok": plane.kwok,
    }
    return {**{name: each.pid for name, each in components.items()}, "bench": os.getpid()}


def _gone(started: Mapping[str, Component]) -> str:
    """Return which process ended before its time, "" when none did."""
    ended = (
        f"the {name} ended with {each.exit_code}"
        for name, each in started.items()
        if not each.running
    )
    return next(ended, "")


def _between(
    before: str, after: str, verbs: Mapping[str, str], own: Mapping[str, int]
) -> dict[str, int]:
    first, last = (writes.parse(page, verbs) for page in (before, after))
    return writes.between(first, last, own)
