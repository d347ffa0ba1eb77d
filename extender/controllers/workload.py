"""Brings each workload one step further, whatever the quota says: see `queueing.lifecycle`.

A job that is not seen any more is asked for before its workload is given up: it may only have lost
the label by which jobs are watched, and run on. As long as it does, it is asked for again.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol

from extender.api.wellknown import IN_USE_FINALIZER, PRIORITY_TAKEN
from extender.controllers.unreadable import Once, Unreadable
from extender.controllers.workload_writer import Workloads, event
from extender.jobs.names import Word
from extender.kube.recorder import Event
from extender.queueing import lifecycle, priority_class, readiness
from extender.queueing.lifecycle import Given, Step
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.queues import events as ev
from extender.state.queues.records import (
    JobObject,
    OwnerRef,
    WorkloadInfo,
    group_unit,
)
from extender.state.queues.store import Queues

ASK_AGAIN: Final = 5.0
"""Seconds after which a job that is out of sight is asked for again."""


ASK_FOREIGN_AGAIN: Final = 60.0
"""Seconds after which the owner of a kind that is not handled here is asked for again."""
FAULT_AGAIN: Final = 60.0
"""Seconds until a workload is looked at again about which nothing could be decided."""


class Jobs(Protocol):
    """Reads jobs, of which a watch shows the labelled ones."""

    async def read(self, owner: OwnerRef, namespace: str) -> JobObject | None:
        """Return a job as it is stored, None where it is gone. Raises ApiError."""
        ...

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an object of any kind is there, None where that cannot be known.

        Raises ApiError.
        """
        ...

    def kinds(self) -> Collection[str]:
        """Return the kinds, as group/Kind, all of whose labelled jobs are known."""
        ...

    def is_watched(self, job: JobObject) -> bool:
        """Return whether the watch shows it as it is now."""
        ...


class WorkloadController:
    """Decides for one workload at a time."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        given: Given,
        jobs: Jobs,
    ) -> None:
        self._queues = queues
        self._jobs = jobs
        self._snapshot = queues.snapshot()
        self._workloads = workloads
        self._record = record
        self._clock = clock
        self._given = given
        self.learn: Callable[[WorkloadInfo], Awaitable[None]] | None = None
        """Reads the job of a workload with rests, so that `given.pods_ready` has little to do."""
        self._unreadable = Unreadable(readiness.unreadable)
        self._limited = Once()

    async def reconcile(self, key: str) -> float | None:
        """Take the next step; return in how many seconds to look again. Raises ApiError."""
        workload = await self._prepared(key)
        if workload is None:
            self._unreadable.forget(key)
            self._limited.forget(key)
            return None
        self._report_settings(workload)
        workload = await self._prioritized(workload)
        if workload is None:
            return None
        unseen, orphaned = self._unseen(workload), False
        if unseen:
            orphaned = not await self._ask_for(unseen, workload.meta.namespace)
            workload = self._snapshot.workloads.get(key)
            if workload is None:
                return None
        foreign = self._is_foreign(workload)
        if foreign and not workload.meta.terminating and workload.admission is not None:
            orphaned = await self._is_abandoned(workload)
        again = await self._step(workload, orphaned=orphaned, foreign=foreign)
        ask = ASK_AGAIN if unseen else ASK_FOREIGN_AGAIN
        if (unseen or foreign) and not orphaned and not workload.finished:
            return ask if again is None else min(ask, again)
        return again

    async def _prepared(self, key: str) -> WorkloadInfo | None:
        """Return a workload as it is when its job was read, where a decision may ask for that."""
        workload = self._snapshot.workloads.get(key)
        if workload is None or workload.admission is None or self.learn is None:
            return workload
        await self.learn(workload)
        return self._snapshot.workloads.get(key)

    async def _prioritized(self, workload: WorkloadInfo) -> WorkloadInfo | None:
        """Have a workload take the value of its priority class; return it as it is then."""
        taken = priority_class.decide(workload, self._snapshot)
        if taken is None:
            return workload
        annotations = {"annotations": {PRIORITY_TAKEN: taken.note}}
        change: dict[str, Any] = {"metadata": annotations}
        if taken.value != workload.priority:
            change["spec"] = {"priority": taken.value}
        await self._workloads.patch(workload, change)
        if taken.value != workload.priority:
            name = workload.workload_priority_class
            note = f"Its priority is {taken.value} now, the value of WorkloadPriorityClass {name}"
            self._record(event(workload, Word.UPDATED_WORKLOAD, note, occasion=taken.note))
        return self._snapshot.workloads.get(workload.key)

    def _is_foreign(self, workload: WorkloadInfo) -> bool:
        """Return whether all that own a workload are of kinds that are not handled here."""
        handled = self._given.options.kinds
        return (
            handled is not None
            and bool(workload.owners)
            and all(each.group_kind not in handled for each in workload.owners)
        )

    async def _is_abandoned(self, workload: WorkloadInfo) -> bool:
        """Return whether nothing is there any more that owns a workload."""
        for owner in workload.owners:
            if await self._jobs.exists(owner, workload.meta.namespace) is not False:
                return False
        return True

    def _report_settings(self, workload: WorkloadInfo) -> None:
        """Write once which settings of its own cannot be read, and which do not count in full."""
        odd = self._unreadable.news(workload.key, workload.meta)
        if odd:
            self._record(event(workload, Word.INVALID, odd, warning=True, occasion=odd))
        ruled, overrides = readiness.ruled_for(workload, self._snapshot, self._given.options)
        beyond = self._limited.only_new(
            workload.key, readiness.limits(workload.meta, ruled, overrides)
        )
        if beyond:
            self._record(
                event(workload, Word.OVERRIDE_LIMITED, beyond, warning=True, occasion=beyond)
            )

    def _decide(self, workload: WorkloadInfo, *, orphaned: bool) -> Step:
        try:
            now = self._clock.wall()
            return lifecycle.decide(
                workload, self._snapshot, now, orphaned=orphaned, given=self._given
            )
        except Exception as error:  # noqa: BLE001 - data nobody thought of
            FAULTS.report("workload", error, key=workload.key)
            return Step(again=FAULT_AGAIN)  # it harms itself alone

    async def _step(self, workload: WorkloadInfo, *, orphaned: bool, foreign: bool) -> float | None:
        # Nothing here has to stop before a workload of another controller may be deleted.
        deleted = foreign and workload.meta.terminating
        step = self._decide(workload, orphaned=orphaned or deleted)
        if step.after is not None:
            await self._workloads.write_status(workload, step.after)
        if step.reason:
            self._record(event(workload, step.reason, step.message))
        if step.deactivate:
            await self._workloads.patch(workload, {"spec": {"active": False}})
        if step.drop_finalizer:
            current = self._snapshot.workloads.get(workload.key, workload)
            await self._workloads.drop_finalizer(current, IN_USE_FINALIZER)
        return step.again

    def _unseen(self, workload: WorkloadInfo) -> Collection[OwnerRef]:
        """Return the objects that are its job, if all are of known kinds and none is watched."""
        if workload.finished and not workload.meta.finalizers:
            return ()
        if workload.is_of_pods and self._snapshot.unit(group_unit(workload.key)):
            return ()  # other pods of the group are there
        kinds = self._jobs.kinds()
        for owner in workload.owners:
            found = self._snapshot.job_of(owner.uid, workload.meta.namespace)
            known = owner.group_kind in kinds
            if not known or (found is not None and self._jobs.is_watched(found)):
                return ()
        return workload.owners

    async def _ask_for(self, owners: Collection[OwnerRef], namespace: str) -> bool:
        """Learn how a job is that is out of sight; return whether any of it is there."""
        there = False
        for owner in owners:
            found = await self._jobs.read(owner, namespace)
            known = self._snapshot.job_of(owner.uid, namespace)
            if found is not None:
                there = True
                self._queues.apply(ev.JobApplied(found))
            elif known is not None:
                self._queues.apply(ev.JobDeleted(known, for_good=True))
        return there
