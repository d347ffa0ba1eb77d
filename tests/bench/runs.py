"""One measured run: a fresh control plane, the load, then the scheduler and the clock.

Pods and groups are there before the scheduler is, and an extender is ready before it. There are
two clocks. Both end with the last pod that gets a node. `ready_seconds` begins when the scheduler
says that it is ready, `seconds` when the first pod has a node. The second flatters gangs: a
scheduler that starts does not take the pods it finds in the order of their creation, so all gangs
fill at the same time, and the first one is whole when much of the work is done.

With a pace gangs come while the scheduler runs. Then the first clock begins with the first one.
"""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from tests.bench import histogram, load, scheduled
from tests.bench.creation import Creation
from tests.bench.gangs import at_the_end, judge
from tests.bench.load import NAMESPACE, Progress, fits
from tests.bench.meter import Meter
from tests.bench.results import STOCK, Audit, Case, Latency, Result
from tests.bench.scheduled import Written
from tests.bench.sides import Pages, Running, Settings, Side
from tests.bench.sightings import NEW, ON_NODE, Sightings
from tests.bench.waits import waits
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component
from tests.harness.toolchain import Binaries, ensure_binaries

_POLL_SECONDS = 0.1
_SETTLE_SECONDS = 5.0
_CLOCK_TOLERANCE_SECONDS = 2.0  # the conditions have whole seconds at both ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run is ended although pods still wait, in seconds."""

    run: float = 300.0
    stall: float = 60.0  # without one more pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of a run; times are of the monotonic clock, and by name of the pod."""

    ready: float
    """When the scheduler was."""
    created: Mapping[str, float]
    """When each pod was there, of gangs that came while the scheduler ran."""
    bound: Mapping[str, float]
    """When each pod of a gang that fits had a node."""
    strays: Set[str]
    """Pods that had a node although their gangs cannot fit."""
    refused: int
    """Pods of these gangs that were tried in vain."""
    pods: Sequence[Object]
    """Those that have a node at the end."""
    written: Written
    audit: Audit
    pages: Pages
    notes: Sequence[str]


def measure(case: Case, side: Side, *, repeat: int, limits: Limits, progress: Progress) -> Result:
    """Return what that side made of the load."""
    meter = Meter()
    meter.add("bench", os.getpid())
    binaries = ensure_binaries()
    if side.binary:
        binaries = dataclasses.replace(binaries, kube_scheduler=side.binary)
    progress("starts a control plane")
    with MeteredControlPlane(
        binaries, meter, controllers=bool(case.pace), apiserver_args=side.apiserver_args
    ) as control_plane:
        kubeconfig = control_plane.admin_kubeconfig
        with Api(kubeconfig) as api:
            api.apply(side.crds)
            load.create(kubeconfig, case.load, side.kind, progress, pods=not case.pace)
            run = _Run(control_plane, api, case, side, limits=limits, progress=progress)
            seen = run.go(meter)
    return result(case, side, seen, meter, repeat=repeat)


class MeteredControlPlane(ControlPlane):
    """No kubelet; every process is known to the meter as soon as it runs."""

    def __init__(
        self,
        binaries: Binaries,
        meter: Meter,
        *,
        controllers: bool,
        apiserver_args: Sequence[str] = (),
    ) -> None:
        super().__init__(
            binaries, kubelet=False, controllers=controllers, apiserver_args=apiserver_args
        )
        self._meter = meter
        self._with_controllers = controllers

    @override
    def start(self) -> None:
        super().start()
        self._meter.add("apiserver", self.apiserver.pid)
        self._meter.add("etcd", self.etcd.pid)
        if self._with_controllers:
            self._meter.add("controllers", self.controller_manager.pid)

    @override
    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        url: str = "",
    ) -> Component:
        component = super().spawn(name, argv, env=env, url=url)
        role = "scheduler" if name.endswith("scheduler") else name
        role = "extender" if role.endswith("extender") else role
        self._meter.add(role, component.pid)
        return component


class _Run:
    """From the start of the scheduler until nothing more is written."""

    def __init__(
        self,
        control_plane: ControlPlane,
        api: Api,
        case: Case,
        side: Side,
        *,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self._control_plane, self._api = control_plane, api
        self._case, self._side = case, side
        self._limits, self._progress = limits, progress

    def go(self, meter: Meter) -> Seen:
        """Return what was seen while the meter ran."""
        kubeconfig = self._control_plane.admin_kubeconfig
        with (
            Bookkeeper(kubeconfig) as books,
            Sightings(kubeconfig, fields=ON_NODE) as on_nodes,
            Creation(kubeconfig, self._case.load, self._side.kind, self._case.pace) as creation,
            meter,
        ):
            self._progress("starts the scheduler")
            running = self._side.start(self._control_plane, client(self._case.qps))
            ready = time.monotonic()
            creation.begin()
            ended = self._wait(on_nodes, creation, running)
            bound = on_nodes.times()
            time.sleep(2 * _POLL_SECONDS)  # one more sample of the meter
            pages = running.metrics()
            written = scheduled.await_written(kubeconfig, len(bound))
            notes = _notes(ended, on_nodes, books, written)
            refused = 0 if ended else self._refused()
            pods = self._pods_at_the_end(running, early=bool(ended))
            strays = on_nodes.strays()
            audit = self._audit(books, written, last=max(bound.values(), default=0))
        if ended:
            self._progress(f"{ended}\n{self._control_plane.tails()}")
        return Seen(
            ready=ready,
            created=creation.times(),
            bound=bound,
            strays=strays,
            refused=refused,
            pods=pods,
            written=written,
            audit=audit,
            pages=pages,
            notes=notes,
        )

    def _wait(self, on_nodes: Sightings, creation: Creation, running: Running) -> str:
        """Return "" when all pods have a node, otherwise why it is not waited any longer."""
        began = changed = time.monotonic()
        wanted, limits, before = self._case.load.pods, self._limits, 0
        while (count := on_nodes.count()) < wanted:
            creation.check()
            now = time.monotonic()
            if count > before:
                before, changed = count, now
            self._progress(f"{count} of {wanted} pods scheduled in {now - began:.0f} s")
            if not running.scheduler.running:
                code = running.scheduler.exit_code
                return f"the scheduler ended with {code}, {count} pods scheduled"
            if now - began > limits.run:
                limit = f"{limits.run:g} s"
                return f"ended at the limit of {limit} with {count} of {wanted} pods scheduled"
            if now - changed > limits.stall:
                return f"stalled for {limits.stall:g} s at {count} of {wanted} pods"
            time.sleep(_POLL_SECONDS)
        return ""

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

    def _pods_at_the_end(self, running: Running, *, early: bool) -> list[Object]:
        """Return the pods that have a node; after an early end once what is under way has ended."""
        if early:
            running.scheduler.stop()
        deadline = time.monotonic() + (_SETTLE_SECONDS if early else 0)
        while True:
            pods = self._api.list("pods", NAMESPACE, fields=ON_NODE)
            found = judge(dict.fromkeys(_names(pods), 0.0), self._case.load.size)
            if not found.partial or time.monotonic() > deadline:
                return pods
            time.sleep(_POLL_SECONDS)

    def _audit(self, books: Bookkeeper, written: Written, *, last: float) -> Audit:
        cpu = books.cpu_seconds
        books.settle(self._api)
        found = books.ask()
        gangs, size = self._case.load.gang_names(), self._case.load.size
        return Audit(
            overcommits=found.breaches,
            collisions=len(found.collisions),
            partial=len(books.partial({f"{NAMESPACE}/{gang}": size for gang in gangs})),
            events=written.count,
            repeated_events=written.repeated,
            late_seconds=max(0.0, written.ended - last) if last else 0.0,
            cpu_seconds=cpu,
        )


def client(qps: str) -> Settings:
    """Return the settings of the scheduler's client for a QPS."""
    return {} if qps == STOCK else {"qps": float(qps), "burst": 2 * int(float(qps))}


def _notes(ended: str, on_nodes: Sightings, books: Bookkeeper, written: Written) -> list[str]:
    notes = [ended] if ended else []
    if books.gaps:
        notes.append(f"the books missed events, {books.gaps} times")
    if not written.in_time:
        notes.append("Events were still being written when it was waited no longer")
    if on_nodes.interruptions:
        notes.append(f"interruptions of the watch: {on_nodes.interruptions}")
    return notes


def _is_refused(pod: Object) -> bool:
    conditions = cast("list[dict[str, Any]]", pod["status"].get("conditions", []))
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def _names(pods: Sequence[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def result(case: Case, side: Side, seen: Seen, meter: Meter, *, repeat: int) -> Result:
    """Return what the times and counts of a run come to."""
    bound, size = seen.bound, case.load.size
    ready = min(seen.created.values(), default=seen.ready)
    first, last = min(bound.values(), default=ready), max(bound.values(), default=ready)
    start, end = min(ready, first), max(last, seen.written.ended)
    condition_seconds = _condition_seconds(
        [pod for pod in seen.pods if pod["metadata"]["name"] in bound]
    )
    notes = [*seen.notes]
    if abs(condition_seconds - (last - first)) > _CLOCK_TOLERANCE_SECONDS:
        notes.append(f"by the pods' conditions it took {condition_seconds:g} s")
    return Result(
        side=side.key,
        title=side.title,
        repeat=repeat,
        impossible=case.load.impossible,
        refused=seen.refused,
        scheduled=len(bound),
        seconds=last - first,
        ready_seconds=last - start,
        condition_seconds=condition_seconds,
        gangs=at_the_end(
            judge(bound, size), bound=_names(seen.pods), seen=bound.keys() | seen.strays, size=size
        ),
        cpu_seconds=meter.cpu_seconds(start, last),
        late_cpu_seconds=meter.cpu_seconds(start, end),
        ledger=seen.audit,
        peak_mib=meter.peak_mib(),
        attempts=histogram.total(seen.pages.scheduler, "scheduler_schedule_attempts_total"),
        filter=_latency(
            seen.pages.extender, "gang_extender_request_duration_seconds", verb="filter"
        ),
        bind=_latency(seen.pages.extender, "gang_extender_binding_duration_seconds"),
        notes=tuple(notes),
        waits=waits(seen.created, bound, size),
    )


def _latency(page: str, name: str, **labels: str) -> Latency | None:
    """Return the quantiles of a histogram that was empty when the run began: a new process."""
    observed = histogram.parse(page, name, **labels)
    if not observed.count:
        return None
    return Latency(observed.count, observed.quantile(0.5), observed.quantile(0.99))


def _condition_seconds(pods: Sequence[Object]) -> float:
    times = [_scheduled_at(pod) for pod in pods]
    return (max(times) - min(times)).total_seconds() if times else 0.0


def _scheduled_at(pod: Object) -> datetime:
    conditions = cast("list[dict[str, Any]]", pod["status"]["conditions"])
    text = next(each["lastTransitionTime"] for each in conditions if each["type"] == "PodScheduled")
    return datetime.fromisoformat(text)
