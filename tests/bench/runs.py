"""Gangs, by every side: a fresh control plane, the load, then the scheduler and the clock.

Pods and groups are there before the scheduler is, and an extender is ready before it. The clock
begins when the scheduler says that it is ready, and ends with the last pod that gets a node. With a
pace gangs come while the scheduler runs. Then the clock begins with the first one.
"""

import dataclasses
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from typing_extensions import override

from tests.bench import load
from tests.bench.creation import Creation, Pace
from tests.bench.gangs import Gangs, Quantiles, Waits, judge, waits
from tests.bench.load import NAMESPACE, Load, Progress, fits
from tests.bench.meter import Meter
from tests.bench.series import Limits, Row, Run, Series, await_count, of_processes
from tests.bench.sides import CRDS, OURS, PLAIN, Settings, Side
from tests.bench.sightings import NEW, ON_NODE, Sightings
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component
from tests.harness.toolchain import Binaries, ensure_binaries

STOCK = "stock"
PROCESSES = ("scheduler", "extender", "reconciler", "controllers", "apiserver", "etcd", "bench")
_POLL_SECONDS = 0.1
_SETTLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What to schedule, and at which QPS (`stock`, or a number).

    Without a pace all pods are there before the scheduler is.
    """

    load: Load
    qps: str
    pace: Pace | None = None

    @property
    def title(self) -> str:
        """The case in one line."""
        made = self.load
        nodes, gangs = f"{made.nodes} nodes", f"{made.gangs} gangs of {made.size}"
        if made.large_nodes:
            nodes += f" and {made.large_nodes} large ones"
        if made.impossible:
            gangs += " and as many that cannot fit"
        if self.pace:
            gangs += f" {self.pace}"
        return f"{nodes}, {gangs}, {rate_of(self.qps)}"


def rate_of(qps: str) -> str:
    """Return a QPS in words."""
    return "stock QPS" if qps == STOCK else f"QPS {qps}"


def client(qps: str) -> Settings:
    """Return the settings of the scheduler's client for a QPS."""
    return {} if qps == STOCK else {"qps": float(qps), "burst": 2 * int(float(qps))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Run):
    """What one run gave; times in seconds."""

    derived: ClassVar[Sequence[str]] = ("pods_per_second",)
    load: Load
    refused: int
    """Pods of gangs that cannot fit that were tried and refused before the run ended."""
    scheduled: int
    """Pods of the gangs that fit, as are all times."""
    seconds: float
    gangs: Gangs
    overcommits: Sequence[str]
    """Sentences: each names the pods and their versions."""
    collisions: int
    """Pods with a node on which kube-scheduler wrote that it failed to place them."""
    partial: int
    """Gangs with some members on nodes at the end, by the books."""
    waits: Waits | None = None
    """Of gangs that came while the scheduler ran."""

    @property
    def pods_per_second(self) -> float:
        """Rate until the last pod."""
        return self.scheduled / self.seconds if self.seconds else 0.0

    @property
    @override
    def faults(self) -> list[str]:
        """Our gangs that are not whole, or cannot be; nodes of any side that had too much."""
        gangs, found = self.gangs, list(self.overcommits)
        if self.side != OURS:
            return found
        if gangs.whole < self.load.gangs or gangs.partial or self.partial:
            partial = max(gangs.partial, self.partial)
            found.append(f"{gangs.whole} of {self.load.gangs} gangs are whole, {partial} partial")
        if gangs.impossible_bound:
            found.append(f"pods bound of gangs that cannot fit: {gangs.impossible_bound}")
        return found


@dataclass(frozen=True, slots=True)
class Column:
    """A side, and whether gangs that cannot fit are among those that it schedules."""

    side: Side
    churn: bool
    title: str


class Bench(Series[Column, Result]):
    """One case by every side; where gangs cannot fit, our sides without these first.

    kube-scheduler alone has no part in that: it would place pods of gangs that cannot fit.
    """

    def __init__(self, case: Case, sides: Sequence[Side], limits: Limits, repeat: int) -> None:
        made = [Column(side, churn=False, title=side.title) for side in sides]
        if case.load.impossible:
            made = [
                Column(side, churn=churn, title=f"{side.title}, {'churn' if churn else 'alone'}")
                for side in sides
                if side.key != PLAIN
                for churn in (False, True)
            ]
        super().__init__(case.title, made, repeat, load=case)
        self._case, self._limits = case, limits

    @override
    def measure(self, side: Column, repeat: int) -> Result:
        case = self._case
        if not side.churn:
            case = dataclasses.replace(case, load=case.load.alone())
        return measure(case, side, repeat=repeat, limits=self._limits, progress=self.progress)

    @override
    def summary(self, result: Result) -> str:
        return (
            f"{result.pods_per_second:.0f} pods/s, {result.gangs.whole} of {result.load.gangs} "
            f"gangs whole, partial gangs: {result.gangs.partial}, "
            f"overcommits: {len(result.overcommits)}, collisions: {result.collisions}"
        )

    def _ratio(self, row: Row[Result]) -> Row[Result]:
        """Return the line of a measure relative to its baseline of the same repeat.

        That is the plain kube-scheduler; with gangs that cannot fit the same side without them.
        """

        def ratio(run: Result) -> float | None:
            key = run.side if self._case.load.impossible else PLAIN
            for base in self.results:
                if (base.side, base.repeat) == (key, run.repeat) and not base.load.impossible:
                    ours, theirs = row.value(run), row.value(base)
                    return ours / theirs if ours and theirs else None
            return None

        return Row("  ratio", ratio, "{:.2f}")

    @override
    def rows(self) -> list[Row[Result]]:
        rate: Row[Result] = Row("pods/s", lambda run: run.pods_per_second)
        waits: list[Row[Result]] = [
            Row(f"{since} pod created to last on a node, {name}, ms", _wait(since, name))
            for since in ("last", "first")
            for name in ("p50", "p99")
        ]
        return [
            rate,
            self._ratio(rate),
            Row("seconds", lambda run: run.seconds, "{:.1f}"),
            Row("pods scheduled", lambda run: run.scheduled),
            Row("gangs whole", lambda run: run.gangs.whole),
            Row("partial gangs at the end", lambda run: run.gangs.partial),
            Row("pods that cannot fit, bound", _impossible(lambda run: run.gangs.impossible_bound)),
            Row("pods that cannot fit, refused", _impossible(lambda run: run.refused)),
            Row("overcommits", lambda run: len(run.overcommits)),
            Row("collisions", lambda run: run.collisions),
            *(row for each in waits for row in (each, self._ratio(each))),
            Row("extender, CPU ms a pod", _cpu_of_extender, "{:.2f}"),
            *cast("list[Row[Result]]", of_processes(PROCESSES)),
        ]


def _wait(since: str, quantile: str) -> Any:
    def milliseconds(run: Result) -> float | None:
        if run.waits is None:
            return None
        found: Quantiles = run.waits.from_last if since == "last" else run.waits.from_first
        return 1000 * (found.p50 if quantile == "p50" else found.p99)

    return milliseconds


def _impossible(value: Any) -> Any:
    return lambda run: value(run) if run.load.impossible else None


def _cpu_of_extender(run: Result) -> float | None:
    seconds = run.cpu_seconds.get("extender")
    return 1000 * seconds / run.scheduled if seconds and run.scheduled else None


class MeteredControlPlane(ControlPlane):
    """No kubelet; every process is known to the meter as soon as it runs."""

    def __init__(self, side: Side, meter: Meter, *, controllers: bool) -> None:
        super().__init__(
            _binaries(side),
            kubelet=False,
            controllers=controllers,
            apiserver_args=side.apiserver_args,
        )
        self._meter = meter
        self._with_controllers = controllers
        meter.add("bench", os.getpid())

    @override
    def start(self) -> None:
        super().start()
        self._meter.add("apiserver", self.apiserver.pid)
        self._meter.add("etcd", self.etcd.pid)
        if self._with_controllers:
            self._meter.add("controllers", self.controller_manager.pid)

    @override
    def spawn(self, name: str, argv: Sequence[str | Path], **options: Any) -> Component:
        component = super().spawn(name, argv, **options)
        role = "scheduler" if name.endswith("scheduler") else name
        role = "extender" if role.endswith("extender") else role
        self._meter.add(role, component.pid)
        return component


def _binaries(side: Side) -> Binaries:
    found = ensure_binaries()
    return dataclasses.replace(found, kube_scheduler=side.binary) if side.binary else found


def measure(
    case: Case, column: Column, *, repeat: int, limits: Limits, progress: Progress
) -> Result:
    """Return what that side made of the load."""
    meter, side = Meter(), column.side
    progress("starts a control plane")
    with MeteredControlPlane(side, meter, controllers=bool(case.pace)) as control_plane:
        kubeconfig = control_plane.admin_kubeconfig
        with Api(kubeconfig) as api:
            api.apply(CRDS)
            load.create(kubeconfig, case.load, side.kind, progress, pods=not case.pace)
            run = _Run(control_plane, api, case, column, limits=limits, progress=progress)
            return run.go(meter, repeat)


class _Run:
    """From the start of the scheduler until nothing more is written."""

    def __init__(
        self,
        control_plane: ControlPlane,
        api: Api,
        case: Case,
        column: Column,
        *,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self._control_plane, self._api = control_plane, api
        self._case, self._column = case, column
        self._limits, self._progress = limits, progress

    def go(self, meter: Meter, repeat: int) -> Result:
        """Return what was seen while the meter ran."""
        kubeconfig = self._control_plane.admin_kubeconfig
        wanted, side = self._case.load, self._column.side
        with (
            Bookkeeper(kubeconfig) as books,
            Sightings(kubeconfig, fields=ON_NODE) as on_nodes,
            Creation(kubeconfig, wanted, side.kind, self._case.pace) as creation,
            meter,
        ):
            self._progress("starts the scheduler")
            scheduler = side.start(self._control_plane, client(self._case.qps))
            ready = time.monotonic()
            creation.begin()

            def scheduled() -> int:
                creation.check()
                return on_nodes.count()

            ended = await_count(
                scheduled,
                wanted.pods,
                "pods scheduled",
                limits=self._limits,
                process=scheduler,
                say=self._progress,
            )
            bound = on_nodes.times()
            time.sleep(2 * _POLL_SECONDS)  # one more sample of the meter
            refused = 0 if ended else self._refused()
            pods = self._pods_at_the_end(scheduler, early=bool(ended))
            books.settle(self._api)
            found = books.ask()
            sizes = {f"{NAMESPACE}/{gang}": wanted.size for gang in wanted.gang_names()}
            partial = len(books.partial(sizes))
        if ended:
            self._progress(f"{ended}\n{self._control_plane.tails()}")
        start = min(creation.times().values(), default=ready)
        last = max(bound.values(), default=start)
        start = min(start, *bound.values()) if bound else start
        return Result(
            side=side.key,
            title=self._column.title,
            repeat=repeat,
            load=wanted,
            refused=refused,
            scheduled=len(bound),
            seconds=last - start,
            gangs=judge(_names(pods), bound.keys() | on_nodes.strays(), wanted.size),
            overcommits=found.breaches,
            collisions=len(found.collisions),
            partial=partial,
            cpu_seconds=meter.cpu_seconds(start, last),
            peak_mib=meter.peak_mib(),
            notes=_notes(ended, books),
            waits=waits(creation.times(), bound, wanted.size),
        )

    def _refused(self) -> int:
        """Return how many pods of gangs that cannot fit are refused: all, or no more come.

        Only what was tried in vain shows that nothing of such a gang starts.
        """
        wanted = self._case.load.pods if self._case.load.impossible else 0
        before, changed = 0, time.monotonic()
        while before < wanted and time.monotonic() - changed < self._limits.stall:
            time.sleep(_POLL_SECONDS)
            waiting = self._api.list("pods", NAMESPACE, fields=NEW)
            count = sum(not fits(pod["metadata"]["name"]) and _is_refused(pod) for pod in waiting)
            self._progress(f"{count} of {wanted} pods that cannot fit are refused")
            if count > before:
                before, changed = count, time.monotonic()
        return before

    def _pods_at_the_end(self, scheduler: Component, *, early: bool) -> list[Object]:
        """Return the pods that have a node; after an early end once what is under way has ended."""
        if early:
            scheduler.stop()
        deadline = time.monotonic() + (_SETTLE_SECONDS if early else 0)
        while True:
            pods = self._api.list("pods", NAMESPACE, fields=ON_NODE)
            partial = judge(_names(pods), set(), self._case.load.size).partial
            if not partial or time.monotonic() > deadline:
                return pods
            time.sleep(_POLL_SECONDS)


def _notes(ended: str, books: Bookkeeper) -> list[str]:
    notes = [ended] if ended else []
    if books.gaps:
        notes.append(f"the books missed events, {books.gaps} times")
    return notes


def _is_refused(pod: Object) -> bool:
    conditions = cast("list[dict[str, Any]]", pod["status"].get("conditions", []))
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def _names(pods: Sequence[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
