"""Metrics of the queue, under Kueue's names where the meaning is the same."""

import platform
import sys
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extender.api.wellknown import WorkloadCondition
from extender.queueing import transitions as to
from extender.queueing.cycle import Admit, Outcome
from extender.runtime.version import version
from extender.state.queue.records import WorkloadInfo

_WAITS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
_OF_QUEUE: Final = ("cluster_queue", "priority_class")


class QueueMetrics:
    """What happened to workloads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        waits = partial(Histogram, registry=registry, buckets=_WAITS)
        self._attempts = counter(
            "kueue_admission_attempts",
            "Workloads that a cycle tried, by result: success or inadmissible.",
            ["result"],
        )
        self._attempt_seconds = Histogram(
            "kueue_admission_attempt_duration_seconds",
            "Time of one cycle, by whether it admitted a workload.",
            ["result"],
            registry=registry,
        )
        self._admitted = counter(
            "kueue_admitted_workloads", "Workloads that were admitted.", _OF_QUEUE
        )
        self._reserved = counter(
            "kueue_quota_reserved_workloads", "Workloads that got quota.", _OF_QUEUE
        )
        self._waited = waits(
            "kueue_admission_wait_time_seconds",
            "Time from when a workload was created or requeued to its admission.",
            _OF_QUEUE,
        )
        self._reserve_waited = waits(
            "kueue_quota_reserved_wait_time_seconds",
            "Time from when a workload was created or requeued to its quota.",
            _OF_QUEUE,
        )
        self._ready_waited = waits(
            "kueue_ready_wait_time_seconds",
            "Time from when a workload was created or requeued until its pods were ready.",
            _OF_QUEUE,
        )
        self._admitted_until_ready = waits(
            "kueue_admitted_until_ready_wait_time_seconds",
            "Time from the admission of a workload until its pods were ready.",
            _OF_QUEUE,
        )
        self._ready_until_evicted = waits(
            "kueue_pods_ready_to_evicted_time_seconds",
            "Time from when the pods of a workload were ready until it was evicted.",
            ["cluster_queue", "reason", "underlying_cause"],
        )
        self._evicted = counter(
            "kueue_evicted_workloads",
            "Workloads that were evicted, by reason and underlying cause.",
            ["cluster_queue", "reason", "underlying_cause", "priority_class"],
        )
        self._preempted = counter(
            "kueue_preempted_workloads",
            "Workloads that were preempted, by the ClusterQueue of the preemptor.",
            ["preempting_cluster_queue", "reason"],
        )
        self._finished = counter(
            "kueue_finished_workloads", "Workloads that have finished.", _OF_QUEUE
        )
        build = Gauge(
            "kueue_build_info",
            "Always 1; the labels are the version and the platform.",
            ["git_version", "compiler", "platform"],
            registry=registry,
        )
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
