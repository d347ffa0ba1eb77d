"""Counts looks at Jobs and their ends, by the mode of their completion (KEP-2214)."""

from collections.abc import Awaitable, Callable
from typing import Final

from extender.jobs.names import Word
from extender.runtime.clock import Clock
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.telemetry.jobs import JobMetrics

Key = tuple[str, str]
_RAN: Final = frozenset((Word.SUCCEEDED, Word.FAILED))
"""What a workload ends by when its Job does, and not because it could not run."""


class JobCounts:
    """Jobs of other kinds have no such mode and are not counted."""

    def __init__(self, snapshot: QueueSnapshot, metrics: JobMetrics, clock: Clock) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._clock = clock

    def counting(
        self, reconcile: Callable[[Key], Awaitable[float | None]]
    ) -> Callable[[Key], Awaitable[float | None]]:
        """Return the same, counted; what it raises is an error, and is raised."""

        async def counted(key: Key) -> float | None:
            mode = next((job.completion_mode for job in self._snapshot.unit(key)), None)
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
        """Take a status of a workload that is written: the end of its Job, or something else."""
        end = after.condition("Finished")
        job = self._snapshot.job_of(after.owner.uid, after.meta.namespace) if after.owner else None
        if end is None or job is None or before.finished or not after.finished:
            return
        if job.completion_mode is not None and end.reason in _RAN:
            self._metrics.finished(job.completion_mode, succeeded=end.reason == Word.SUCCEEDED)
