"""Workloads under quota, by every controller: how one run is made and what is shown of it.

A run has a fresh control plane, the controller, the queues, then the load. The clock begins when
the watch shows the first Workload and ends when it shows the last one finished.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from rich.table import Table
from typing_extensions import override

from tests.bench import tables
from tests.bench.meter import Meter
from tests.bench.queue import controllers, manifests, measures, writes
from tests.bench.queue.controllers import Controller
from tests.bench.queue.driver import QuotaDriver
from tests.bench.queue.driving import drive
from tests.bench.queue.load import Load
from tests.bench.queue.measures import Measures
from tests.bench.series import Limits, Run, Series
from tests.bench.tables import Row
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component

_PROCESSES = ("controller", "apiserver", "etcd", "bench")
_ACTIVE_SECONDS = 120.0
_LATE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave; times in seconds."""

    derived: ClassVar[Sequence[str]] = ("seconds", "workloads_per_second", "writes_per_workload")
    workloads: int
    """Of the load."""
    measures: Measures
    writes: Mapping[str, int]
    """Of the controller, by "VERB resource"."""

    @property
    def seconds(self) -> float:
        """Time from the first creation to the last finish."""
        return self.measures.end - self.measures.start

    @property
    def workloads_per_second(self) -> float:
        """Rate of finished Workloads in that time."""
        return self.measures.finished / self.seconds if self.seconds else 0.0

    @property
    def writes_per_workload(self) -> float | None:
        """Requests of the controller that write."""
        finished = self.measures.finished
        return sum(self.writes.values()) / finished if finished else None

    @property
    @override
    def faults(self) -> list[str]:
        found = []
        if self.measures.finished < self.workloads:
            found.append(f"{self.measures.finished} of {self.workloads} Workloads finished")
        if self.measures.broken:
            found.append(f"quota was exceeded at {self.measures.broken} events:")
            found += self.measures.violations
        return found


class Bench(Series[Controller, Result]):
    """Runs the load of a file through every controller, `repeat` times."""

    def __init__(
        self, file: Path, load: Load, controllers: Sequence[Controller], limits: Limits, repeat: int
    ) -> None:
        queues = list(load.queues())
        cohorts = len({queue.cohort for queue in queues})
        name = f"{load.workloads} Workloads, {len(queues)} queues in {cohorts} cohorts"
        super().__init__(f"{file.stem}: {name}", controllers, repeat)
        self._load, self._limits = load, limits

    @override
    def measure(self, side: Controller, repeat: int) -> Result:
        load, progress = self._load, self.progress
        progress("starting a control plane")
        with ControlPlane(kubelet=False, controllers=False) as plane, Meter() as meter:
            progress("starting the controller")
            controller = side.start(plane)
            try:
                _set(plane, load, controller)
                for name, pid in (
                    ("controller", controller.pid),
                    ("apiserver", plane.apiserver.pid),
                    ("etcd", plane.etcd.pid),
                    ("bench", os.getpid()),
                ):
                    meter.add(name, pid)
                kubeconfig = controllers.with_all_rights(plane, "bench")
                before = writes.parse(writes.page(plane))
                driver, ended = asyncio.run(
                    drive(
                        kubeconfig,
                        lambda http, tasks: QuotaDriver(http, tasks, load),
                        limits=self._limits,
                        say=progress,
                        gone=lambda: _gone(controller),
                    )
                )
                progress("waiting for the last writes")
                after = writes.parse(writes.settled(plane))
            finally:
                controllers.stop(controller)
            measured = measures.measure(driver.seen, load)
            if ended:
                progress(f"{ended}\n{plane.tails()}")
        notes = [ended] if ended else []
        late = driver.creation_seconds - load.planned_seconds
        if late > _LATE_SECONDS:
            notes.append(f"the load came {late:.0f} s later than its intervals say: all were busy")
        written = writes.between(before, after, driver.writes)
        listed = ", ".join(f"{count} {what}" for what, count in written.items())
        return Result(
            side=side.key,
            title=side.title,
            repeat=repeat,
            workloads=load.workloads,
            measures=measured,
            writes=written,
            cpu_seconds=meter.cpu_seconds(measured.start, measured.end),
            peak_mib=meter.peak_mib(),
            notes=[*notes, f"writes: {listed or 'none'}"],
        )

    @override
    def summary(self, result: Result) -> str:
        done = f"{result.measures.finished} of {result.workloads} finished"
        return f"{result.workloads_per_second:.1f} Workloads/s, {done}"

    @override
    def table(self) -> Table:
        columns = tables.columns(self.results, lambda each: each.side)
        return tables.table(self.name, columns, self._rows(), heading=lambda each: each.title)

    @override
    def load_as_builtins(self) -> Any:
        return self._load.model_dump(mode="json", by_alias=True)

    def _rows(self) -> list[Row[Result]]:
        return [
            Row(
                "Workloads/s, first created to last finished",
                lambda run: run.workloads_per_second,
                "{:.1f}",
            ),
            Row("Workloads finished", lambda run: run.measures.finished),
            *(
                Row(f"seconds to admission, {kind}, {field}", _wait(kind, field), "{:.2f}")
                for kind in self._load.classes()
                for field in ("mean", "p99")
            ),
            Row("mean use of the quota, %", lambda run: run.measures.usage * 100, "{:.1f}"),
            Row("evictions", lambda run: run.measures.evictions),
            Row("API writes per Workload", lambda run: run.writes_per_workload, "{:.2f}"),
            Row("events with more than the quota", lambda run: run.measures.broken),
            *cast("list[Row[Result]]", tables.of_processes(_PROCESSES)),
        ]


def _wait(kind: str, field: str) -> Callable[[Result], float | None]:
    return lambda run: getattr(run.measures.waits.get(kind), field, None)


def _set(plane: ControlPlane, load: Load, controller: Component) -> None:
    """Return when the controller serves all queues."""
    with Api(plane.admin_kubeconfig) as api:
        api.create(*manifests.setting(load))

        def active() -> bool:
            if gone := _gone(controller):
                raise RuntimeError(f"{gone}\n{controller.tail(40)}")
            return manifests.are_active(api)

        plane.wait_until("all queues are active", active, _ACTIVE_SECONDS)


def _gone(controller: Component) -> str:
    return "" if controller.running else f"the controller ended with {controller.exit_code}"
