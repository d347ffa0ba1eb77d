"""Workloads under quota, by every controller: how one run is made and what is shown of it.

A run has a fresh control plane, the controller, the queues, then the load. The generator, the
runner and the controller are processes of their own, so that each one's CPU is known. The clock
begins when the watch shows the first Workload and ends when it shows the last one finished.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from rich.table import Table
from typing_extensions import override

from tests.bench import tables
from tests.bench.load import Progress
from tests.bench.meter import Meter
from tests.bench.queue import controllers, manifests, measures, status, writes
from tests.bench.queue.controllers import Controller
from tests.bench.queue.load import Load
from tests.bench.queue.measures import Measures
from tests.bench.queue.status import Status
from tests.bench.series import Limits, Run, Series
from tests.bench.tables import Row
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT
from tests.harness.process import Component

_PROCESSES = ("controller", "apiserver", "etcd", "generator", "runner")
_POLL_SECONDS = 0.2
_ACTIVE_SECONDS = 120.0
_CHILD_SECONDS = 60.0
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
        self._file, self._load, self._limits = file, load, limits

    @override
    def measure(self, side: Controller, repeat: int) -> Result:
        load, progress = self._load, self.progress
        progress("starting a control plane")
        with (
            tempfile.TemporaryDirectory(prefix="bench-queue-") as folder,
            ControlPlane(kubelet=False, controllers=False) as control_plane,
            Meter() as meter,
        ):
            record = Path(folder) / "history"
            run = _Run(control_plane, meter, self._file, record)
            try:
                run.prepare(load, side, progress)
                before = writes.parse(writes.page(control_plane))
                ended = run.go(self._limits, progress)
                progress("waiting for the last writes")
                after = writes.parse(writes.settled(control_plane))
            finally:
                run.stop()
            measured = measures.measure(measures.read(record), load)
            if ended:
                progress(f"{ended}\n{control_plane.tails()}")
        notes = [ended] if ended else []
        late = run.generated.seconds - load.planned_seconds
        if late > _LATE_SECONDS:
            notes.append(f"the load came {late:.0f} s later than its intervals say: all were busy")
        own = Counter(run.generated.writes) + Counter(run.ran.writes)
        written = writes.between(before, after, own)
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


class _Run:
    """The processes of one run."""

    def __init__(self, control_plane: ControlPlane, meter: Meter, file: Path, record: Path) -> None:
        self.generated = Status(text="")
        self.ran = Status(text="")
        self._control_plane = control_plane
        self._meter = meter
        self._kubeconfig = controllers.with_all_rights(control_plane, "bench")
        self._file = file.absolute()
        self._record = record
        self._started: dict[str, Component] = {}

    def prepare(self, load: Load, controller: Controller, progress: Progress) -> None:
        """Return when the controller serves all queues and the runner looks."""
        plane = self._control_plane
        self._meter.add("apiserver", plane.apiserver.pid)
        self._meter.add("etcd", plane.etcd.pid)
        progress("starting the controller")
        self._add("controller", controller.start(plane))
        with Api(plane.admin_kubeconfig) as api:
            api.create(*manifests.setting(load))
            progress("waiting for the queues to be active")
            plane.wait_until("all queues are active", lambda: self._active(api), _ACTIVE_SECONDS)
        self._spawn("runner", str(self._record))
        self._await("runner")

    def go(self, limits: Limits, progress: Progress) -> str:
        """Return "" when all Workloads are finished, and otherwise why it is not waited longer."""
        self._spawn("generator")
        began = changed = time.monotonic()
        before: tuple[str, str] | None = None
        while not self.ran.done:
            time.sleep(_POLL_SECONDS)
            self._look()
            now = time.monotonic()
            text = (self.generated.text, self.ran.text)
            if text != before:
                before, changed = text, now
            standing = "; ".join(filter(None, text))
            progress(f"{standing} in {now - began:.0f} s")
            gone = self._gone()
            if gone:
                return f"{gone}, {standing}"
            if now - began > limits.run:
                return f"ended at the limit of {limits.run:g} s: {standing}"
            if now - changed > limits.stall:
                return f"stalled for {limits.stall:g} s: {standing}"
        return ""

    def stop(self) -> None:
        """Stop the load and then the controller; what they wrote last is known then."""
        for name in ("generator", "runner", "controller"):
            if name in self._started:
                controllers.stop(self._started[name])
        self._look()

    def _spawn(self, name: str, *args: str) -> None:
        kubeconfig = str(self._kubeconfig)
        argv = [sys.executable, "-m", f"tests.bench.queue.{name}", kubeconfig, str(self._file)]
        env = {"PYTHONPATH": str(ROOT)}
        self._add(name, self._control_plane.spawn(name, [*argv, *args], env=env))

    def _add(self, name: str, component: Component) -> None:
        self._started[name] = component
        self._meter.add(name, component.pid)

    def _await(self, name: str) -> None:
        def has_begun() -> bool:
            if gone := self._gone():
                raise RuntimeError(f"{gone}\n{self._started[name].tail(40)}")
            return self._status(name) is not None

        self._control_plane.wait_until(f"the {name} has begun", has_begun, _CHILD_SECONDS)

    def _active(self, api: Api) -> bool:
        if gone := self._gone():
            raise RuntimeError(f"{gone}\n{self._started['controller'].tail(40)}")
        return manifests.are_active(api)

    def _look(self) -> None:
        self.generated = self._status("generator") or self.generated
        self.ran = self._status("runner") or self.ran

    def _status(self, name: str) -> Status | None:
        lines = self._started[name].tail(1).splitlines() if name in self._started else []
        return status.read(lines[-1]) if lines else None

    def _gone(self) -> str:
        """Return which process ended before its time, "" when none did."""
        for name, component in self._started.items():
            code = component.exit_code
            if code or (code == 0 and name == "controller"):
                return f"the {name} ended with {code}"
        return ""
