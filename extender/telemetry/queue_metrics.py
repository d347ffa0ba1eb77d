"""Metrics of queues and their jobs, under Kueue's names where the meaning is the same."""

import collections
import platform
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.api.wellknown import WorkloadCondition
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
from extender.telemetry.metrics import WAITS, WORK

_OF_CLASS: Final = ("cluster_queue", "priority_class")
_OF_EVICTION: Final = ("cluster_queue", "reason", "underlying_cause")
_OF_JOB: Final = ("completion_mode", "result")
_OF_QUEUE: Final = ("cluster_queue",)
_OF_LOCAL: Final = ("name", "namespace")
_OF_AMOUNT: Final = ("cohort", "cluster_queue", "flavor", "resource")


class QueueMetrics:
    """Counters of what happened to workloads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self._attempts = counter(
            "kueue_admission_attempts_total",
            "Workloads that a cycle tried, by result: success or inadmissible.",
            ("result",),
        )
        self._attempt_seconds = histogram(
            "kueue_admission_attempt_duration_seconds",
            "Time of one cycle, by whether it admitted a workload.",
            ("result",),
        )
        self._admitted = counter(
            "kueue_admitted_workloads_total", "Workloads that were admitted.", _OF_CLASS
        )
        self._reserved = counter(
            "kueue_quota_reserved_workloads_total", "Workloads that got quota.", _OF_CLASS
        )
        self._waited = histogram(
            "kueue_admission_wait_time_seconds",
            "Time from when a workload was created or requeued to its admission.",
            _OF_CLASS,
            buckets=WAITS,
        )
        self._reserve_waited = histogram(
            "kueue_quota_reserved_wait_time_seconds",
            "Time from when a workload was created or requeued to its quota.",
            _OF_CLASS,
            buckets=WAITS,
        )
        self._checks_waited = histogram(
            "kueue_admission_checks_wait_time_seconds",
            "Time from the quota of a workload with admission checks to its admission.",
            _OF_CLASS,
            buckets=WAITS,
        )
        self._ready_waited = histogram(
            "kueue_ready_wait_time_seconds",
            "Time from when a workload was created or requeued until its pods were ready.",
            _OF_CLASS,
            buckets=WAITS,
        )
        self._admitted_until_ready = histogram(
            "kueue_admitted_until_ready_wait_time_seconds",
            "Time from the admission of a workload until its pods were ready.",
            _OF_CLASS,
            buckets=WAITS,
        )
        self._ready_until_evicted = histogram(
            "kueue_pods_ready_to_evicted_time_seconds",
            "Time from when the pods of a workload were ready until it was evicted.",
            _OF_EVICTION,
            buckets=WAITS,
        )
        self._evicted = counter(
            "kueue_evicted_workloads_total",
            "Workloads that were evicted, by reason and underlying cause.",
            (*_OF_EVICTION, "priority_class"),
        )
        self._preempted = counter(
            "kueue_preempted_workloads_total",
            "Workloads that were preempted, by the ClusterQueue of the preemptor.",
            ("preempting_cluster_queue", "reason"),
        )
        self._finished = counter(
            "kueue_finished_workloads_total", "Workloads that have finished.", _OF_CLASS
        )
        build = Gauge(
            "kueue_build_info",
            "Always 1; the labels are the version and the platform.",
            ("git_version", "compiler", "platform"),
            registry=registry,
        )
        where = f"{sys.platform}/{platform.machine()}"
        build.labels(f"v{version()}", sys.implementation.name, where).set(1)

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
        self._waited.labels(*labels).observe(waited)

    def checked(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        """Count an admission after checks; `waited` in seconds since the quota was reserved."""
        self._checks_waited.labels(cluster_queue, _class(workload)).observe(waited)

    def reserved(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        """Count a written reservation of quota; `waited` in seconds since it was queued."""
        labels = cluster_queue, _class(workload)
        self._reserved.labels(*labels).inc()
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
        queued = workload.queued_since
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
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self._seconds = histogram(
            "job_sync_duration_seconds",
            "Time of one reconciliation of a Job.",
            _OF_JOB,
            buckets=WORK,
        )
        self._syncs = counter(
            "job_sync_total", "Reconciliations of a Job, by result: success or error.", _OF_JOB
        )
        self._finished = counter(
            "job_finished_total",
            "Jobs of queues that have ended, by result: succeeded or failed.",
            _OF_JOB,
        )

    def synced(self, mode: CompletionMode, seconds: float, *, failed: bool) -> None:
        """Count a reconciliation of a Job."""
        result = "error" if failed else "success"
        self._syncs.labels(mode, result).inc()
        self._seconds.labels(mode, result).observe(seconds)

    def finished(self, mode: CompletionMode, *, succeeded: bool) -> None:
        """Count the written end of a Job."""
        self._finished.labels(mode, "succeeded" if succeeded else "failed").inc()


_STATES: Final = ("pending", "active", "terminating")
_Ignoring = ClusterQueueInfo | CohortInfo | LocalQueueInfo | FlavorInfo


class Families:
    """The gauges of one page."""

    def __init__(self) -> None:
        self.pending_workloads = GaugeMetricFamily(
            "kueue_pending_workloads",
            "Workloads that wait, by status: active ones are tried, inadmissible ones wait for a "
            "change.",
            labels=(*_OF_QUEUE, "status"),
        )
        self.reserving_workloads = GaugeMetricFamily(
            "kueue_reserving_active_workloads",
            "Workloads that have quota and have not finished.",
            labels=_OF_QUEUE,
        )
        self.admitted_active_workloads = GaugeMetricFamily(
            "kueue_admitted_active_workloads",
            "Workloads that are admitted and have not finished.",
            labels=_OF_QUEUE,
        )
        self.queue_status = GaugeMetricFamily(
            "kueue_cluster_queue_status",
            "1 for the status that a ClusterQueue has: pending, active or terminating.",
            labels=(*_OF_QUEUE, "status"),
        )
        self.reservation = GaugeMetricFamily(
            "kueue_cluster_queue_resource_reservation",
            "Quota that workloads have, in cores, bytes or units.",
            labels=_OF_AMOUNT,
        )
        self.usage = GaugeMetricFamily(
            "kueue_cluster_queue_resource_usage",
            "Quota that admitted workloads have, in cores, bytes or units.",
            labels=_OF_AMOUNT,
        )
        self.nominal_quota = GaugeMetricFamily(
            "kueue_cluster_queue_nominal_quota",
            "Nominal quota of a ClusterQueue.",
            labels=_OF_AMOUNT,
        )
        self.borrowing_limit = GaugeMetricFamily(
            "kueue_cluster_queue_borrowing_limit",
            "How much a ClusterQueue may borrow, where that is limited.",
            labels=_OF_AMOUNT,
        )
        self.lending_limit = GaugeMetricFamily(
            "kueue_cluster_queue_lending_limit",
            "How much a ClusterQueue lends, where that is limited.",
            labels=_OF_AMOUNT,
        )
        self.local_pending = GaugeMetricFamily(
            "kueue_local_queue_pending_workloads",
            "Workloads of a LocalQueue that wait, by status.",
            labels=(*_OF_LOCAL, "status"),
        )
        self.local_reserving_workloads = GaugeMetricFamily(
            "kueue_local_queue_reserving_active_workloads",
            "Workloads of a LocalQueue that have quota and have not finished.",
            labels=_OF_LOCAL,
        )
        self.local_admitted_workloads = GaugeMetricFamily(
            "kueue_local_queue_admitted_active_workloads",
            "Workloads of a LocalQueue that are admitted and have not finished.",
            labels=_OF_LOCAL,
        )
        self.queue_reserved_workloads = GaugeMetricFamily(
            "gang_extender_queue_reserved_workloads",
            "Workloads that wait and for which room is kept.",
        )
        self.queue_oldest_waiting = GaugeMetricFamily(
            "gang_extender_queue_oldest_waiting_timestamp_seconds",
            "Since when the workload of a ClusterQueue has waited that has waited longest.",
            labels=_OF_QUEUE,
        )
        self.queue_overcommitted = GaugeMetricFamily(
            "gang_extender_queue_overcommitted_quota",
            "How much more quota is in use than a ClusterQueue, with its cohort, may have; in "
            "cores, bytes or units.",
            labels=_OF_AMOUNT,
        )
        self.queue_ignored_fields = GaugeMetricFamily(
            "gang_extender_queue_ignored_fields",
            "Queues, cohorts and flavors with a field of Kueue that has no effect here, by "
            "kind and field.",
            labels=("kind", "field"),
        )


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
        families = Families()
        cluster_queues, local_queues = state.view.cluster_queues, state.view.local_queues
        for queue in map(cluster_queues.get, [*cluster_queues]):
            if queue is not None:
                _add_cluster_queue(queue, state, families)
            yield
        yield from self._add_overcommitted(state.view, families.queue_overcommitted)
        for local_queue in map(local_queues.get, [*local_queues]):
            if local_queue is not None:
                _add_local_queue(local_queue, state, families)
            yield
        yield from _add_ignored(state.view, families.queue_ignored_fields)
        families.queue_reserved_workloads.add_metric([], len(state.reserved))
        self._filled = tuple(vars(families).values())

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
    waiting = families.pending_workloads
    waiting.add_metric([name, "active"], counts.active)
    waiting.add_metric([name, "inadmissible"], counts.inadmissible)
    oldest = state.pending.queue(name).oldest()
    if oldest is not None:
        families.queue_oldest_waiting.add_metric([name], oldest)
    families.reserving_workloads.add_metric([name], found.reserving)
    families.admitted_active_workloads.add_metric([name], found.admitted)
    status = _status(queue, state.view)
    for each in _STATES:
        families.queue_status.add_metric([name, each], float(each == status))
    _add_used(queue, found.reservation, families.reservation)
    _add_used(queue, found.usage, families.usage)
    for what, quota in quotas_of(queue.resource_groups).items():
        _add_quota(queue, what, quota, families=families)


def _add_local_queue(queue: LocalQueueInfo, state: QueueState, families: Families) -> None:
    found = local_queue_status(queue, state.view, ())
    counts = state.pending.queue(queue.cluster_queue).counts(queue.key)
    names = [queue.meta.name, queue.meta.namespace]
    waiting = families.local_pending
    waiting.add_metric([*names, "active"], counts.active)
    waiting.add_metric([*names, "inadmissible"], counts.inadmissible)
    families.local_reserving_workloads.add_metric(names, found.reserving)
    families.local_admitted_workloads.add_metric(names, found.admitted)


def _add_ignored(view: QueueView, family: GaugeMetricFamily) -> Iterator[None]:
    """Count the objects that have a field without effect, by kind and field."""
    tables: dict[str, Mapping[str, _Ignoring]] = {
        "ClusterQueue": view.cluster_queues,
        "Cohort": view.cohorts,
        "LocalQueue": view.local_queues,
        "ResourceFlavor": view.flavors,
    }
    for kind, table in tables.items():
        found = collections.Counter[str]()
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
    limits = (
        (families.nominal_quota, quota.nominal),
        (families.borrowing_limit, quota.borrowing_limit),
        (families.lending_limit, quota.lending_limit),
    )
    for family, amount in limits:
        if amount is not None:
            labels = [queue.cohort or "", queue.name, *what]
            family.add_metric(labels, _in_base_units(what[1], amount))


def _add_used(queue: ClusterQueueInfo, used: tuple[Used, ...], family: GaugeMetricFamily) -> None:
    for each in used:
        labels = [queue.cohort or "", queue.name, each.flavor, each.resource]
        family.add_metric(labels, _in_base_units(each.resource, each.total))


def _in_base_units(resource: str, amount: int) -> float:
    return amount / 1000 if resource == CPU else float(amount)
