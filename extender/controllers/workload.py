"""Writes workloads, and takes the next step of each, apart from quota: see `queueing.lifecycle`.

A write is a change of any kind, an admission or an eviction, with an Event about it. A stored
change is in the state at once, before the watch shows it. A job that the watch shows no more is
read before its workload is given up: it may run on, and have lost only the label by which jobs are
watched. As long as it runs, it is read again.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, Protocol

import structlog

from extender.api.reasons import EvictionReason, JobReason
from extender.api.wellknown import (
    IN_USE_FINALIZER,
    PRIORITY_TAKEN,
    QUEUE_API_VERSION,
    WorkloadCondition,
    no_effect_sentence,
)
from extender.controllers.timing import CONCURRENT_WRITES, LATE, LOOK_AGAIN, SETTLE
from extender.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from extender.kube.queues import WorkloadWriter
from extender.kube.recorder import Event, ObjectRef, refusal
from extender.queueing import checks, lifecycle
from extender.queueing.lifecycle import LifecycleRules
from extender.queueing.preempt import Victim
from extender.queueing.rules import AdmissionOptions, limits, policy_of, ruled_for, unreadable
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS, harmless
from extender.state.queue import events
from extender.state.queue.records import (
    AdmissionInfo,
    JobObject,
    Meta,
    OwnerRef,
    WorkloadInfo,
    group_unit,
)
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
        self.written = written
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
        self.written(before, stored)

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
    said = about(workload), reason, note, reason
    return Event(*said, warning=warning, occasion=occasion or str(workload.meta.version))


_log = structlog.get_logger(__name__)


class AdmissionWriter:
    """Writes the decisions of a cycle, and an Event for those that no job reports.

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
        self.has_waiting = self._slots.locked
        """Returns whether a write would have to wait for others."""

    async def catch_up(self, seconds: float) -> None:
        """Wait until all writes that wait now are under way, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._slots:
                pass

    async def admit(self, before: WorkloadInfo, admission: AdmissionInfo) -> str:
        """Write an admission; return nothing where it is stored, or the workload is gone.

        Otherwise return `conflict` where the workload has a newer version, so that it is to be
        decided again, or `failed` where it is to be tried again after a back-off.
        """
        now = self._clock.wall()
        try:
            if before.admission is not None and before.admission.reserved_only:
                after = lifecycle.admitted(before, admission, now)
            else:
                policy = policy_of(before, self._view, self._options)
                queue = self._view.cluster_queues.get(admission.cluster_queue)
                after = lifecycle.reserved(
                    before,
                    admission,
                    now,
                    pods_ready=policy.enabled,
                    has_checks=queue is not None and bool(queue.admission_checks),
                )
                after = checks.synced(after, self._view, now)
            await self._write_until_answered(before, after)
        except ApiError as error:
            if not self._is_admitted(before, admission):
                _log_failure(error, "could not admit", before.key)
                conflict = isinstance(error, ConflictError)
                return "conflict" if conflict else "failed"
            self._workloads.written(before, self._view.workloads[before.key])
        except Exception as error:  # noqa: BLE001 - unexpected data harms this workload alone
            FAULTS.report("admission", error, key=before.key)
            return "failed"
        if self._is_admitted(before, admission):  # else it was deleted meanwhile
            self._report_admitted(before, admission, now)
        return ""

    @harmless("admission")
    def _report_admitted(self, before: WorkloadInfo, given: AdmissionInfo, now: float) -> None:
        queue, waited = given.cluster_queue, max(0.0, now - before.queued_since)
        held = before.condition(WorkloadCondition.QUOTA_RESERVED)
        if held is None or held.status != "True":
            self._metrics.reserved(before, queue, waited=waited)
        if given.reserved_only:
            note = f"Quota reserved in ClusterQueue {queue}, wait time since queued was"
            self._record(event(before, "QuotaReserved", f"{note} {waited:.0f}s", occasion=str(now)))
            return
        self._metrics.admitted(before, queue, waited=waited)
        since = "queued"
        if held is not None and held.status == "True":
            since, waited = "reservation", max(0.0, now - held.transition)
            if before.checks:
                self._metrics.checked(before, queue, waited=waited)
        starts = any(each.group_kind in (self._options.kinds or ()) for each in before.owners)
        if starts and not before.is_of_pods and before.service is None:
            return  # the Event of its job says that it starts
        note = f"Admitted by ClusterQueue {queue}, wait time since {since} was {waited:.0f}s"
        self._record(event(before, "Admitted", note, occasion=str(now)))

    async def evict(self, before: WorkloadInfo, victim: Victim, *, cluster_queue: str) -> bool:
        """Write the eviction of a victim for a ClusterQueue; return whether it is stored."""
        try:
            async with self._slots:
                now, found = self._clock.wall(), self._view.workloads.get(before.key)
                if found is None or found.finished:
                    return False  # it has left by itself
                after = lifecycle.preempted(before, victim.reason, victim.message, now=now)
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

        Without an answer, or after a proxy's 502 or a 504, no read can show it: the write may still
        be on its way to storage. Only the next try of the same write can.
        """
        if not error.status or error.status in (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT):
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


class JobReader(Protocol):
    """Reads jobs; the watch shows only those with a label."""

    async def read(self, owner: OwnerRef, namespace: str) -> JobObject | None:
        """Return a job as it is stored, None where it is gone. Raises ApiError."""

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an object of any kind exists; None where that cannot be known.

        Raises ApiError.
        """

    def kinds(self) -> Collection[str]:
        """Return the kinds, as group/Kind, that are watched."""

    def is_watched(self, job: JobObject) -> bool:
        """Return whether the watch shows the current state of a job."""


class WorkloadController:
    """Decides for one workload at a time."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        rules: LifecycleRules,
        jobs: JobReader,
    ) -> None:
        self._queues = queues
        self._jobs = jobs
        self._view = queues.view()
        self._workloads = workloads
        self._record = record
        self._clock = clock
        self._rules = rules
        self._warnings = SettingWarnings(unreadable)

    async def reconcile(self, key: str) -> float | None:
        """Do what is due; return in how many seconds to look again. Raises ApiError."""
        workload = self._view.workloads.get(key)
        if workload is None:
            self._warnings.forget(key)
            return None
        self._report_settings(workload)
        workload = await self._prioritized(workload)
        if workload is None:
            return None
        unseen, orphaned = self._unseen(workload), False
        if unseen:
            orphaned = not await self._ask_for(unseen, workload.meta.namespace)
            workload = self._view.workloads.get(key)
            if workload is None:
                return None
        owners, handled = workload.owners, self._rules.options.kinds
        foreign = (
            handled is not None
            and bool(owners)
            and all(each.group_kind not in handled for each in owners)
        )
        if foreign and not workload.meta.terminating and workload.admission is not None:
            orphaned = await self._is_abandoned(workload)
        # A workload of another controller may be deleted without a job to stop here.
        deleted = foreign and workload.meta.terminating
        again = await self._step(workload, orphaned=orphaned or deleted)
        ask = SETTLE if unseen else LATE
        if (unseen or foreign) and not orphaned and not workload.finished:
            return ask if again is None else min(ask, again)
        return again

    async def _is_abandoned(self, workload: WorkloadInfo) -> bool:
        """Return whether all owners of a workload are gone; any user may name very many."""
        for owner in workload.owners:
            if await self._jobs.exists(owner, workload.meta.namespace) is not False:
                return False
        return True

    async def _prioritized(self, workload: WorkloadInfo) -> WorkloadInfo | None:
        """Write the value of its priority class to a workload; return the workload then."""
        taken = lifecycle.priority_to_take(workload, self._view)
        if taken is None:
            return workload
        annotations = {"annotations": {PRIORITY_TAKEN: taken.note}}
        change: dict[str, Any] = {"metadata": annotations}
        if taken.value != workload.priority:
            change["spec"] = {"priority": taken.value}
        await self._workloads.patch(workload, change)
        if taken.value != workload.priority:
            name = workload.workload_priority_class
            note = f"Its priority is now {taken.value}, the value of WorkloadPriorityClass {name}"
            self._record(event(workload, JobReason.UPDATED_WORKLOAD, note, occasion=taken.note))
        return self._view.workloads.get(workload.key)

    def _report_settings(self, workload: WorkloadInfo) -> None:
        """Record one Event about settings that cannot be read, and one about limited ones."""
        ruled, overrides = ruled_for(workload, self._view, self._rules.options)
        limited = limits(workload.meta, ruled, overrides)
        for reason, text in self._warnings.news(workload.key, workload.meta, limited):
            self._record(event(workload, reason, text, warning=True, occasion=text))

    async def _step(self, workload: WorkloadInfo, *, orphaned: bool) -> float | None:
        now = self._clock.wall()
        try:
            step = lifecycle.decide(workload, self._view, now, orphaned=orphaned, rules=self._rules)
        except Exception as error:  # noqa: BLE001 - unexpected data
            FAULTS.report("workload", error, key=workload.key)
            return LATE
        if step.after is not None:
            await self._workloads.write_status(workload, step.after)
        if step.reason:
            self._record(event(workload, step.reason, step.message))
        if step.deactivate:
            await self._workloads.patch(workload, {"spec": {"active": False}})
        if step.drop_finalizer:
            current = self._view.workloads.get(workload.key, workload)
            await self._workloads.drop_finalizer(current)
        return step.again

    def _unseen(self, workload: WorkloadInfo) -> Collection[OwnerRef]:
        """Return the objects of its job, if all are of watched kinds and the watch shows none."""
        if workload.finished and not workload.meta.finalizers:
            return ()
        if workload.is_of_pods and self._view.unit(group_unit(workload.key)):
            return ()  # other pods of the group exist
        kinds = self._jobs.kinds()
        for owner in workload.owners:
            found = self._view.job_of(owner.uid, workload.meta.namespace)
            known = owner.group_kind in kinds
            if not known or (found is not None and self._jobs.is_watched(found)):
                return ()
        return workload.owners

    async def _ask_for(self, owners: Collection[OwnerRef], namespace: str) -> bool:
        """Read a job that the watch does not show; return whether any object of it exists."""
        there = False
        for owner in owners:
            found = await self._jobs.read(owner, namespace)
            known = self._view.job_of(owner.uid, namespace)
            if found is not None:
                there = True
                self._queues.apply(events.JobApplied(found))
            elif known is not None:
                self._queues.apply(events.JobDeleted(known, for_good=True))
        return there
