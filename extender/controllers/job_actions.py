"""Carries out actions on a job: writes its objects, its PodGroup and its workload."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, get_args

import msgspec

from extender.api.wellknown import WorkloadCondition
from extender.controllers.job_facts import PodGroups
from extender.controllers.timing import LATE
from extender.controllers.workload_writer import CONCURRENT_WRITES, Workloads
from extender.jobs import fields
from extender.jobs.actions import (
    Action,
    Actions,
    AwaitPods,
    CreateWorkload,
    DeleteWorkload,
    DropFinalizer,
    DropGrant,
    FinalizeJob,
    FinishWorkload,
    MakePodGroup,
    PatchWorkload,
    ReleaseQuota,
    ReportRefusal,
    SetBlocked,
    SetPodsReady,
    SetReclaimable,
    StartJob,
    StatusChange,
    StopJob,
    WorkloadChange,
)
from extender.jobs.job import ChildChange, Step
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import Integration
from extender.kube.errors import ApiError, NotFoundError, UnavailableError
from extender.kube.queues import JobWriter
from extender.kube.queues import objects as path_of
from extender.queueing import transitions
from extender.runtime.clock import Clock
from extender.state.cluster.records import LONGEST_SECONDS, Grant
from extender.state.queue import events
from extender.state.queue.records import JobObject, WorkloadInfo
from extender.state.queue.store import Queues

GRANTED_SECONDS_EACH: Final = 0.1
"""A grant lasts one minute, and this many seconds more for each pod that the group needs:
kube-controller-manager creates 20 pods a second."""


class UndecidedError(ApiError):
    """A decision about a job failed: the job is retried like one whose write failed."""


class JobActions:
    """Carries out actions, and applies the answers of the API server to the state."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        writer: JobWriter,
        *,
        integrations: Mapping[str, Integration],
        pod_groups: PodGroups,
        clock: Clock,
    ) -> None:
        self._queues, self._view = queues, queues.view()
        self._workloads, self._writer = workloads, writer
        self._integrations, self._pod_groups, self._clock = integrations, pod_groups, clock
        self._unsure: dict[tuple[str, str], set[str]] = {}
        """The names of objects with an unanswered write, by job."""

    async def act(self, together: Actions, of: JobObject) -> None:
        """Carry out one action, or several changes of a workload's status in a single write.

        Raises ApiError.
        """
        action = together[0]
        match action:
            case CreateWorkload():
                await self._workloads.create(action.object)
            case MakePodGroup():
                await self._make_pod_group(action)
            case DropGrant():
                with suppress(NotFoundError):
                    await self._writer.drop_grant(action.namespace, action.name)
            case StartJob():
                await self._change_children(action.children, of)
                await self.take(action.steps, of)
            case StopJob() | FinalizeJob():
                await self.take(action.steps, of)
            case ReportRefusal() | AwaitPods():
                pass  # it is an Event and nothing else
            case _:
                await self._change(action, together)

    async def _change(self, action: WorkloadChange, together: Actions) -> None:
        # Read it now: an earlier action may have changed it.
        workload = self._view.workloads.get(action.key)
        if workload is None or workload.meta.uid != action.uid:
            return
        match action:
            case PatchWorkload():
                await self._workloads.patch(workload, action.change)
            case DropFinalizer():
                await self._workloads.drop_finalizer(workload)
            case DeleteWorkload():
                await self._workloads.delete(workload)
            case _:
                after = workload
                for each in together:
                    if isinstance(each, _IN_ONE_WRITE):
                        after = _after(after, each, self._clock.wall())
                await self._workloads.write_status(workload, after)

    # -- the objects of the job

    async def make_sure(self, key: tuple[str, str]) -> None:
        """Read the objects of a job that have an unanswered write. Raises ApiError."""
        if key not in self._unsure:
            return
        for known in self._view.unit(key):
            if known.meta.name in self._unsure[key]:
                path = f"{self._collection(known)}/{known.meta.name}"
                try:
                    stored = await self._writer.read(path, kind=known.kind)
                except NotFoundError:
                    self._queues.apply(events.JobDeleted(known, for_good=True))
                else:
                    self._queues.apply(events.JobApplied(stored))
        del self._unsure[key]

    async def take(self, steps: Sequence[Step], of: JobObject) -> None:
        """Write the steps to start, stop or clean up a job. Raises ApiError.

        Steps of one object are written in order. Several objects of one job, such as a group of
        pods, are written at the same time; the first error is raised when all writes have ended.
        """
        for batch in _batches(steps):
            errors: list[Exception] = []
            async with asyncio.TaskGroup() as tasks:
                for step in batch:
                    tasks.create_task(self._try(step, of, errors))
            if errors:
                raise errors[0]

    async def _try(self, step: Step, of: JobObject, errors: list[Exception]) -> None:
        try:
            await self._take(step, of)
        except Exception as error:  # noqa: BLE001 - raised when the other writes have ended
            errors.append(error)

    async def _take(self, step: Step, of: JobObject) -> None:
        name = step.member or of.meta.name
        path = f"{self._collection(of)}/{name}"
        try:
            if step.delete:
                await self._writer.delete(path, step.patch)
                return
            where = f"{path}/{step.subresource}" if step.subresource else path
            stored = await self._writer.patch(where, step.patch, kind=of.kind)
        except NotFoundError:
            return  # the watch will show it
        except UnavailableError:
            self._unsure.setdefault(of.unit, set()).add(name)
            raise
        self._queues.apply(events.JobApplied(stored))

    async def _change_children(self, changes: Sequence[ChildChange], of: JobObject) -> None:
        """Bring suspended child Jobs of a job in line with its templates. Raises ApiError."""
        for each in changes:
            path = f"{path_of('batch', 'v1', 'jobs', namespace=of.meta.namespace)}/{each.name}"
            try:
                child = BatchJob(msgspec.json.decode(await self._writer.raw(path)))
                for step in self._child_steps(child, each, of):
                    where = f"{path}/{step.subresource}" if step.subresource else path
                    await self._writer.merge(where, step.patch)
            except NotFoundError:
                continue  # it is made from the templates as they are then

    def _child_steps(self, child: BatchJob, change: ChildChange, of: JobObject) -> Sequence[Step]:
        owners = fields.objects(child.object, "metadata", "ownerReferences")
        if child.finished() or not any(each.get("uid") == of.meta.uid for each in owners):
            return ()
        if not child.is_suspended():
            raise UndecidedError(f"its Job {change.name} is not suspended yet")
        return child.follow_steps(change.before, change.after)

    def _collection(self, of: JobObject) -> str:
        """Return the API path of the objects of a job."""
        found = self._integrations[of.kind]
        return path_of(found.group, found.version, found.plural, namespace=of.meta.namespace)

    # -- its PodGroup

    async def _make_pod_group(self, action: MakePodGroup) -> None:
        """Write a PodGroup with the room found for it."""
        await self._writer.make_pod_group(
            action.namespace,
            action.name,
            min_member=action.min_member,
            owners=action.owners,
            done=action.done,
            grant=self._grant(action),
            domains=action.domains,
        )
        size = action.min_member, action.done
        self._pod_groups.wrote(f"{action.namespace}/{action.name}", size, action.domains)

    def _grant(self, action: MakePodGroup) -> Grant | None:
        found = self._pod_groups.rooms(action.room_of) if action.room_of else None
        if not found:
            return None
        rooms = {node: dict(amounts) for node, amounts in found.items()}
        seconds = LATE + action.min_member * GRANTED_SECONDS_EACH
        return Grant(rooms, self._clock.wall() + min(seconds, LONGEST_SECONDS / 2))


def _batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps in order; the steps of one batch are about different objects."""
    batch: dict[str, Step] = {}
    for step in steps:
        if len(batch) == CONCURRENT_WRITES or step.member in batch:
            yield list(batch.values())
            batch = {}
        batch[step.member] = step
    if batch:
        yield list(batch.values())


def _after(workload: WorkloadInfo, action: StatusChange, now: float) -> WorkloadInfo:
    """Return a workload with the status that an action gives it."""
    match action:
        case FinishWorkload():
            return transitions.finished(workload, action.reason, action.message, now=now)
        case ReleaseQuota():
            after = transitions.released(workload, now, requeued=action.requeued)
            return replace(after, reclaimable=dict(action.reclaimable))
        case SetReclaimable():
            return replace(workload, reclaimable=dict(action.counts))
        case SetPodsReady():
            new = transitions.condition(
                WorkloadCondition.PODS_READY, action.reason, action.message, holds=action.ready
            )
            return transitions.with_conditions(workload, now, new)
        case SetBlocked():
            return transitions.blocked(workload, action.reason, action.message, now=now)


_IN_ONE_WRITE: Final = get_args(StatusChange)


def joined(actions: Actions) -> Iterator[Actions]:
    """Yield the actions in order; those that are one write of a workload's status together."""
    together: list[Action] = []
    for each in actions:
        last = together[-1] if together else None
        joined = (
            isinstance(each, _IN_ONE_WRITE)
            and isinstance(last, _IN_ONE_WRITE)
            and (each.key, each.uid) == (last.key, last.uid)
        )
        if together and not joined:
            yield tuple(together)
            together = []
        together.append(each)
    if together:
        yield tuple(together)
