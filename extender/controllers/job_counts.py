"""Counts looks at Jobs and their ends, by the mode of their completion (KEP-2214)."""

from collections.abc import Awaitable, Callable

import msgspec

from extender.runtime.clock import Clock
from extender.state.queues.records import JobObject, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.telemetry.jobs import CompletionMode, JobMetrics

Key = tuple[str, str]


class _Spec(msgspec.Struct, rename="camel"):
    completion_mode: str | None = None


class _Job(msgspec.Struct):
    spec: _Spec


_decode = msgspec.json.Decoder(_Job).decode


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
            mode = next(map(_mode, self._snapshot.unit(key)), None)
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
        """Take a status of a workload that is written: the end of a Job, or something else."""
        end = after.condition("Finished")
        job = self._snapshot.job_of(after.owner.uid) if after.owner else None
        if end is None or job is None or before.finished or not after.finished:
            return
        mode = _mode(job)
        if mode is not None:
            self._metrics.finished(mode, succeeded=end.reason == "Succeeded")


def _mode(job: JobObject) -> CompletionMode | None:
    if job.kind != "batch/job":
        return None
    try:
        found = _decode(job.raw)
    except msgspec.MsgspecError:
        return None  # whoever reads the rest of it tells
    return "Indexed" if found.spec.completion_mode == "Indexed" else "NonIndexed"
