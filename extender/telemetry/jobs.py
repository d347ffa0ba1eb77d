"""Metrics of Jobs by completion mode, under the names of KEP-2214."""

from typing import Literal

from prometheus_client import CollectorRegistry

from extender.telemetry import definitions

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
