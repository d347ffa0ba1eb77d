"""One measured run: a fresh control plane with full nodes, the scheduler, then the preemptors."""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import histogram
from tests.bench.load import NAMESPACE, Progress
from tests.bench.meter import Meter
from tests.bench.preempt.load import HIGH, Load, come, fill
from tests.bench.preempt.measures import Measures, measure, remaining
from tests.bench.runs import Limits, MeteredControlPlane, client
from tests.bench.sides import OURS, Running, Settings, Side
from tests.bench.sightings import ON_NODE, Sightings
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler
from tests.harness.toolchain import ensure_binaries

_POLL_SECONDS = 0.1
_QUIET_SECONDS = 3.0
"""Without one more eviction after which no more come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave; CPU seconds and MiB by process, times in seconds."""

    side: str
    title: str
    repeat: int
    qps: str
    load: Load
    measures: Measures
    overcommits: Sequence[str]
    collisions: int
    attempts: float
    cpu_seconds: Mapping[str, float]
    """From the first pod of high priority created until no more evictions came."""
    peak_mib: Mapping[str, float]
    note: str = ""
    """Why it was not waited any longer."""

    @property
    def faults(self) -> list[str]:
        """What must not be, as sentences; kube-scheduler alone breaks gangs by its nature."""
        found, made = list(self.overcommits), self.measures
        if self.side != OURS:
            return found
        if made.whole < self.load.preemptors or made.partial:
            found.append(f"{made.whole} of {self.load.preemptors} gangs of high priority are whole")
        if made.evictions != self.load.wanted:
            found.append(f"{made.evictions} pods were evicted, and {self.load.wanted} were to be")
        if made.left_partial:
            found.append(f"{made.left_partial} gangs of low priority are left in part")
        return found


def with_reconciler(side: Side, settings: Mapping[str, Any] | None = None) -> Side:
    """Return a side of ours with the process that evicts, which gets these `settings`."""
    given = dict(settings or {})
    alone = {**given, "reconcile": {**given.get("reconcile", {}), "leaderElect": False}}

    def start(control_plane: ControlPlane, to_scheduler: Settings) -> Running:
        reconciler = Reconciler(control_plane, settings=alone)
        reconciler.wait_leading()
        return side.start(control_plane, to_scheduler)

    return dataclasses.replace(side, start=start)


def run(
    load: Load, side: Side, *, qps: str, repeat: int, limits: Limits, progress: Progress
) -> Result:
    """Return what that side made of the load."""
    meter, binaries = Meter(), ensure_binaries()
    meter.add("bench", os.getpid())
    if side.binary:
        binaries = dataclasses.replace(binaries, kube_scheduler=side.binary)
    progress("starts a control plane")
    with ExitStack() as stack:
        control_plane = stack.enter_context(MeteredControlPlane(binaries, meter, controllers=False))
        kubeconfig = control_plane.admin_kubeconfig
        api = stack.enter_context(Api(kubeconfig))
        api.apply(side.crds)
        fill(kubeconfig, load, side.kind, progress)
        books = stack.enter_context(Bookkeeper(kubeconfig))
        seen = stack.enter_context(Sightings(kubeconfig, fields=ON_NODE))
        progress("starts the scheduler")
        running = side.start(control_plane, client(qps))
        with meter:
            found = _come(api, kubeconfig, seen, running, load, side, limits, progress)
            time.sleep(2 * _POLL_SECONDS)  # one more sample of the meter
        pages = running.metrics()
        books.settle(api)
        findings = books.ask()
        if found.note:
            progress(f"{found.note}\n{control_plane.tails()}")
    return Result(
        side=side.key,
        title=side.title,
        repeat=repeat,
        qps=qps,
        load=load,
        measures=measure(
            found.pods, load, times=found.times, began=found.began, created=found.created
        ),
        overcommits=findings.breaches,
        collisions=len(findings.collisions),
        attempts=histogram.total(pages.scheduler, "scheduler_schedule_attempts_total"),
        cpu_seconds=meter.cpu_seconds(found.began, found.ended),
        peak_mib=meter.peak_mib(),
        note=found.note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was seen; times are of the monotonic clock."""

    began: float
    created: float
    ended: float
    times: Mapping[str, float]
    pods: Sequence[Object]
    note: str


def _come(
    api: Api,
    kubeconfig: Path,
    seen: Sightings,
    running: Running,
    load: Load,
    side: Side,
    limits: Limits,
    progress: Progress,
) -> _Found:
    """Return what came of the gangs of high priority, which are created now."""
    began = time.monotonic()
    come(kubeconfig, load, side.kind, progress)
    created = time.monotonic()
    note = _wait(seen, running, load, limits=limits, progress=progress)
    pods = _settled(api)
    return _Found(
        began=began,
        created=created,
        ended=time.monotonic(),
        times=seen.times(),
        pods=pods,
        note=note,
    )


def _wait(
    seen: Sightings, running: Running, load: Load, *, limits: Limits, progress: Progress
) -> str:
    """Return "" when all pods of high priority have a node, or why it is not waited any longer."""
    began = changed = time.monotonic()
    before = 0
    while (count := _high(seen)) < load.wanted:
        now = time.monotonic()
        if count > before:
            before, changed = count, now
        progress(f"{count} of {load.wanted} pods of high priority have a node")
        if not running.scheduler.running:
            return f"the scheduler ended with {running.scheduler.exit_code}"
        if now - began > limits.run or now - changed > limits.stall:
            return f"ended with {count} of {load.wanted} pods after {now - began:.0f} s"
        time.sleep(_POLL_SECONDS)
    return ""


def _high(seen: Sightings) -> int:
    seen.count()  # raises where the watch broke
    return sum(name.startswith(f"{HIGH}-") for name in seen.times())


def _settled(api: Api) -> list[Object]:
    """Return all pods, once no more of low priority go."""
    before, changed, pods = -1, time.monotonic(), list[Object]()
    while time.monotonic() - changed < _QUIET_SECONDS:
        pods = api.list("pods", NAMESPACE)
        count = remaining(pods)
        if count != before:
            before, changed = count, time.monotonic()
        time.sleep(_POLL_SECONDS)
    return pods
