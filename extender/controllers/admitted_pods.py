"""Serves pods of admitted workloads: grants of room, gates of topologies, and other hosts.

`LostHosts.run` finds workloads whose hosts are gone. What becomes of them is decided between two
admission cycles, in `replace`, on the same nodes: no cycle gives away what was chosen here, nor the
other way around.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

import structlog
from cachetools import TTLCache

from extender.api.reasons import HostReason, JobReason
from extender.api.wellknown import ENDS, POD_GROUP_LABEL, WorkloadCondition
from extender.controllers.timing import LOOK_AGAIN
from extender.controllers.workload import Workloads, event
from extender.jobs.workload import made_for, pod_group_key
from extender.kube.errors import ApiError, NotFoundError
from extender.kube.pods import PodRef, PodWriter
from extender.kube.queues import JobWriter
from extender.kube.recorder import Event, ObjectRef
from extender.queueing.cycle import ROOM_PERIOD
from extender.queueing.lost_hosts import (
    HELD,
    HostRules,
    HostStep,
    LostAt,
    concerns,
    hosts_gone,
    is_fixed,
    lost_at,
    lost_of,
    stands,
    with_others,
    without_others,
)
from extender.room import pods
from extender.room.domains import are_on
from extender.room.nodes import NodeRoom
from extender.room.pods import NOT_BACKED, OTHER_GROUP, backing_of, members, why_over
from extender.runtime.clock import Clock, Pacer
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import Domain, PodGroupInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue import events
from extender.state.queue.records import Assignment, WorkloadInfo
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.steps import at_once

_log = structlog.get_logger(__name__)


class GrantKeeper:
    """Checks one PodGroup at a time, until the time of its grant is over.

    A process that starts keeps the room of one that has neither a pod on a node nor ended: what is
    stored is withdrawn where no pods come, or where they have lost their quota before that time.
    The caches must be complete: an unknown Workload backs no grant.
    """

    def __init__(
        self,
        cluster: ClusterView,
        queues: QueueView,
        writer: JobWriter,
        *,
        clock: Clock,
        record: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._cluster, self._queues = cluster, queues
        self._writer = writer
        self._clock = clock
        self._record = record

    async def reconcile(self, group: str) -> float | None:
        """Withdraw ended grants; return the seconds until the next one ends. Raises ApiError."""
        now, pauses = self._clock.wall(), []
        kept, workload = group in self._cluster.grants, self._queues.workloads.get(group)
        # Where pods have ended with their Workload, the phase says so now or soon.
        ends = workload is not None and workload.finished and self._cluster.finished(group)
        for pod_group in self._cluster.stored_grants(group):
            reason = why_over(pod_group, cluster=self._cluster, queues=self._queues, now=now)
            comes_back = reason == NOT_BACKED and pod_group.status.phase not in ENDS and not ends
            if kept and reason is None and pod_group.grant is not None:
                pauses.append(pod_group.grant.until - now)
            elif reason is not None and (kept or comes_back):
                await self._withdraw(pod_group, reason)
        return min(pauses, default=None)

    async def _withdraw(self, pod_group: PodGroupInfo, reason: str) -> None:
        try:
            await self._writer.drop_grant(
                pod_group.namespace, pod_group.name, api_group=pod_group.api_group
            )
        except NotFoundError:
            return
        _log.info("granted room withdrawn", group=pod_group.key, reason=reason)
        backing = backing_of(pod_group, self._queues) if reason == OTHER_GROUP else None
        job = backing.owner if backing is not None else None
        if job is not None:
            note = (
                f"Its pods have another PodGroup than {pod_group.name}, which the queue made: no "
                "room is kept for them. Let its operator make no PodGroup, or name that PodGroup "
                f"in the label {POD_GROUP_LABEL} of the pod templates"
            )
            about = ObjectRef(job.api_version, job.kind, pod_group.namespace, job.name, job.uid)
            reason = JobReason.OTHER_POD_GROUP
            self._record(Event(about, reason, note, reason, warning=True, occasion=note))

    def granted(self, groups: Iterable[str]) -> Iterable[str]:
        """Return those of the groups with a grant whose time is not over.

        The groups that the queue made for the pods of these ones count too.
        """
        known = dict.fromkeys(groups)
        pods = chain.from_iterable(islice(self._cluster.members(group), 1) for group in known)
        made = [made_for(pod.workload) for pod in pods if pod.workload]
        stored, now = self._cluster.stored_grants, self._clock.wall()
        return [each for each in dict.fromkeys((*known, *made)) if stored(each, after=now)]


class TopologyGates:
    """Looks at one workload at a time."""

    def __init__(
        self, queues: QueueView, cluster: ClusterView, writer: PodWriter, *, clock: Clock
    ) -> None:
        self._queues, self._cluster, self._writer = queues, cluster, writer
        self._given: TTLCache[str, Domain] = TTLCache(100_000, 60.0, clock.monotonic)
        """The domains that were written, by UID of the pod, until the watch has shown them."""

    async def reconcile(self, key: str) -> None:
        """Let the gated pods of a workload go to their domains. Raises ApiError."""
        workload = self._queues.workloads.get(key)
        if workload is None:
            return
        for each in pods.due(workload, cluster=self._cluster, given=self._given):
            self._given[each.pod.uid] = each.domain
            pod = PodRef(each.pod.namespace, each.pod.name, each.pod.uid)
            try:
                await self._writer.open(pod, each.selector)
            except BaseException:
                self._given.pop(each.pod.uid, None)
                raise
            _log.debug("pod goes to its domain", pod=each.pod.key, workload=key)


class LostHosts:
    """Looks at hosts of all admitted workloads.

    One that lacks some is tried again at the next look if something about the nodes has changed,
    and otherwise after `ROOM_PERIOD`.
    """

    def __init__(  # noqa: PLR0913 - all that its decisions and writes need
        self,
        queues: Queues,
        cluster: ClusterView,
        *,
        workloads: Workloads,
        room: NodeRoom,
        record: Callable[[Event], None],
        clock: Clock,
        rules: HostRules,
    ) -> None:
        self._queues, self._view, self._cluster = queues, queues.view(), cluster
        self._workloads, self._room = workloads, room
        self._record, self._clock, self._rules = record, clock, rules
        self._pacer = Pacer(clock)
        self.wake: Callable[[], None] = lambda: None
        """Has `replace` called soon."""
        self._known: LostAt = {}
        self._version = -1
        self._waiting: dict[str, tuple[float, int]] = {}
        """The time of the next try for workloads that lack hosts, and the version of room then."""
        self._due: set[str] = set()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                await self._pacer.go_through(self.look())
            except Exception as error:  # noqa: BLE001 - the next look is a new one
                FAULTS.report("lost-hosts", error)
            if self._due:
                self.wake()
            await asyncio.sleep(LOOK_AGAIN)

    def look(self) -> Iterator[None]:
        """Find the workloads that lack hosts, one at a step."""
        now = self._clock.wall()
        self._read_hosts()
        yield
        for key in [*self._view.holders()]:
            self._look_at(key, now)
            yield
        for key in [*self._waiting]:
            if self._view.admission(key) is None:
                del self._waiting[key]

    def _read_hosts(self) -> None:
        """Read which hosts there are, if any node has changed."""
        if self._version != self._cluster.nodes_version:
            self._version = self._cluster.nodes_version
            self._known = lost_at(self._cluster.nodes.values())

    def _look_at(self, key: str, now: float) -> None:
        workload = self._view.workloads.get(key)
        if workload is None or self._view.is_assumed(key) or not concerns(workload):
            return
        lost = lost_of(workload, self._known, now)
        lacks = workload.holds(WorkloadCondition.HOSTS_LOST)
        if not lost and not lacks:
            self._waiting.pop(key, None)
            return
        again, room = self._waiting.get(key, (now, -1))
        news = lacks and room != self._cluster.capacity_version
        if not lost or news or now >= again:
            self._due.add(key)

    async def replace(self, tasks: asyncio.TaskGroup) -> None:
        """Decide about the workloads that were found, and begin to write that."""
        due, self._due = self._due, set()
        if not due:
            return
        self._room.begin()
        await self._pacer.go_through(self._room.prepare())
        for key in sorted(due):
            try:
                self._room.look_again()
                self._replace(key, tasks)
            except Exception as error:  # noqa: BLE001 - the others are still looked at
                FAULTS.report("lost-hosts", error, key=key)
                self._wait(key, ROOM_PERIOD)
            if self._pacer.is_due:
                await self._pacer.rest()

    def _replace(self, key: str, tasks: asyncio.TaskGroup) -> None:
        workload, now = self._view.workloads.get(key), self._clock.wall()
        if workload is None or not concerns(workload) or self._view.is_assumed(key):
            return
        self._read_hosts()
        lost = lost_of(workload, self._known, now)
        step = self._step(workload, lost, now)
        pause = ROOM_PERIOD if step.again is None else max(LOOK_AGAIN, min(ROOM_PERIOD, step.again))
        self._wait(key, pause)
        if step.after != workload:
            given = step.after.admission
            if given is not None and given != workload.admission:
                self._queues.apply(events.Assumed(key, given))
            tasks.create_task(self._write(workload, step))

    def _wait(self, key: str, seconds: float) -> None:
        self._waiting[key] = self._clock.wall() + seconds, self._cluster.capacity_version

    def _step(self, workload: WorkloadInfo, lost: frozenset[str], now: float) -> HostStep:
        """Return what becomes of a workload; asked in one go, for a slow answer may be too old."""
        held = workload.admission
        assert held is not None
        concerned = [e for e in held.assignments if e.topology and are_on(e.topology, lost)]
        if any(is_fixed(workload, each, self._cluster) for each in concerned):
            found: Sequence[Assignment] | str = HELD
        else:
            found = at_once(self._room.replacing(workload, held.assignments, lost))
        if not isinstance(found, str):
            return with_others(workload, found, lost)
        there = members(workload, queues=self._view, cluster=self._cluster)
        return without_others(
            workload,
            f"{hosts_gone(lost)}, and {found}",
            begun=any(stands(pod, self._cluster) for pod in there),
            pod_group=self._cluster.pod_group(pod_group_key(workload)),
            now=now,
            rules=self._rules,
        )

    async def _write(self, before: WorkloadInfo, step: HostStep) -> None:
        given = step.after.admission
        try:
            await self._workloads.write_status(before, step.after)
        except ApiError as error:
            _log.info("hosts of a workload are not written", workload=before.key, error=str(error))
        except Exception as error:  # noqa: BLE001 - it harms this workload alone
            FAULTS.report("lost-hosts", error, key=before.key)
        else:
            if step.reason:
                warning = step.reason != HostReason.REPLACED
                self._record(event(before, step.reason, step.message, warning=warning))
            return
        self._wait(before.key, LOOK_AGAIN)
        if given is not None:
            self._queues.apply(events.Forgotten(before.key, given))
