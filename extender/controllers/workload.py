"""Takes the next step of each workload, apart from quota: see `queueing.lifecycle`.

A job that the watch shows no more is read before its workload is given up: it may run on, and have
lost only the label by which jobs are watched. As long as it runs, it is read again.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from extender.api.reasons import JobReason
from extender.api.wellknown import PRIORITY_TAKEN
from extender.controllers.timing import LATE, SETTLE
from extender.controllers.workload_writer import SettingWarnings, Workloads, event
from extender.kube.recorder import Event
from extender.queueing import lifecycle, readiness
from extender.queueing.lifecycle import LifecycleRules
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.queue import events
from extender.state.queue.records import (
    JobObject,
    OwnerRef,
    WorkloadInfo,
    group_unit,
)
from extender.state.queue.store import Queues


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
        self._warnings = SettingWarnings(readiness.unreadable)

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
            there = [await self._jobs.exists(o, workload.meta.namespace) for o in owners]
            orphaned = not any(each is not False for each in there)
        # A workload of another controller may be deleted without a job to stop here.
        deleted = foreign and workload.meta.terminating
        again = await self._step(workload, orphaned=orphaned or deleted)
        ask = SETTLE if unseen else LATE
        if (unseen or foreign) and not orphaned and not workload.finished:
            return ask if again is None else min(ask, again)
        return again

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
        ruled, overrides = readiness.ruled_for(workload, self._view, self._rules.options)
        limited = readiness.limits(workload.meta, ruled, overrides)
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
