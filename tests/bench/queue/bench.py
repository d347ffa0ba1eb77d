"""Workloads and real Jobs under quota, by every side: how one run is made and what is shown of it.

A run has a fresh control plane, the controller, the queues, then the load. The clock begins when
the watch shows the first one created and ends when it shows the last one finished.
"""

import asyncio
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from typing_extensions import override

from tests.bench.meter import Meter
from tests.bench.queue import controllers, jobs, manifests, writes
from tests.bench.queue.controllers import CONTROLLER, Side
from tests.bench.queue.driver import JobsDriver, QuotaDriver
from tests.bench.queue.driving import Make, drive
from tests.bench.queue.jobs import JobsLoad
from tests.bench.queue.load import Load
from tests.bench.queue.measures import Measures, measure
from tests.bench.series import Limits, Row, Run, Series, of_processes
from tests.harness.client import Api, Object, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component

_PROCESSES = (
    "controller",
    "extender",
    "apiserver",
    "etcd",
    "controller-manager",
    "kube-scheduler",
    "kwok",
    "bench",
)
_READY_SECONDS = 120.0
_LATE_SECONDS = 1.0
_LEAST_FOR_EACH = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave; times in seconds."""

    derived: ClassVar[Sequence[str]] = ("seconds", "finished_per_second", "writes_for_each")
    what: str
    wanted: int
    """Of the load."""
    measures: Measures
    writes: Mapping[str, int]
    """Of all processes but the bench, by "VERB resource"."""

    @property
    def seconds(self) -> float:
        """Time from the first creation to the last finish."""
        return self.measures.end - self.measures.start

    @property
    def finished_per_second(self) -> float:
        """Rate of what finished in that time."""
        return self.measures.finished / self.seconds if self.seconds else 0.0

    @property
    def writes_for_each(self) -> float | None:
        """Requests that write, for each that finished."""
        finished = self.measures.finished
        return sum(self.writes.values()) / finished if finished else None

    @property
    @override
    def faults(self) -> list[str]:
        found = []
        if self.measures.finished < self.wanted:
            found.append(f"{self.measures.finished} of {self.wanted} {self.what} finished")
        if self.measures.broken:
            found.append(f"quota was exceeded at {self.measures.broken} events:")
            found += self.measures.violations
        return found


class _Bench(Series[Side, Result]):
    """Runs a load through every side, `repeat` times."""

    what: ClassVar[str]
    nodes: ClassVar[bool]
    """Whether there are nodes, and what runs pods on them."""

    def __init__(
        self,
        name: str,
        sides: Sequence[Side],
        limits: Limits,
        repeat: int,
        *,
        quotas: Load,
        load: Any,
    ) -> None:
        super().__init__(name, sides, repeat, load=load)
        self._quotas, self._limits = quotas, limits

    @abstractmethod
    def driver(self) -> Make:
        """Return what makes the driver of a run."""

    @abstractmethod
    def wanted(self) -> int:
        """Return how many must finish."""

    def objects(self) -> Iterable[Object]:
        """Return what is there before the queues."""
        return ()

    @override
    def measure(self, side: Side, repeat: int) -> Result:
        progress = self.progress
        progress("starting a control plane")
        with (
            ControlPlane(kubelet=self.nodes, controllers=self.nodes) as plane,
            Meter() as meter,
        ):
            progress("starting the controller")
            started = side.start(plane)
            try:
                progress("setting the stage")
                self._set(plane, started)
                running = {**started, "apiserver": plane.apiserver, "etcd": plane.etcd}
                if self.nodes:
                    running["controller-manager"] = plane.controller_manager
                    running["kwok"] = plane.kwok
                for name, component in running.items():
                    meter.add(name, component.pid)
                meter.add("bench", os.getpid())
                kubeconfig = controllers.with_all_rights(plane, "bench")
                before = writes.parse(writes.page(plane))
                driver, ended = asyncio.run(
                    drive(
                        kubeconfig,
                        self.driver(),
                        limits=self._limits,
                        say=progress,
                        gone=lambda: _gone(started),
                    )
                )
                if ended:
                    progress(f"{ended}\n{plane.tails()}")
                progress("waiting for the last writes")
                after = writes.parse(writes.settled(plane))
            finally:
                controllers.stop(started[CONTROLLER])
            measured = measure(driver.seen, self._quotas)
        notes = [ended] if ended else []
        if driver.late_seconds > _LATE_SECONDS:
            late = f"{driver.late_seconds:.0f} s later than its intervals say"
            notes.append(f"the load came {late}: all were busy")
        written = writes.between(before, after, driver.writes)
        return Result(
            side=side.key,
            title=side.title,
            repeat=repeat,
            what=self.what,
            wanted=self.wanted(),
            measures=measured,
            writes=written,
            cpu_seconds=meter.cpu_seconds(measured.start, measured.end),
            peak_mib=meter.peak_mib(),
            notes=[*notes, _listed(written, measured.finished)],
        )

    @override
    def summary(self, result: Result) -> str:
        done = f"{result.measures.finished} of {result.wanted} finished"
        return f"{result.finished_per_second:.2f} {self.what}/s, {done}"

    @override
    def rows(self) -> list[Row[Result]]:
        waits = dict.fromkeys(name for run in self.results for name in run.measures.waits)
        return [
            Row(
                f"{self.what}/s, first created to last finished",
                lambda run: run.finished_per_second,
                "{:.2f}",
            ),
            Row(f"{self.what} finished", lambda run: run.measures.finished),
            *(
                Row(f"seconds, {name}, {field}", _wait(name, field), "{:.2f}")
                for name in waits
                for field in ("mean", "median", "p99")
            ),
            Row("mean use of the quota, %", lambda run: run.measures.usage * 100, "{:.1f}"),
            Row("evictions", lambda run: run.measures.evictions),
            Row("events with more than the quota", lambda run: run.measures.broken),
            Row("API writes for each", lambda run: run.writes_for_each, "{:.2f}"),
            *cast("list[Row[Result]]", of_processes(_PROCESSES)),
        ]

    def _set(self, plane: ControlPlane, started: Mapping[str, Component]) -> None:
        """Return when all nodes are ready and all queues are served."""
        with Api(plane.admin_kubeconfig) as api:
            api.create(*self.objects(), *manifests.setting(self._quotas))

            def ready() -> bool:
                return all(condition(each, "Ready") for each in api.list("nodes"))

            plane.wait_until("all nodes are ready", ready, _READY_SECONDS)

            def active() -> bool:
                if gone := _gone(started):
                    raise RuntimeError(f"{gone}\n{plane.tails()}")
                return manifests.are_active(api)

            plane.wait_until("all queues are active", active, _READY_SECONDS)


class QuotaBench(_Bench):
    """Workloads without pods, as a file describes them."""

    what, nodes = "Workloads", False

    def __init__(
        self, file: Path, load: Load, sides: Sequence[Side], limits: Limits, repeat: int
    ) -> None:
        queues = list(load.queues())
        cohorts = len({queue.cohort for queue in queues})
        name = f"{load.workloads} Workloads, {len(queues)} queues in {cohorts} cohorts"
        said = load.model_dump(mode="json", by_alias=True)
        title = f"{file.stem}: {name}"
        super().__init__(title, sides, limits, repeat, quotas=load, load=said)

    @override
    def driver(self) -> Make:
        return lambda http, tasks: QuotaDriver(http, tasks, self._quotas)

    @override
    def wanted(self) -> int:
        return self._quotas.workloads


class JobsBench(_Bench):
    """Real Jobs, beside kube-scheduler, the job controller and simulated kubelets."""

    what, nodes = "Jobs", True

    def __init__(self, load: JobsLoad, sides: Sequence[Side], limits: Limits, repeat: int) -> None:
        rate = f"{load.rate:g} created each second" if load.rate else "created at once"
        name = (
            f"{load.jobs} Jobs of {load.pods} pods of {load.runtime:g} s, {rate}, "
            f"quota for {load.at_once}"
        )
        super().__init__(name, sides, limits, repeat, quotas=load.quotas(), load=load)
        self._load = load

    @override
    def driver(self) -> Make:
        return lambda http, tasks: JobsDriver(http, tasks, self._load)

    @override
    def wanted(self) -> int:
        return self._load.jobs

    @override
    def objects(self) -> Iterable[Object]:
        return jobs.nodes(self._load)


def _wait(name: str, field: str) -> Callable[[Result], float | None]:
    return lambda run: getattr(run.measures.waits.get(name), field, None)


def _listed(written: Mapping[str, int], finished: int) -> str:
    each = {kind: count / max(finished, 1) for kind, count in written.items()}
    found = [f"{count:.2f} {kind}" for kind, count in each.items() if count >= _LEAST_FOR_EACH]
    return f"writes for each: {', '.join(found) or 'none'}"


def _gone(started: Mapping[str, Component]) -> str:
    """Return which process ended before its time, "" when none did."""
    ended = (
        f"the {name} ended with {each.exit_code}"
        for name, each in started.items()
        if not each.running
    )
    return next(ended, "")
