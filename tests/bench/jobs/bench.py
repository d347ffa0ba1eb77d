"""Real Jobs, by every side: a fresh control plane with nodes, a queue, kube-scheduler, Jobs."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import msgspec
from rich.table import Table
from typing_extensions import override

from tests.bench import tables
from tests.bench.jobs import manifests
from tests.bench.jobs.driver import JobsDriver
from tests.bench.jobs.load import Load
from tests.bench.jobs.measures import Measures, measure
from tests.bench.jobs.sides import Side
from tests.bench.meter import Meter
from tests.bench.queue import controllers, writes
from tests.bench.queue import manifests as queues
from tests.bench.queue.driving import drive
from tests.bench.queue.measures import Times
from tests.bench.series import Limits, Run, Series
from tests.bench.tables import Row
from tests.harness.client import Api, condition
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
_LEAST_FOR_EACH = 0.01
_READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave; times in seconds."""

    derived: ClassVar[Sequence[str]] = ("seconds", "jobs_per_second")
    jobs: int
    measures: Measures
    writes: Mapping[str, int]
    """Of all processes but the bench, by "VERB resource"."""

    @property
    def seconds(self) -> float:
        """Time from the first creation to the last Complete."""
        return self.measures.end - self.measures.start

    @property
    def jobs_per_second(self) -> float:
        """Rate of complete Jobs in that time."""
        return self.measures.complete / self.seconds if self.seconds else 0.0

    @property
    def writes_for_each(self) -> float | None:
        """Writes for each complete Job."""
        complete = self.measures.complete
        return sum(self.writes.values()) / complete if complete else None

    @property
    @override
    def faults(self) -> list[str]:
        found = []
        if self.measures.complete < self.jobs:
            found.append(f"{self.measures.complete} of {self.jobs} Jobs are complete")
        if self.measures.broken:
            found.append(f"quota was exceeded at {self.measures.broken} events:")
            found += self.measures.violations
        return found


class Bench(Series[Side, Result]):
    """Runs a load through every side, `repeat` times."""

    def __init__(self, load: Load, sides: Sequence[Side], limits: Limits, repeat: int) -> None:
        rate = f"{load.rate:g} created each second" if load.rate else "created at once"
        name = (
            f"{load.jobs} Jobs of {load.pods} pods of {load.runtime:g} s, {rate}, "
            f"quota for {load.at_once}"
        )
        super().__init__(name, sides, repeat)
        self._load, self._limits = load, limits

    @override
    def measure(self, side: Side, repeat: int) -> Result:
        load, progress = self._load, self.progress
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
                before = writes.parse(writes.page(plane))
                driver, note = asyncio.run(
                    drive(
                        plane.admin_kubeconfig,
                        lambda http, tasks: JobsDriver(http, tasks, load),
                        limits=self._limits,
                        say=progress,
                        gone=lambda: _gone(started),
                    )
                )
                if note:
                    progress(f"{note}\n{plane.tails()}")
                progress("waiting for the last writes")
                after = writes.parse(writes.settled(plane))
            finally:
                controllers.stop(started["controller"])
            measured = measure(driver.seen, load)
        written = writes.between(before, after, {"POST jobs": measured.created})
        return Result(
            side=side.key,
            title=side.title,
            repeat=repeat,
            jobs=load.jobs,
            measures=measured,
            writes=written,
            cpu_seconds=meter.cpu_seconds(measured.start, measured.end),
            peak_mib=meter.peak_mib(),
            notes=[*([note] if note else []), _listed(written, measured.complete)],
        )

    @override
    def summary(self, result: Result) -> str:
        done = f"{result.measures.complete} of {result.jobs} complete"
        return f"{result.jobs_per_second:.2f} Jobs/s, {done}"

    @override
    def table(self) -> Table:
        columns = tables.columns(self.results, lambda each: each.side)
        return tables.table(self.name, columns, _rows(), heading=lambda each: each.title)

    @override
    def load_as_builtins(self) -> Any:
        return msgspec.to_builtins(self._load)


def _listed(written: Mapping[str, int], complete: int) -> str:
    each = {kind: count / max(complete, 1) for kind, count in written.items()}
    found = [f"{count:.2f} {kind}" for kind, count in each.items() if count >= _LEAST_FOR_EACH]
    return f"writes for each Job: {', '.join(found) or 'none'}"


def _rows() -> list[Row[Result]]:
    return [
        Row("Jobs/s, first created to last Complete", lambda run: run.jobs_per_second, "{:.2f}"),
        Row("Jobs complete", lambda run: run.measures.complete),
        *_times("created to admitted", lambda run: run.measures.to_admission),
        *_times("created to Complete", lambda run: run.measures.to_complete),
        *_times("admitted to Complete", lambda run: run.measures.running),
        Row("mean use of the quota, %", lambda run: run.measures.usage * 100, "{:.1f}"),
        Row("evictions", lambda run: run.measures.evictions),
        Row("events with more than the quota", lambda run: run.measures.broken),
        Row("API writes for each Job", lambda run: run.writes_for_each, "{:.2f}"),
        *cast("list[Row[Result]]", tables.of_processes(_PROCESSES)),
    ]


def _times(text: str, times: Callable[[Result], Times | None]) -> list[Row[Result]]:
    def of(field: str) -> Callable[[Result], float | None]:
        return lambda run: getattr(times(run), field, None)

    return [Row(f"seconds, {text}, {field}", of(field), "{:.2f}") for field in ("median", "p99")]


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
