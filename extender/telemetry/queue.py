"""Metrics of the queue, under the names that dashboards know where they mean the same."""

import platform
import sys
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extender.queueing import transitions as to
from extender.queueing.cycle import Admit, Outcome
from extender.state.queues.records import WorkloadInfo

_WAITS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)


class QueueMetrics:
    """What happened to workloads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "kueue_admission_attempts",
            "Workloads that a cycle looked at, by result: success or inadmissible.",
            ["result"],
            registry=registry,
        )
        self._attempt_seconds = Histogram(
            "kueue_admission_attempt_duration_seconds",
            "Time of one cycle, by whether it admitted anybody.",
            ["result"],
            registry=registry,
        )
        self._admitted = Counter(
            "kueue_admitted_workloads",
            "Workloads that were admitted.",
            ["cluster_queue", "priority_class"],
            registry=registry,
        )
        self._reserved = Counter(
            "kueue_quota_reserved_workloads",
            "Workloads that were given quota.",
            ["cluster_queue", "priority_class"],
            registry=registry,
        )
        self._waited = Histogram(
            "kueue_admission_wait_time_seconds",
            "Time from when a workload was created or queued again to its admission.",
            ["cluster_queue", "priority_class"],
            buckets=_WAITS,
            registry=registry,
        )
        self._reserve_waited = Histogram(
            "kueue_quota_reserved_wait_time_seconds",
            "Time from when a workload was created or queued again to its quota.",
            ["cluster_queue", "priority_class"],
            buckets=_WAITS,
            registry=registry,
        )
        self._ready_waited = Histogram(
            "kueue_ready_wait_time_seconds",
            "Time from when a workload was created or queued again until its pods were ready.",
            ["cluster_queue", "priority_class"],
            buckets=_WAITS,
            registry=registry,
        )
        self._admitted_until_ready = Histogram(
            "kueue_admitted_until_ready_wait_time_seconds",
            "Time from the admission of a workload until its pods were ready.",
            ["cluster_queue", "priority_class"],
            buckets=_WAITS,
            registry=registry,
        )
        self._ready_until_evicted = Histogram(
            "kueue_pods_ready_to_evicted_time_seconds",
            "Time from when the pods of a workload were ready until it had to give its quota back.",
            ["cluster_queue", "reason", "underlying_cause"],
            buckets=_WAITS,
            registry=registry,
        )
        self._evicted = Counter(
            "kueue_evicted_workloads",
            "Workloads that had to give their quota back, by why and by what led to it.",
            ["cluster_queue", "reason", "underlying_cause", "priority_class"],
            registry=registry,
        )
        self._preempted = Counter(
            "kueue_preempted_workloads",
            "Workloads that had to give way, by the ClusterQueue of those for whom they did.",
            ["preempting_cluster_queue", "reason"],
            registry=registry,
        )
        self._finished = Counter(
            "kueue_finished_workloads",
            "Workloads that have ended for good.",
            ["cluster_queue", "priority_class"],
            registry=registry,
        )
        build = Gauge(
            "kueue_build_info",
            "1; the labels tell what this is.",
            ["git_version", "compiler", "platform"],
            registry=registry,
        )
        build.labels(
            f"v{version('gang-extender')}",
            sys.implementation.name,
            f"{sys.platform}/{platform.machine()}",
        ).set(1)

    def cycle(self, seconds: float, outcomes: tuple[Outcome, ...]) -> None:
        """Take one cycle."""
        admitted = sum(isinstance(outcome, Admit) for outcome in outcomes)
        self._attempts.labels("success").inc(admitted)
        self._attempts.labels("inadmissible").inc(len(outcomes) - admitted)
        result = "success" if admitted else "inadmissible"
        self._attempt_seconds.labels(result).observe(seconds)

    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        """Take an admission that is written; `waited` in seconds since it was queued."""
        labels = cluster_queue, _class(workload)
        self._admitted.labels(*labels).inc()
        self._reserved.labels(*labels).inc()
        self._waited.labels(*labels).observe(waited)
        self._reserve_waited.labels(*labels).observe(waited)

    def changed(self, before: WorkloadInfo, after: WorkloadInfo, cluster_queue: str) -> None:
        """Take a status that is written: an eviction, an end, or neither."""
        if after.evicted and not before.evicted:
            why = _eviction(before, after)
            self._evicted.labels(cluster_queue, *why, _class(after)).inc()
            self._lost(before, after, (cluster_queue, *why))
        if after.holds(to.PODS_READY) and not before.holds(to.PODS_READY):
            self._ready(after, cluster_queue)
        if after.finished and not before.finished:
            self._finished.labels(cluster_queue, _class(after)).inc()

    def _lost(
        self, before: WorkloadInfo, after: WorkloadInfo, labels: tuple[str, str, str]
    ) -> None:
        ready, evicted = before.condition(to.PODS_READY), after.condition(to.EVICTED)
        if ready is not None and ready.status == "True" and evicted is not None:
            seconds = max(0.0, evicted.transition - ready.transition)
            self._ready_until_evicted.labels(*labels).observe(seconds)

    def _ready(self, workload: WorkloadInfo, cluster_queue: str) -> None:
        ready, admitted = workload.condition(to.PODS_READY), workload.condition(to.ADMITTED)
        if ready is None or admitted is None or ready.reason != "Started":
            return
        labels = cluster_queue, _class(workload)
        queued = to.queued_since(workload)
        self._ready_waited.labels(*labels).observe(max(0.0, ready.transition - queued))
        since = max(0.0, ready.transition - admitted.transition)
        self._admitted_until_ready.labels(*labels).observe(since)

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Take a preemption that is written."""
        self._preempted.labels(preempting_cluster_queue, reason).inc()


def _class(workload: WorkloadInfo) -> str:
    return workload.priority_class[2] if workload.priority_class else ""


def _eviction(before: WorkloadInfo, after: WorkloadInfo) -> tuple[str, str]:
    """Return why, and what led to, the eviction that the one counts and the other does not."""
    new = (each for each in after.evictions if each not in before.evictions)
    return next(((each.reason, each.cause) for each in new), ("", ""))
