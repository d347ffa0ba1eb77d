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
from typing import Any, Self, cast

from typing_extensions import override

from tests.bench import histogram, load, scheduled
from tests.bench.arrivals import Arrivals
from tests.bench.creation import Creation, Pace
from tests.bench.gangs import Gangs, at_the_end, judge
from tests.bench.load import NAMESPACE, Load, Progress, fits
from tests.bench.meter import Meter
from tests.bench.scheduled import Written
from tests.bench.sides import Pages, Running, Settings, Side
from tests.bench.waits import Waits, waits
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component
from tests.harness.toolchain import Binaries, ensure_binaries

STOCK = "stock"
_POLL_SECONDS = 0.1
_SETTLE_SECONDS = 5.0
_CLOCK_TOLERANCE_SECONDS = 2.0  # the conditions have whole seconds at both ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run is ended although pods still wait, in seconds."""

    run: float = 300.0
    stall: float = 60.0  # without one more pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison: what to schedule, and at which QPS (`stock`, or a number).

    Without a pace all pods are there before the scheduler is.
    """

    load: Load
    qps: str
    pace: Pace | None = None

    def alone(self) -> Self:
        """Return the case without the gangs that cannot fit."""
        return dataclasses.replace(self, load=self.load.alone())


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds."""

    count: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the books of a run say, and what was written about its pods."""

    overcommits: Sequence[str]
    """Sentences: each names the pods and their versions."""
    collisions: int
    """Pods with a node on which kube-scheduler wrote that it failed to place them."""
    partial: int
    """Gangs with some members on nodes at the end."""
    events: int
    """Those of the reason Scheduled."""
    repeated_events: int
    """Pods with more than one of them."""
    late_seconds: float
    """From the last pod to the last of these Events."""
    cpu_seconds: float
    """Of the books, in the bench's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave; CPU seconds and MiB by process, times in seconds."""

    side: str
    title: str
    repeat: int
    impossible: bool  # whether there were gangs that cannot fit
    refused: int  # pods of those that were tried and refused before the run ended
    scheduled: int  # pods of the gangs that fit, as are all times
    seconds: float
    ready_seconds: float
    condition_seconds: float
    gangs: Gangs
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]
    late_cpu_seconds: Mapping[str, float]
    """The same until the last Event was written."""
    ledger: Audit
    attempts: float
    filter: Latency | None
    bind: Latency | None
    notes: Sequence[str]
    waits: Waits | None = None
    """Of gangs that came while the scheduler ran."""

    @property
    def pods_per_second(self) -> float:
        """Rate between the first and the last pod."""
        return self.scheduled / self.seconds if self.seconds else 0.0

    @property
    def pods_per_second_from_ready(self) -> float:
        """Rate between the scheduler's readiness and the last pod."""
        return self.scheduled / self.ready_seconds if self.ready_seconds else 0.0


def measure(case: Case, side: Side, *, repeat: int, limits: Limits, progress: Progress) -> Result:
    """Return what that side made of the load."""
    meter = Meter()
    meter.add("bench", os.getpid())
    binaries = ensure_binaries()
    if side.binary:
        binaries = dataclasses.replace(binaries, kube_scheduler=side.binary)
    progress("starts a control plane")
    with _MeteredControlPlane(binaries, meter, controllers=bool(case.pace)) as control_plane:
        kubeconfig = control_plane.admin_kubeconfig
        with Api(kubeconfig) as api:
            api.apply(side.crds)
            load.create(kubeconfig, case.load, side.kind, progress, pods=not case.pace)
            with (
                Bookkeeper(kubeconfig) as books,
                Arrivals(kubeconfig) as arrivals,
                Creation(kubeconfig, case.load, side.kind, case.pace) as creation,
                meter,
            ):
                progress("starts the scheduler")
                running = side.start(control_plane, _client(case.qps))
                ready = time.monotonic()
                creation.begin()
                ended = _wait(
                    case.load.pods, arrivals, creation, running, limits=limits, progress=progress
                )
                times = arrivals.times()
                time.sleep(2 * _POLL_SECONDS)  # one more sample of the meter
                pages = running.metrics()
                written = scheduled.await_written(kubeconfig, len(times))
                notes = _notes(ended, arrivals, books, written)
                refused = 0 if ended else _refused(api, case.load, limits, progress)
                pods = _pods_at_the_end(api, case.load, running, early=bool(ended))
                strays = arrivals.strays()
                audit = _audit(case.load, api, books, written, last=max(times.values(), default=0))
        if ended:
            progress(f"{ended}\n{control_plane.tails()}")
    return _result(
        case,
        side,
        repeat=repeat,
        ready=ready,
        created=creation.times(),
        times=times,
        strays=strays,
        refused=refused,
        pods=pods,
        meter=meter,
        written=written,
        audit=audit,
        pages=pages,
        notes=notes,
    )


def _audit(load: Load, api: Api, books: Bookkeeper, written: Written, *, last: float) -> Audit:
    cpu = books.cpu_seconds
    books.settle(api)
    found = books.ask()
    sizes = {f"{NAMESPACE}/{gang}": load.size for gang in load.gang_names()}
    return Audit(
        overcommits=found.breaches,
        collisions=len(found.collisions),
        partial=len(books.partial(sizes)),
        events=written.count,
        repeated_events=written.repeated,
        late_seconds=max(0.0, written.ended - last) if last else 0.0,
        cpu_seconds=cpu,
    )


class _MeteredControlPlane(ControlPlane):
    """No kubelet; every process is known to the meter as soon as it runs."""

    def __init__(self, binaries: Binaries, meter: Meter, *, controllers: bool) -> None:
        super().__init__(binaries, kubelet=False, controllers=controllers)
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
        role = "scheduler" if name.endswith("scheduler") else "extender"
        self._meter.add(role, component.pid)
        return component


def _client(qps: str) -> Settings:
    return {} if qps == STOCK else {"qps": float(qps), "burst": 2 * int(float(qps))}


def _wait(
    wanted: int,
    arrivals: Arrivals,
    creation: Creation,
    running: Running,
    *,
    limits: Limits,
    progress: Progress,
) -> str:
    """Return "" when all pods have a node, and otherwise why it is not waited any longer."""
    began = changed = time.monotonic()
    before = 0
    while (count := arrivals.count()) < wanted:
        creation.check()
        now = time.monotonic()
        if count > before:
            before, changed = count, now
        progress(f"{count} of {wanted} pods scheduled in {now - began:.0f} s")
        if not running.scheduler.running:
            return f"the scheduler ended with {running.scheduler.exit_code}, {count} pods scheduled"
        if now - began > limits.run:
            return f"ended at the limit of {limits.run:g} s with {count} of {wanted} pods scheduled"
        if now - changed > limits.stall:
            return f"stalled for {limits.stall:g} s at {count} of {wanted} pods"
        time.sleep(_POLL_SECONDS)
    return ""


def _notes(ended: str, arrivals: Arrivals, books: Bookkeeper, written: Written) -> list[str]:
    notes = [ended] if ended else []
    if books.gaps:
        notes.append(f"the books missed events, {books.gaps} times")
    if not written.in_time:
        notes.append("Events were still being written when it was waited no longer")
    if arrivals.interruptions:
        notes.append(f"interruptions of the watch: {arrivals.interruptions}")
    return notes


def _refused(api: Api, load: Load, limits: Limits, progress: Progress) -> int:
    """Return how many pods of gangs that cannot fit are refused, once all are or no more come.

    Only what was tried in vain shows that nothing of such a gang starts.
    """
    wanted = load.pods if load.impossible else 0
    before, changed = 0, time.monotonic()
    while before < wanted and time.monotonic() - changed < limits.stall:
        time.sleep(_POLL_SECONDS)
        waiting = api.list("pods", NAMESPACE, fields="spec.nodeName=")
        count = sum(not fits(pod["metadata"]["name"]) and _is_refused(pod) for pod in waiting)
        progress(f"{count} of {wanted} pods that cannot fit are refused")
        if count > before:
            before, changed = count, time.monotonic()
    return before


def _is_refused(pod: Object) -> bool:
    conditions = cast("list[dict[str, Any]]", pod["status"].get("conditions", []))
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def _pods_at_the_end(api: Api, load: Load, running: Running, *, early: bool) -> list[Object]:
    """Return the pods that have a node; after an early end once what is under way has ended."""
    if early:
        running.scheduler.stop()
    deadline = time.monotonic() + (_SETTLE_SECONDS if early else 0)
    while True:
        pods = api.list("pods", NAMESPACE, fields="spec.nodeName!=")
        found = judge(dict.fromkeys(_names(pods), 0.0), load.size)
        if not found.partial or time.monotonic() > deadline:
            return pods
        time.sleep(_POLL_SECONDS)


def _names(pods: Sequence[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def _result(
    case: Case,
    side: Side,
    *,
    repeat: int,
    ready: float,
    created: Mapping[str, float],
    times: Mapping[str, float],
    strays: Set[str],
    refused: int,
    pods: Sequence[Object],
    meter: Meter,
    written: Written,
    audit: Audit,
    pages: Pages,
    notes: list[str],
) -> Result:
    if created:
        ready = min(created.values())
    first, last = (min(times.values()), max(times.values())) if times else (ready, ready)
    size = case.load.size
    condition_seconds = _condition_seconds(
        [pod for pod in pods if pod["metadata"]["name"] in times]
    )
    if abs(condition_seconds - (last - first)) > _CLOCK_TOLERANCE_SECONDS:
        notes.append(f"by the pods' conditions it took {condition_seconds:g} s")
    return Result(
        side=side.key,
        title=side.title,
        repeat=repeat,
        impossible=case.load.impossible,
        refused=refused,
        scheduled=len(times),
        seconds=last - first,
        ready_seconds=last - min(ready, first),
        condition_seconds=condition_seconds,
        gangs=at_the_end(
            judge(times, size), bound=_names(pods), seen=times.keys() | strays, size=size
        ),
        cpu_seconds=meter.cpu_seconds(min(ready, first), last),
        late_cpu_seconds=meter.cpu_seconds(min(ready, first), max(last, written.ended)),
        ledger=audit,
        peak_mib=meter.peak_mib(),
        attempts=histogram.total(pages.scheduler, "scheduler_schedule_attempts_total"),
        filter=_latency(pages.extender, "gang_extender_request_duration_seconds", verb="filter"),
        bind=_latency(pages.extender, "gang_extender_binding_duration_seconds"),
        notes=tuple(notes),
        waits=waits(created, times, size),
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
