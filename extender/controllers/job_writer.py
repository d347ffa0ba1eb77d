"""Writes the objects of jobs, and their PodGroups with the room granted until pods exist."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from cachetools import TTLCache

from extender.jobs import fields
from extender.jobs.actions import DropGrant, MakePodGroup
from extender.jobs.context import PodGroupState
from extender.jobs.gang import pod_group_key
from extender.jobs.job import ChildChange, Step
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import Integration
from extender.kube.errors import ApiError, NotFoundError, UnavailableError
from extender.kube.queues import JobWriter
from extender.kube.queues import objects as path_of
from extender.queueing.options import AdmissionOptions
from extender.queueing.room import requires_room
from extender.room.nodes import NodeRoom
from extender.room.pods import members
from extender.runtime.clock import Clock
from extender.state.cluster.records import LONGEST_SECONDS, Grant
from extender.state.cluster.view import ClusterView
from extender.state.queue import events
from extender.state.queue.records import JobObject, WorkloadInfo
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.state.topology import DomainAssignment

AT_ONCE: Final = 16
"""Most objects of one job that are written at the same time."""


class UndecidedError(ApiError):
    """A decision about a job failed: the job is retried like one whose write failed."""


class JobObjects:
    """Writes objects of jobs, and applies the answers of the API server to the state."""

    def __init__(
        self, queues: Queues, writer: JobWriter, integrations: Mapping[str, Integration]
    ) -> None:
        self._queues = queues
        self._view = queues.view()
        self._writer = writer
        self._integrations = integrations
        self._unsure: dict[tuple[str, str], set[str]] = {}
        """The names of objects with an unanswered write, by job."""

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

    async def change_children(self, changes: Sequence[ChildChange], of: JobObject) -> None:
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


def _batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps in order; the steps of one batch are about different objects."""
    batch: dict[str, Step] = {}
    for step in steps:
        if len(batch) == AT_ONCE or step.member in batch:
            yield list(batch.values())
            batch = {}
        batch[step.member] = step
    if batch:
        yield list(batch.values())


_WRITTEN: Final = 10_000
_SECONDS: Final = 60.0
GRANTED_SECONDS: Final = 60.0
"""Seconds for which room on nodes is granted to pods that do not exist yet."""
GRANTED_SECONDS_EACH: Final = 0.1
"""The seconds to add for each pod: kube-controller-manager makes 20 pods a second."""


class PodGroups:
    """The facts about PodGroups from the caches. They are made if a ClusterQueue requires room."""

    def __init__(
        self,
        queues: QueueView,
        cluster: ClusterView,
        room: NodeRoom,
        *,
        options: AdmissionOptions,
        make: bool,
    ) -> None:
        self._queues, self._cluster, self._room = queues, cluster, room
        self._options, self._make = options, make

    def are_made_in(self, cluster_queue: str) -> bool:
        """Return whether a ClusterQueue makes PodGroups for jobs whose pods name none."""
        queue = self._queues.cluster_queues.get(cluster_queue)
        return (
            self._make
            and queue is not None
            and requires_room(queue, self._options, self._queues.flavors)
        )

    def size(self, group: str) -> tuple[int, int] | None:
        """Return minMember of a PodGroup, and how many of these are done; None: it is not there."""
        found = self._cluster.pod_group(group)
        return (found.min_member, found.done) if found is not None else None

    def domains(self, group: str) -> Mapping[str, DomainAssignment]:
        """Return the domains that a PodGroup gives to its pods, by pod set."""
        found = self._cluster.pod_group(group)
        return found.assigned if found is not None else {}

    def is_granted(self, group: str) -> bool:
        """Return whether the status of a PodGroup grants room."""
        return bool(self._cluster.stored_grants(group))

    def rooms(self, workload: str) -> Mapping[str, Mapping[str, int]] | None:
        """Return the room by node that was found for a workload at its admission."""
        return self._room.found_for(workload)

    def has_pods(self, workload: WorkloadInfo, *, ending: bool = True) -> bool:
        """Return whether a workload has pods that have not ended, or are not even ending."""
        pods = members(workload, queues=self._queues, cluster=self._cluster)
        return any((ending or not pod.terminating) and not pod.finished for pod in pods)


class JobGroups:
    """Writes PodGroups of jobs, and keeps what was written until the watch shows it."""

    def __init__(self, writer: JobWriter, *, clock: Clock, known: PodGroups) -> None:
        self._writer = writer
        self._clock = clock
        self._known = known
        self._written: TTLCache[str, tuple[int, int]] = TTLCache(
            _WRITTEN, _SECONDS, clock.monotonic
        )
        """The minMember of a PodGroup and the number of members that are done, by group."""
        self._moved: TTLCache[str, Mapping[str, DomainAssignment]] = TTLCache(
            _WRITTEN, _SECONDS, clock.monotonic
        )

    def state(self, workload: WorkloadInfo) -> PodGroupState:
        """Return what a decision needs to know of the PodGroup of a workload's pods."""
        group, held = pod_group_key(workload), workload.admission
        return PodGroupState(
            made_by_queue=held is not None and self._known.are_made_in(held.cluster_queue),
            size=self.size(group),
            granted=self._known.is_granted(group),
            domains=self._domains(group),
        )

    def _domains(self, group: str) -> Mapping[str, DomainAssignment]:
        """Return where its pods go: as last written, until the watch has shown that."""
        found, moved = self._known.domains(group), self._moved.get(group)
        if moved is None or found == moved:
            self._moved.pop(group, None)
            return found
        return moved

    def size(self, group: str) -> tuple[int, int] | None:
        """Return minMember and done members: as last written, until the watch has shown that."""
        found, written = self._known.size(group), self._written.get(group)
        if written is None or found == written:
            self._written.pop(group, None)
            return found
        return written

    async def make(self, action: MakePodGroup) -> None:
        """Write a PodGroup with the room found for it. Raises ApiError."""
        await self._writer.make_pod_group(
            action.namespace,
            action.name,
            min_member=action.min_member,
            owners=action.owners,
            done=action.done,
            grant=self._grant(action),
            domains=action.domains,
        )
        group = f"{action.namespace}/{action.name}"
        self._written[group] = action.min_member, action.done
        if action.domains:
            self._moved[group] = action.domains

    def _grant(self, action: MakePodGroup) -> Grant | None:
        found = self._known.rooms(action.room_of) if action.room_of else None
        if not found:
            return None
        rooms = {node: dict(amounts) for node, amounts in found.items()}
        each = action.min_member * GRANTED_SECONDS_EACH
        seconds = min(GRANTED_SECONDS + each, LONGEST_SECONDS / 2)
        return Grant(rooms, self._clock.wall() + seconds)

    async def drop_grant(self, action: DropGrant) -> None:
        """Remove the granted room of a PodGroup, which may be gone. Raises ApiError."""
        with suppress(NotFoundError):
            await self._writer.drop_grant(action.namespace, action.name)
