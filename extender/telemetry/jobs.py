"""Metrics of Jobs by completion mode, under the names of KEP-2214."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

CompletionMode = Literal["Indexed", "NonIndexed"]

_SECONDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8, 16)


class JobMetrics:
    """Reconciliations of Jobs, and how Jobs of queues ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "job_sync_duration_seconds",
            "Time of one reconciliation of a Job.",
            ["completion_mode", "result"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._syncs = Counter(
            "job_sync",
            "Reconciliations of a Job, by result: success or error.",
            ["completion_mode", "result"],
            registry=registry,
        )
        self._finished = Counter(
            "job_finished",
            "Jobs of queues that have ended, by result: succeeded or failed.",
            ["completion_mode", "result"],
            registry=registry,
        )

    def synced(self, mode: CompletionMode, seconds: float, *, failed: bool) -> None:
        """Count a reconciliation of a Job."""
        result = "error" if failed else "success"
        self._syncs.labels(mode, result).inc()
        self._seconds.labels(mode, result).observe(seconds)

    def finished(self, mode: CompletionMode, *, succeeded: bool) -> None:
        """Count the written end of a Job."""
        self._finished.labels(mode, "succeeded" if succeeded else "failed").inc()
