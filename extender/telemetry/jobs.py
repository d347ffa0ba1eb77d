"""Metrics of Jobs by the mode of their completion, under the names of KEP-2214."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

CompletionMode = Literal["Indexed", "NonIndexed"]

_SECONDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8, 16)


class JobMetrics:
    """How looks at Jobs went, and how Jobs of queues ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "job_sync_duration_seconds",
            "Time to look at a Job and to write what follows.",
            ["completion_mode", "result"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._syncs = Counter(
            "job_sync",
            "Looks at a Job, by result: success or error.",
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
        """Take a look at a Job."""
        result = "error" if failed else "success"
        self._syncs.labels(mode, result).inc()
        self._seconds.labels(mode, result).observe(seconds)

    def finished(self, mode: CompletionMode, *, succeeded: bool) -> None:
        """Take the end of a Job that is written."""
        self._finished.labels(mode, "succeeded" if succeeded else "failed").inc()
