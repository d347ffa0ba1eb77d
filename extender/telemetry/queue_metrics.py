"""Metrics of queues and their jobs, under Kueue's names where the meaning is the same."""

import platform
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.api.wellknown import WorkloadCondition
from extender.queueing import transitions as to
from extender.queueing.cycle import Admit, Outcome
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.status import Used, activity, cluster_queue_status, local_queue_status
from extender.resources.quantity import CPU
from extender.runtime.process import version
from extender.state.queue.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    FlavorResource,
    LocalQueueInfo,
    Quota,
    WorkloadInfo,
    quotas_of,
)
from extender.state.queue.view import QueueView
from extender.telemetry import definitions
from extender.telemetry.definitions import GaugeDefinition


class QueueMetrics:
    """Counters of what happened to workloads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = definitions.ADMISSION_ATTEMPTS.on(registry)
        self._attempt_seconds = definitions.ADMISSION_ATTEMPT_SECONDS.on(registry)
        self._admitted = definitions.ADMITTED_WORKLOADS.on(registry)
        self._reserved = definitions.QUOTA_RESERVED_WORKLOADS.on(registry)
        self._waited = definitions.ADMISSION_WAIT_SECONDS.on(registry)
        self._reserve_waited = definitions.QUOTA_RESERVED_WAIT_SECONDS.on(registry)
        self._ready_waited = definitions.READY_WAIT_SECONDS.on(registry)
        self._admitted_until_ready = definitions.ADMITTED_UNTIL_READY_SECONDS.on(registry)
        self._ready_until_evicted = definitions.READY_UNTIL_EVICTED_SECONDS.on(registry)
        self._evicted = definitions.EVICTED_WORKLOADS.on(registry)
        self._preempted = definitions.PREEMPTED_WORKLOADS.on(registry)
        self._finished = definitions.FINISHED_WORKLOADS.on(registry)
        build = definitions.BUILD_INFO.on(registry)
        build.labels(
            f"v{version()}",
            sys.implementation.name,
            f"{sys.platform}/{platform.machine()}",
        ).set(1)

    def cycle(self, seconds: float, outcomes: tuple[Outcome, ...]) -> None:
        """Count one cycle and its outcomes."""
        admitted = sum(isinstance(outcome, Admit) for outcome in outcomes)
        self._attempts.labels("success").inc(admitted)
        self._attempts.labels("inadmissible").inc(len(outcomes) - admitted)
        result = "success" if admitted else "inadmissible"
        self._attempt_seconds.labels(result).observe(seconds)

    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        """Count a written admission; `waited` in seconds since the workload was queued."""
        labels = cluster_queue, _class(workload)
        self._admitted.labels(*labels).inc()
        self._reserved.labels(*labels).inc()
        self._waited.labels(*labels).observe(waited)
        self._reserve_waited.labels(*labels).observe(waited)

    def changed(self, before: WorkloadInfo, after: WorkloadInfo, cluster_queue: str) -> None:
        """Count what a written status shows: an eviction, ready pods, or the end."""
        if after.evicted and not before.evicted:
            why = _eviction(before, after)
            self._evicted.labels(cluster_queue, *why, _class(after)).inc()
            self._lost(before, after, (cluster_queue, *why))
        if after.holds(WorkloadCondition.PODS_READY) and not before.holds(
            WorkloadCondition.PODS_READY
        ):
            self._ready(after, cluster_queue)
        if after.finished and not before.finished:
            self._finished.labels(cluster_queue, _class(after)).inc()

    def _lost(
        self, before: WorkloadInfo, after: WorkloadInfo, labels: tuple[str, str, str]
    ) -> None:
        ready, evicted = (
            before.condition(WorkloadCondition.PODS_READY),
            after.condition(WorkloadCondition.EVICTED),
        )
        if ready is not None and ready.status == "True" and evicted is not None:
            seconds = max(0.0, evicted.transition - ready.transition)
            self._ready_until_evicted.labels(*labels).observe(seconds)

    def _ready(self, workload: WorkloadInfo, cluster_queue: str) -> None:
        ready, admitted = (
            workload.condition(WorkloadCondition.PODS_READY),
            workload.condition(WorkloadCondition.ADMITTED),
        )
        if ready is None or admitted is None or ready.reason != "Started":
            return
        labels = cluster_queue, _class(workload)
        queued = to.queued_since(workload)
        self._ready_waited.labels(*labels).observe(max(0.0, ready.transition - queued))
        since = max(0.0, ready.transition - admitted.transition)
        self._admitted_until_ready.labels(*labels).observe(since)

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Count a written preemption."""
        self._preempted.labels(preempting_cluster_queue, reason).inc()


def _class(workload: WorkloadInfo) -> str:
    return workload.priority_class[2] if workload.priority_class else ""


def _eviction(before: WorkloadInfo, after: WorkloadInfo) -> tuple[str, str]:
    """Return reason and cause of the eviction that is counted since `before`."""
    new = (each for each in after.evictions if each not in before.evictions)
    return next(((each.reason, each.cause) for each in new), ("", ""))


CompletionMode = Literal["Indexed", "NonIndexed"]


class JobMetrics:
    """Reconciliations of Jobs, and how Jobs of queues ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = definitions.JOB_SYNC_SECONDS.on(registry)
        self._syncs = definitions.JOB_SYNCS.on(registry)
        self._finished = definitions.JOBS_FINISHED.on(registry)

    def synced(self, mode: CompletionMode, seconds: float, *, failed: bool) -> None:
        """Count a reconciliation of a Job."""
        result = "error" if failed else "success"
        self._syncs.labels(mode, result).inc()
        self._seconds.labels(mode, result).observe(seconds)

    def finished(self, mode: CompletionMode, *, succeeded: bool) -> None:
        """Count the written end of a Job."""
        self._finished.labels(mode, "succeeded" if succeeded else "failed").inc()


_STATES: Final = ("pending", "active", "terminating")
_FAMILIES: Final = (
    definitions.PENDING_WORKLOADS,
    definitions.RESERVING_WORKLOADS,
    definitions.ADMITTED_ACTIVE_WORKLOADS,
    definitions.QUEUE_STATUS,
    definitions.RESERVATION,
    definitions.USAGE,
    definitions.NOMINAL_QUOTA,
    definitions.BORROWING_LIMIT,
    definitions.LENDING_LIMIT,
    definitions.LOCAL_PENDING_WORKLOADS,
    definitions.LOCAL_RESERVING_WORKLOADS,
    definitions.LOCAL_ADMITTED_WORKLOADS,
    definitions.QUEUE_OLDEST_WAITING,
    definitions.QUEUE_OVERCOMMITTED,
    definitions.QUEUE_IGNORED_FIELDS,
)

_Ignoring = ClusterQueueInfo | CohortInfo | LocalQueueInfo | FlavorInfo
Families = Mapping[GaugeDefinition, GaugeMetricFamily]


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of the leader."""

    view: QueueView
    pending: PendingQueues
    reserved: Collection[str] = ()
    """Workloads for which room is kept."""


class QueueGauges(Collector):
    """Gauges under Kueue's names; none while `state` returns None."""

    def __init__(self, state: Callable[[], QueueState | None]) -> None:
        self._state_of = state
        self._filled: tuple[Metric, ...] | None = None
        self._tree: QuotaTree | None = None
        """A tree of its own, because that of a cycle may have tentative usage."""

    def fill(self) -> Iterator[None]:
        """Compute the gauges, a queue in each step; the next `collect` yields them."""
        state = self._state_of()
        if state is None:
            return
        families: Families = {each: each.values() for each in _FAMILIES}
        cluster_queues, local_queues = state.view.cluster_queues, state.view.local_queues
        for queue in map(cluster_queues.get, [*cluster_queues]):
            if queue is not None:
                _add_cluster_queue(queue, state, families)
            yield
        yield from self._add_overcommitted(state.view, families[definitions.QUEUE_OVERCOMMITTED])
        for local_queue in map(local_queues.get, [*local_queues]):
            if local_queue is not None:
                _add_local_queue(local_queue, state, families)
            yield
        yield from _add_ignored(state.view, families[definitions.QUEUE_IGNORED_FIELDS])
        kept = definitions.QUEUE_RESERVED_WORKLOADS.values()
        kept.add_metric([], len(state.reserved))
        self._filled = (*families.values(), kept)

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield what `fill` computed, or compute it now."""
        if self._filled is None:
            for _ in self.fill():
                pass
        found, self._filled = self._filled, None
        yield from found or ()

    def _add_overcommitted(self, view: QueueView, family: GaugeMetricFamily) -> Iterator[None]:
        tree = self._tree = QuotaTree.current(view, self._tree)
        tree.look_again()
        for queue in map(view.cluster_queues.get, [*view.cluster_queues]):
            if tree.version != view.structure_version:
                return  # the next page has it
            if queue is not None and tree.has(queue.name):
                node = tree.queue(queue.name)
                for what in quotas_of(queue.resource_groups):
                    labels = [queue.cohort or "", queue.name, *what]
                    lacking = max(0, -node.available(what))
                    family.add_metric(labels, _in_base_units(what[1], lacking))
            yield


def _add_cluster_queue(queue: ClusterQueueInfo, state: QueueState, families: Families) -> None:
    name, found = queue.name, cluster_queue_status(queue, state.view)
    counts = state.pending.queue(name).counts()
    waiting = families[definitions.PENDING_WORKLOADS]
    waiting.add_metric([name, "active"], counts.active)
    waiting.add_metric([name, "inadmissible"], counts.inadmissible)
    oldest = state.pending.queue(name).oldest()
    if oldest is not None:
        families[definitions.QUEUE_OLDEST_WAITING].add_metric([name], oldest)
    families[definitions.RESERVING_WORKLOADS].add_metric([name], found.reserving)
    families[definitions.ADMITTED_ACTIVE_WORKLOADS].add_metric([name], found.admitted)
    status = _status(queue, state.view)
    for each in _STATES:
        families[definitions.QUEUE_STATUS].add_metric([name, each], float(each == status))
    _add_used(queue, found.reservation, families[definitions.RESERVATION])
    _add_used(queue, found.usage, families[definitions.USAGE])
    for what, quota in quotas_of(queue.resource_groups).items():
        _add_quota(queue, what, quota, families=families)


def _add_local_queue(queue: LocalQueueInfo, state: QueueState, families: Families) -> None:
    found = local_queue_status(queue, state.view, ())
    counts = state.pending.queue(queue.cluster_queue).counts(queue.key)
    names = [queue.meta.name, queue.meta.namespace]
    waiting = families[definitions.LOCAL_PENDING_WORKLOADS]
    waiting.add_metric([*names, "active"], counts.active)
    waiting.add_metric([*names, "inadmissible"], counts.inadmissible)
    families[definitions.LOCAL_RESERVING_WORKLOADS].add_metric(names, found.reserving)
    families[definitions.LOCAL_ADMITTED_WORKLOADS].add_metric(names, found.admitted)


def _add_ignored(view: QueueView, family: GaugeMetricFamily) -> Iterator[None]:
    """Count the objects that have a field without effect, by kind and field."""
    tables: dict[str, Mapping[str, _Ignoring]] = {
        "ClusterQueue": view.cluster_queues,
        "Cohort": view.cohorts,
        "LocalQueue": view.local_queues,
        "ResourceFlavor": view.flavors,
    }
    for kind, table in tables.items():
        found: Counter[str] = Counter()
        for each in map(table.get, [*table]):
            if each is not None:
                found.update(path for path in each.meta.ignored if path.startswith("spec."))
            yield
        for path, number in found.items():
            family.add_metric([kind, path], number)


def _status(queue: ClusterQueueInfo, view: QueueView) -> str:
    if queue.meta.terminating:
        return "terminating"
    return "active" if activity(queue, view).active else "pending"


def _add_quota(
    queue: ClusterQueueInfo, what: FlavorResource, quota: Quota, *, families: Families
) -> None:
    limits = {
        definitions.NOMINAL_QUOTA: quota.nominal,
        definitions.BORROWING_LIMIT: quota.borrowing_limit,
        definitions.LENDING_LIMIT: quota.lending_limit,
    }
    for name, amount in limits.items():
        if amount is not None:
            labels = [queue.cohort or "", queue.name, *what]
            families[name].add_metric(labels, _in_base_units(what[1], amount))


def _add_used(queue: ClusterQueueInfo, used: tuple[Used, ...], family: GaugeMetricFamily) -> None:
    for each in used:
        labels = [queue.cohort or "", queue.name, each.flavor, each.resource]
        family.add_metric(labels, _in_base_units(each.resource, each.total))


def _in_base_units(resource: str, amount: int) -> float:
    return amount / 1000 if resource == CPU else float(amount)
