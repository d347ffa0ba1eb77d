"""Writes admissions and evictions to workloads.

Many writes are under way at once. A write without an answer may have been carried out: it is sent
again until the API server accepts or refuses it. That is safe because each write holds for one
version of the workload only.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Final

import structlog

from extender.api.reasons import EvictionReason
from extender.controllers.workload_writer import Workloads, event
from extender.kube.errors import ApiError, ConflictError, UnavailableError
from extender.kube.recorder import Event
from extender.queueing import readiness
from extender.queueing import transitions as to
from extender.queueing.options import AdmissionOptions
from extender.queueing.preempt import Victim
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.view import QueueView
from extender.telemetry.queue import QueueMetrics

_log = structlog.get_logger(__name__)

CONCURRENT_WRITES: Final = 32
FIRST_RETRY: Final = 0.5
"""Seconds before an unanswered write is sent again for the first time."""
LONGEST_RETRY: Final = 5.0
"""Most seconds before an unanswered write is sent again."""
_MAY_STILL_ARRIVE: Final = frozenset((0, 502, 504))
"""Statuses after which the write may still be carried out; 0 means no answer at all."""


class AdmissionResult(Enum):
    """What became of the write of an admission."""

    STORED = auto()
    """It is stored, or the workload is gone."""
    CONFLICT = auto()
    """The workload has a newer version: decide again."""
    FAILED = auto()
    """The API server refused it: try again after a back-off."""
    LATE = auto()
    """Nothing was written, because an earlier write takes long: decide again."""


class AdmissionWriter:
    """Writes the decisions of a cycle, and an Event for each of them."""

    def __init__(
        self,
        workloads: Workloads,
        view: QueueView,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        options: AdmissionOptions,
        metrics: QueueMetrics,
    ) -> None:
        self._workloads, self._view = workloads, view
        self._record, self._clock = record, clock
        self._options, self._metrics = options, metrics
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)
        self._admitting: dict[str, asyncio.Event] = {}
        """Workloads whose admission is being written, each with the end of that."""

    def has_waiting(self) -> bool:
        """Return whether a write would have to wait for others."""
        return self._slots.locked()

    async def catch_up(self, seconds: float) -> None:
        """Wait until all writes that wait now are under way, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._slots:
                pass

    async def after_admission(self, key: str, seconds: float) -> None:
        """Wait while the admission of a workload is being written, for so many seconds at most."""
        under_way = self._admitting.get(key)
        if under_way is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await under_way.wait()

    async def admit(self, before: WorkloadInfo, admission: AdmissionInfo) -> AdmissionResult:
        """Write an admission and return whether it is stored."""
        self._admitting[before.key] = ended = asyncio.Event()
        try:
            return await self._admit(before, admission)
        finally:
            ended.set()
            if self._admitting.get(before.key) is ended:
                del self._admitting[before.key]

    async def _admit(self, before: WorkloadInfo, admission: AdmissionInfo) -> AdmissionResult:
        now = self._clock.wall()
        try:
            policy = readiness.policy_of(before, self._view, self._options)
            after = to.reserved(before, admission, now, pods_ready=policy.enabled)
            await self._write_until_answered(before, after)
        except ApiError as error:
            if not self._is_admitted(before, admission):
                _log_failure(error, "could not admit", before.key)
                conflict = isinstance(error, ConflictError)
                return AdmissionResult.CONFLICT if conflict else AdmissionResult.FAILED
        except Exception as error:  # noqa: BLE001 - unexpected data harms this workload alone
            FAULTS.report("admission", error, key=before.key)
            return AdmissionResult.FAILED
        if self._is_admitted(before, admission):  # else it was deleted meanwhile
            self._report_admitted(before, admission.cluster_queue, now)
        return AdmissionResult.STORED

    def _report_admitted(self, before: WorkloadInfo, queue: str, now: float) -> None:
        waited = max(0.0, now - to.queued_since(before))
        self._metrics.admitted(before, queue, waited=waited)
        note = f"Admitted by ClusterQueue {queue}, wait time since queued was {waited:.0f}s"
        self._record(event(before, "Admitted", note, occasion=str(now)))

    async def evict(self, before: WorkloadInfo, victim: Victim, *, cluster_queue: str) -> bool:
        """Write the eviction of a victim for a ClusterQueue; return whether it is stored."""
        try:
            async with self._slots:
                now, found = self._clock.wall(), self._view.workloads.get(before.key)
                if found is None or found.finished:
                    return False  # it has left by itself
                after = to.preempted(before, victim.reason, victim.message, now=now)
                await self._workloads.write_status(before, after)
        except ApiError as error:
            _log_failure(error, "could not preempt", before.key)
            return False
        except Exception as error:  # noqa: BLE001 - the other victims are still evicted
            FAULTS.report("preemption", error, key=before.key)
            return False
        self._metrics.preempted(cluster_queue, victim.reason)
        self._record(event(before, EvictionReason.PREEMPTED, victim.message))
        return True

    async def _write_until_answered(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Write until the API server accepts or refuses. Raises ApiError where it refuses.

        A refused retry does not prove that the first try failed: a server that has just started
        may not know our rights yet.
        """
        pause, in_doubt = FIRST_RETRY, False
        while True:
            try:
                async with self._slots:
                    await self._workloads.write_status(before, after)
            except ConflictError:
                raise  # the version stored instead is known
            except ApiError as error:
                in_doubt = in_doubt or isinstance(error, UnavailableError)
                if not in_doubt or await self._is_settled(error, before):
                    raise
            else:
                return
            await asyncio.sleep(pause)
            pause = min(LONGEST_RETRY, 2 * pause)

    async def _is_settled(self, error: ApiError, workload: WorkloadInfo) -> bool:
        """Return whether a read shows what became of a failed write.

        After a proxy's 502 or a 504 no read can show it: the write may still be on its way to
        storage. Only the next try of the same write can.
        """
        if error.status in _MAY_STILL_ARRIVE:
            return False
        try:
            await self._workloads.read_again(workload)
        except ApiError:
            return False
        return True

    def _is_admitted(self, workload: WorkloadInfo, admission: AdmissionInfo) -> bool:
        """Return whether the state shows this workload with exactly this admission."""
        found = self._view.workloads.get(workload.key)
        return (
            found is not None
            and found.meta.uid == workload.meta.uid
            and found.admission == admission
        )


def _log_failure(error: ApiError, what: str, workload: str) -> None:
    """Log a failed write; a conflict is no trouble, because another writer was faster."""
    log = _log.debug if isinstance(error, ConflictError) else _log.warning
    log(what, workload=workload, error=str(error))
