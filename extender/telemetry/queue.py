"""Metrics of the queue, under Kueue's names where the meaning is the same."""

import platform
import sys

from prometheus_client import CollectorRegistry

from extender.api.wellknown import WorkloadCondition
from extender.queueing import transitions as to
from extender.queueing.cycle import Admit, Outcome
from extender.runtime.version import version
from extender.state.queue.records import WorkloadInfo
from extender.telemetry import definitions


class QueueMetrics:
    """What happened to workloads."""

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
