"""Brings each workload one step further, whatever the quota says: see `queueing.lifecycle`."""

from collections.abc import Callable, Collection

from extender.api.wellknown import IN_USE_FINALIZER
from extender.controllers.workload_writer import Workloads, event
from extender.kube.recorder import Event
from extender.queueing import lifecycle
from extender.queueing.lifecycle import Given
from extender.runtime.clock import Clock
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.store import Queues


class WorkloadController:
    """Decides for one workload at a time; `kinds` are the jobs that are watched, by group/Kind."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        kinds: Callable[[], Collection[str]],
        given: Given,
    ) -> None:
        self._snapshot = queues.snapshot()
        self._workloads = workloads
        self._record = record
        self._clock = clock
        self._kinds = kinds
        self._given = given

    async def reconcile(self, key: str) -> float | None:
        """Take the next step; return in how many seconds to look again. Raises ApiError."""
        workload = self._snapshot.workloads.get(key)
        if workload is None:
            return None
        step = lifecycle.decide(
            workload,
            self._snapshot,
            self._clock.wall(),
            orphaned=self._is_orphaned(workload),
            given=self._given,
        )
        if step.after is not None:
            await self._workloads.write_status(workload, step.after)
        if step.reason:
            self._record(event(workload, step.reason, step.message))
        if step.deactivate:
            await self._workloads.patch(workload, {"spec": {"active": False}})
        if step.drop_finalizer:
            current = self._snapshot.workloads.get(key, workload)
            await self._workloads.drop_finalizer(current, IN_USE_FINALIZER)
        return step.again

    def _is_orphaned(self, workload: WorkloadInfo) -> bool:
        """Return whether all objects that are its job are of watched kinds, and not there."""
        kinds = self._kinds()
        return bool(workload.owners) and all(
            f"{owner.api_version.rpartition('/')[0]}/{owner.kind}" in kinds
            and self._snapshot.job_of(owner.uid) is None
            for owner in workload.owners
        )
