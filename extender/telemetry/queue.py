"""Metrics of the queue, under the names that dashboards know where they mean the same."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

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
            ["cluster_queue"],
            registry=registry,
        )
        self._reserved = Counter(
            "kueue_quota_reserved_workloads",
            "Workloads that were given quota.",
            ["cluster_queue"],
            registry=registry,
        )
        self._waited = Histogram(
            "kueue_admission_wait_time_seconds",
            "Time from when a workload was created or queued again to its admission.",
            ["cluster_queue"],
            buckets=_WAITS,
            registry=registry,
        )
        self._reserve_waited = Histogram(
            "kueue_quota_reserved_wait_time_seconds",
            "Time from when a workload was created or queued again to its quota.",
            ["cluster_queue"],
            buckets=_WAITS,
            registry=registry,
        )
        self._evicted = Counter(
            "kueue_evicted_workloads",
            "Workloads that had to give their quota back.",
            ["cluster_queue", "reason"],
            registry=registry,
        )

    def cycle(self, seconds: float, outcomes: tuple[Outcome, ...]) -> None:
        """Take one cycle."""
        admitted = sum(isinstance(outcome, Admit) for outcome in outcomes)
        self._attempts.labels("success").inc(admitted)
        self._attempts.labels("inadmissible").inc(len(outcomes) - admitted)
        result = "success" if admitted else "inadmissible"
        self._attempt_seconds.labels(result).observe(seconds)

    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        """Take an admission that is written; `waited` in seconds since it was queued."""
        del workload
        self._admitted.labels(cluster_queue).inc()
        self._reserved.labels(cluster_queue).inc()
        self._waited.labels(cluster_queue).observe(waited)
        self._reserve_waited.labels(cluster_queue).observe(waited)

    def evicted(self, workload: WorkloadInfo, cluster_queue: str, reason: str) -> None:
        """Take an eviction that is written."""
        del workload
        self._evicted.labels(cluster_queue, reason).inc()
