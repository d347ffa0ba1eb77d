"""Writes workloads: changes of any kind, admissions and evictions, and the Events about them.

A stored change is in the state at once, before the watch shows it.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import Any, Final

import structlog

from extender.api.reasons import EvictionReason, JobReason
from extender.api.wellknown import IN_USE_FINALIZER, QUEUE_API_VERSION, no_effect_sentence
from extender.controllers.timing import LOOK_AGAIN
from extender.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from extender.kube.queues import WorkloadWriter
from extender.kube.recorder import Event, ObjectRef, refusal
from extender.queueing import readiness, transitions
from extender.queueing.options import AdmissionOptions
from extender.queueing.preempt import Victim
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS, harmless
from extender.state.queue import events
from extender.state.queue.records import AdmissionInfo, Meta, WorkloadInfo
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.telemetry.queue_metrics import QueueMetrics

Written = Callable[[WorkloadInfo, WorkloadInfo], None]
"""Called once for each stored status, with the status before and after."""


class Workloads:
    """Writes workloads, and applies the answers of the API server to the state.

    So the next decision sees what was written, even where the watch lags. The change goes on to
    `AdmissionLoop.on_change`, and to `JobController.reconcile` for the job. Every write holds for
    one version only: ConflictError means that a newer one is stored. A missing workload is no
    error. An Event about the workload says what the API server refuses.
    """

    def __init__(
        self,
        queues: Queues,
        writer: WorkloadWriter,
        *,
        written: Written = lambda _before, _after: None,
        record: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._queues = queues
        self._writer = writer
        self._written = written
        self._record = record

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Write what differs between the two statuses, if anything. Raises ApiError."""
        if before == after:
            return
        try:
            with self._reported(before):
                stored = await self._writer.write_status(before, after)
        except NotFoundError:
            self._queues.apply(events.Deleted(before))
            return
        except ConflictError:
            await self.read_again(before)
            raise
        self._apply(stored)
        self._written(before, stored)

    async def create(self, workload: dict[str, Any]) -> None:
        """Create a workload. Raises ApiError."""
        self._apply(await self._writer.create(workload))

    async def patch(self, workload: WorkloadInfo, change: Mapping[str, Any]) -> None:
        """Change its spec or metadata. Raises ApiError."""
        try:
            with self._reported(workload):
                self._apply(await self._writer.patch(workload.meta, change))
        except NotFoundError:
            self._queues.apply(events.Deleted(workload))
        except ConflictError:
            await self.read_again(workload)
            raise

    def note_written(self, before: WorkloadInfo, stored: WorkloadInfo) -> None:
        """Note a write without an answer that was found to be stored."""
        self._written(before, stored)

    async def drop_finalizer(self, workload: WorkloadInfo) -> None:
        """Remove our finalizer from a workload, if it is there. Raises ApiError."""
        left = [name for name in workload.meta.finalizers if name != IN_USE_FINALIZER]
        if len(left) < len(workload.meta.finalizers):
            await self.patch(workload, {"metadata": {"finalizers": left}})

    async def delete(self, workload: WorkloadInfo) -> None:
        """Delete a workload. Raises ApiError."""
        try:
            with self._reported(workload):
                await self._writer.delete(workload.meta)
        except NotFoundError:
            self._queues.apply(events.Deleted(workload))

    @contextmanager
    def _reported(self, workload: WorkloadInfo) -> Iterator[None]:
        """Record an Event about what the API server refuses to write, and raise that again."""
        try:
            yield
        except RefusedError as error:
            self._record(refusal(about(workload), error))
            raise

    async def read_again(self, workload: WorkloadInfo) -> None:
        """Read a workload, because the watch may lag. Raises ApiError."""
        try:
            self._apply(await self._writer.read(workload.meta))
        except NotFoundError:
            self._queues.apply(events.Deleted(workload))

    def _apply(self, workload: WorkloadInfo) -> None:
        self._queues.apply(events.Applied(workload))


def about(workload: WorkloadInfo) -> ObjectRef:
    """Return what Events of a workload point to."""
    meta = workload.meta
    return ObjectRef(QUEUE_API_VERSION, "Workload", meta.namespace, meta.name, meta.uid)


def event(
    workload: WorkloadInfo, reason: str, note: str, *, warning: bool = False, occasion: str = ""
) -> Event:
    """Return an Event about a workload, one for each `occasion`: by default for each version."""
    return Event(
        about=about(workload),
        reason=reason,
        note=note,
        action=reason,
        warning=warning,
        occasion=occasion or str(workload.meta.version),
    )


_log = structlog.get_logger(__name__)

CONCURRENT_WRITES: Final = 32
_MAY_STILL_ARRIVE: Final = frozenset((0, 502, 504))
"""Statuses after which the write may still be carried out; 0 means no answer at all."""


class AdmissionResult(Enum):
    """The result of writing an admission."""

    STORED = auto()
    """It is stored, or the workload is gone."""
    CONFLICT = auto()
    """The workload has a newer version: decide again."""
    FAILED = auto()
    """The API server refused it: try again after a back-off."""


class AdmissionWriter:
    """Writes the decisions of a cycle, and an Event for each of them.

    Many writes are under way at once. A write without an answer may have been carried out: it is
    sent again until the API server accepts or refuses it. That is safe because each write holds for
    one version of the workload only.
    """

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

    def has_waiting(self) -> bool:
        """Return whether a write would have to wait for others."""
        return self._slots.locked()

    async def catch_up(self, seconds: float) -> None:
        """Wait until all writes that wait now are under way, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._slots:
                pass

    async def admit(self, before: WorkloadInfo, admission: AdmissionInfo) -> AdmissionResult:
        """Write an admission and return whether it is stored."""
        now = self._clock.wall()
        try:
            policy = readiness.policy_of(before, self._view, self._options)
            after = transitions.reserved(before, admission, now, pods_ready=policy.enabled)
            await self._write_until_answered(before, after)
        except ApiError as error:
            if not self._is_admitted(before, admission):
                _log_failure(error, "could not admit", before.key)
                conflict = isinstance(error, ConflictError)
                return AdmissionResult.CONFLICT if conflict else AdmissionResult.FAILED
            self._workloads.note_written(before, self._view.workloads[before.key])
        except Exception as error:  # noqa: BLE001 - unexpected data harms this workload alone
            FAULTS.report("admission", error, key=before.key)
            return AdmissionResult.FAILED
        if self._is_admitted(before, admission):  # else it was deleted meanwhile
            self._report_admitted(before, admission.cluster_queue, now)
        return AdmissionResult.STORED

    @harmless("admission")
    def _report_admitted(self, before: WorkloadInfo, queue: str, now: float) -> None:
        waited = max(0.0, now - transitions.queued_since(before))
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
                after = transitions.preempted(before, victim.reason, victim.message, now=now)
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
        in_doubt = False
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
            await asyncio.sleep(LOOK_AGAIN)

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


Reader = Callable[[Meta], Iterable[str]]
"""Returns a warning for each value that it cannot read."""


class SettingWarnings:
    """The last warnings by object; a new process repeats them."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers
        self._known: dict[Hashable, dict[JobReason, str]] = {}

    def news(
        self, key: Hashable, meta: Meta, limited: Iterable[str] = ()
    ) -> Iterator[tuple[JobReason, str]]:
        """Yield the reason and text of warnings that are new; `limited` are texts on limits."""
        odd = [each for read in self._readers for each in read(meta)]
        before = self._known.pop(key, {})
        said = {
            JobReason.INVALID: "; ".join(odd),
            JobReason.OVERRIDE_LIMITED: "; ".join(limited),
            JobReason.NOT_HONOURED: no_effect_sentence(meta.ignored),
        }
        if any(said.values()):
            self._known[key] = said
        for reason, text in said.items():
            if text and text != before.get(reason):
                yield reason, text

    def forget(self, key: Hashable) -> None:
        """Forget an object that is gone."""
        self._known.pop(key, None)
