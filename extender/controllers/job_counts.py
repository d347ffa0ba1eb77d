"""Counts reconciliations and ends of Jobs, by completion mode (KEP-2214)."""

from collections.abc import Awaitable, Callable
from typing import Final

from extender.api.reasons import FinishReason
from extender.api.wellknown import WorkloadCondition
from extender.runtime.clock import Clock
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView
from extender.telemetry.jobs import JobMetrics

Key = tuple[str, str]
_RAN: Final = frozenset((FinishReason.SUCCEEDED, FinishReason.FAILED))
"""Reasons of workloads whose Job ended, not of those that could not run."""


class JobCounts:
    """Counts batch Jobs; jobs of other kinds have no completion mode."""

    def __init__(self, view: QueueView, metrics: JobMetrics, clock: Clock) -> None:
        self._view = view
        self._metrics = metrics
        self._clock = clock

    def counting(
        self, reconcile: Callable[[Key], Awaitable[float | None]]
    ) -> Callable[[Key], Awaitable[float | None]]:
        """Return a reconciler that is counted; an exception counts as an error."""

        async def counted(key: Key) -> float | None:
            mode = next((job.completion_mode for job in self._view.unit(key)), None)
            if mode is None:
                return await reconcile(key)
            began, failed = self._clock.monotonic(), False
            try:
                return await reconcile(key)
            except Exception:
                failed = True
                raise
            finally:
                self._metrics.synced(mode, self._clock.monotonic() - began, failed=failed)

        return counted

    def changed(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Count the end of a Job, where a written status of its workload shows it."""
        end = after.condition(WorkloadCondition.FINISHED)
        job = self._view.job_of(after.owner.uid, after.meta.namespace) if after.owner else None
        if end is None or job is None or before.finished or not after.finished:
            return
        if job.completion_mode is not None and end.reason in _RAN:
            self._metrics.finished(
                job.completion_mode, succeeded=end.reason == FinishReason.SUCCEEDED
            )
