"""Makes room for gangs: evicts the victims that the extender has chosen, and says so on both sides.

What the status of a PodGroup asks for is checked first. Pods that are leaving are not evicted once
more, so that another leader, or this process after a restart, goes on in the same place.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from extender.api.reasons import EventReason, PreemptionReason
from extender.api.wellknown import ConditionType
from extender.controllers.timing import CONCURRENT_WRITES, LOOK_AGAIN
from extender.gang import preempt
from extender.gang.budgets import budget_of
from extender.gang.preempt import Checked, check, has_started_since
from extender.gang.restart import WholeJob, parted
from extender.gang.verdicts import GangOptions
from extender.kube.errors import ApiError, BudgetError
from extender.kube.pod_groups import PodGroupWriter
from extender.kube.pod_groups import about as about_group
from extender.kube.pods import PodRef
from extender.kube.recorder import Event, ObjectRef
from extender.runtime.clock import Clock
from extender.state.cluster import events
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import ConditionInfo, PodGroupInfo, PodInfo, PreemptedRoom
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

_log = structlog.get_logger(__name__)
MOST_NOMINATIONS: Final = 3
"""The most nominations of one pod: kube-scheduler withdraws each when it tries the pod in vain."""
_IN_VAIN: Final = frozenset((
    *(PreemptionReason.VICTIMS_STAY, PreemptionReason.ROOM_LOST),
    *(PreemptionReason.ROOM_TAKEN, PreemptionReason.GIVEN_UP),
))  # fmt: skip


class QueuedJobs(Protocol):
    """The queue, as far as its jobs are victims."""

    def admitted_of(self, pod: PodInfo) -> str | None:
        """Return the admitted Workload that a pod is of, as `namespace/name`."""

    def pods_of(self, workload: str) -> Iterable[PodInfo]:
        """Return the pods of a Workload."""

    async def preempt(self, workload: str, message: str) -> bool:
        """Evict a Workload; return whether it leaves."""


@dataclass(slots=True)
class _Done:
    """The progress of one preemption in this process."""

    nomination: PreemptedRoom
    asked: set[str] = field(default_factory=set)
    """UIDs of pods whose eviction was answered; the watch may show it later."""
    nominated: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The number of nominations of a pod, and the time of the last one, by UID."""
    over: float | None = None
    """The time since which it is over."""
    why_not: str = ""
    """The reason why no victim is evicted, as it was logged last."""
    to_say: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Victims that are gangs and whose condition is still to be written: UID and message by group.
    """


class PreemptionController:
    """Reconciles one group at a time: as preemptor, and as one that was preempted."""

    def __init__(  # noqa: PLR0913 - all that its decisions and writes need
        self,
        view: ClusterView,
        writer: PodGroupWriter,
        *,
        record: Callable[[Event], None],
        count: Callable[[str], None],
        clock: Clock,
        options: GangOptions,
        workloads: QueuedJobs | None,
    ) -> None:
        """`count` is given how each victim was made to leave: evicted, deleted, job, workload."""
        self.stale: Callable[[], str | None] = lambda: None
        """Returns a kind whose watch is stale."""
        self._view = view
        self._writer = writer
        self._record, self._count = record, count
        self._clock = clock
        self._options = options
        self._workloads = workloads
        self._done: dict[str, _Done] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)

    def concerns(self, groups: Iterable[str]) -> Iterable[str]:
        """Return the groups of these that have to do with a preemption."""
        return [group for group in groups if group in self._done or self._is_of_interest(group)]

    def _is_of_interest(self, group: str) -> bool:
        pod_group = self._view.pod_group(group)
        if pod_group is None:
            return False
        said = pod_group.status.condition(ConditionType.PREEMPTED)
        return pod_group.nomination is not None or (said is not None and said.status == "True")

    def begin(self) -> Iterable[str]:
        """Return the groups to look at first, as the new leader."""
        self._done.clear()
        found = []
        for group in self._view.pod_groups:
            pod_group = self._view.pod_group(group)
            said = pod_group.status.condition(ConditionType.PREEMPTING) if pod_group else None
            if said is not None or self._is_of_interest(group):
                found.append(group)
        return found

    async def reconcile(self, group: str) -> float | None:
        """Bring one group on; return in how many seconds to look again. Raises ApiError."""
        pod_group = self._view.pod_group(group)
        if pod_group is None:
            return await self._withdraw(group, None)
        await self._say_started(pod_group)
        if pod_group.nomination is None:
            return await self._withdraw(group, pod_group)
        done = self._done.get(group)
        if done is None or done.nomination != pod_group.nomination:
            done = self._done[group] = _Done(pod_group.nomination)
            self._find_unsaid(pod_group, done)
        checked = check(
            pod_group,
            done.nomination,
            view=self._view,
            enabled=self._options.preempts,
            has_begun=bool(done.asked),
        )
        if stale := self.stale():
            checked = Checked(why_not=f"nothing has been heard of {stale} for too long")
        if checked.why_not != done.why_not:
            done.why_not = checked.why_not
            _log.info("victims are not evicted", group=group, why=checked.why_not or "they are now")
        if not checked.why_not:
            evict = [pod for pod in checked.evict if pod.uid not in done.asked]
            try:
                await self._make_room(pod_group, evict, done)
            finally:
                await self._say_of_gangs(done)
            await self._nominate(group, done)
        return LOOK_AGAIN

    # --- victims -----------------------------------------------------------------------------

    async def _make_room(self, pod_group: PodGroupInfo, evict: list[PodInfo], done: _Done) -> None:
        if not evict:
            return
        singles, workloads = self._parted(evict)
        await self._lift_budgets(singles, done)
        singles, jobs = parted(singles, self._view)
        of_jobs = [pod for job in jobs for pod in job.pods]
        if self._options.strict_budgets and not done.asked:
            # A budget may allow less by now, and a part of the victims would go for nothing.
            await self._all(
                [self._writer.evict(_ref(pod), dry_run=True) for pod in (*singles, *of_jobs)]
            )
        note = preempt.sentence(done.nomination)
        self._say(about_group(pod_group), PreemptionReason.PREEMPTING, note, of=done)
        works = [
            self._stop(each, pods, by=pod_group, done=done) for each, pods in workloads.items()
        ]
        works += [self._suspend(job, pod_group, done) for job in jobs]
        works += [self._evict(pod, pod_group, done) for pod in singles]
        try:
            await self._all(works)
        finally:
            self._say_preempted([pod for pod in evict if pod.uid in done.asked], done, pod_group)

    async def _lift_budgets(self, pods: Iterable[PodInfo], done: _Done) -> None:
        """Delete the disruption budgets that we made for gangs that go whole."""
        whole = _gangs_of(done.nomination)
        groups = [self._view.pod_group(key) for key in {pod.group for pod in pods if pod.group}]
        found = [budget_of(each, self._view) for each in groups if each and each.uid in whole]
        await self._all([self._writer.delete_budget(each) for each in found if each is not None])

    def _message(self, preemptor: PodGroupInfo, namespace: str) -> str:
        """Return what is said to victims of a namespace; a group of another one is not named."""
        own, priority = namespace == preemptor.namespace, self._view.tally(preemptor.key).priority
        which = preemptor.name if own else f"{preemptor.uid} of another namespace"
        return f"Preempted by PodGroup {which}, which has the priority {priority}"

    def _parted(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], dict[str, list[PodInfo]]]:
        """Return pods that are evicted by themselves, and those of Workloads that are stopped.

        A Workload is stopped where all of its pods that have a node leave.
        """
        singles, workloads = list[PodInfo](), dict[str, list[PodInfo]]()
        for pod in pods:
            found = self._workloads.admitted_of(pod) if self._workloads is not None else None
            if found is None:
                singles.append(pod)
            else:
                workloads.setdefault(found, []).append(pod)
        for key, leaving in [*workloads.items()]:
            assert self._workloads is not None
            there = self._workloads.pods_of(key)
            stay = {pod.uid for pod in there if pod.node is not None and not pod.terminating}
            if not stay <= {pod.uid for pod in leaving}:
                singles += workloads.pop(key)
        return singles, workloads

    async def _stop(self, key: str, pods: list[PodInfo], *, by: PodGroupInfo, done: _Done) -> None:
        """Have a Workload evicted: its job is stopped, and its pods go."""
        assert self._workloads is not None
        message = self._message(by, key.partition("/")[0])
        if not await self._workloads.preempt(key, message):
            return  # it is looked at again
        self._count("workload")
        await self._mark(pods, message, done)

    async def _suspend(self, job: WholeJob, by: PodGroupInfo, done: _Done) -> None:
        """Suspend a Job, which is resumed when its pods have gone, or else evict these."""
        if not await self._writer.suspend(job.key, job.uid, job.jobs):
            for pod in job.pods:
                await self._evict(pod, by, done)
            return
        self._count("job")
        _log.info("job suspended", job=job.key, group=job.pods[0].group)
        await self._mark(job.pods, self._message(by, job.key.partition("/")[0]), done)

    async def _mark(self, pods: Iterable[PodInfo], message: str, done: _Done) -> None:
        """Say of pods that leave with their job that they are preempted."""
        done.asked.update(pod.uid for pod in pods)
        for pod in pods:
            await self._writer.mark(_ref(pod), message, at=self._clock.wall())

    async def _evict(self, pod: PodInfo, by: PodGroupInfo, done: _Done) -> None:
        """Evict a pod; where its budget forbids that, delete it unless budgets are strict."""
        how, now, message = "evicted", self._clock.wall(), self._message(by, pod.namespace)
        try:
            await self._writer.evict(_ref(pod))
            # An eviction writes a reason of its own, by which kube-scheduler knows no preemption.
            await self._writer.mark(_ref(pod), message, at=now)
        except BudgetError:
            if self._options.strict_budgets:
                raise
            await self._writer.mark(_ref(pod), message, at=now)
            await self._writer.delete(_ref(pod))
            how = "deleted"
        done.asked.add(pod.uid)
        self._count(how)
        _log.info("preempted", pod=pod.key, group=pod.group, how=how)

    async def _all(self, works: Iterable[Awaitable[None]]) -> None:
        """Do works side by side; an error of one stops no other, and is raised then."""
        failed: list[ApiError] = []

        async def one(work: Awaitable[None]) -> None:
            async with self._slots:
                try:
                    await work
                except ApiError as error:
                    failed.append(error)

        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(one(work))
        if failed:
            raise failed[0]

    # --- what is said ------------------------------------------------------------------------

    def _say_preempted(self, pods: Iterable[PodInfo], done: _Done, by: PodGroupInfo) -> None:
        """Write an Event about each victim, and note the gangs whose condition is to be written."""
        whole = _gangs_of(done.nomination)
        for pod in pods:
            pod_group = self._view.pod_group(pod.group) if pod.group is not None else None
            if pod_group is not None and pod_group.uid in whole:
                done.to_say[pod_group.key] = pod_group.uid, self._message(by, pod_group.namespace)
            else:
                about = ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
                message = self._message(by, pod.namespace)
                self._say(about, PreemptionReason.PREEMPTED, message, of=done)

    def _find_unsaid(self, pod_group: PodGroupInfo, done: _Done) -> None:
        """Note gangs that are leaving and do not say so: the leader before evicted their pods."""
        whole = _gangs_of(done.nomination)
        for pod in preempt.remaining(done.nomination, view=self._view):
            victim = self._view.pod_group(pod.group) if pod.group is not None else None
            if victim is None or victim.uid not in whole or not pod.terminating:
                continue
            said = victim.status.condition(ConditionType.PREEMPTED)
            if said is None or said.status != "True" or said.transition < done.nomination.since:
                done.to_say[victim.key] = victim.uid, self._message(pod_group, victim.namespace)

    async def _say_of_gangs(self, done: _Done) -> None:
        """Write an Event about each gang that has to go, and its condition, until it is written."""
        for group, (uid, message) in [*done.to_say.items()]:
            pod_group = self._view.pod_group(group)
            if pod_group is not None and pod_group.uid == uid:
                reason = PreemptionReason.PREEMPTED
                self._say(about_group(pod_group), reason, message, of=done)
                await self._write_preempted(pod_group, reason, message, status="True")
            del done.to_say[group]

    async def _say_started(self, pod_group: PodGroupInfo) -> None:
        """Take the condition back of a gang that was preempted, once it has started again."""
        said = pod_group.status.condition(ConditionType.PREEMPTED)
        if said is None or said.status != "True":
            return
        if not has_started_since(pod_group, said.transition, view=self._view):
            return
        reason, message = PreemptionReason.STARTED, EventReason.SCHEDULED
        await self._write_preempted(pod_group, reason, message, status="False")

    async def _write_preempted(
        self, pod_group: PodGroupInfo, reason: str, message: str, *, status: str
    ) -> None:
        said, now = (ConditionType.PREEMPTED, status, reason, message), self._clock.wall()
        condition = ConditionInfo(*said, now, pod_group.generation)
        await self._writer.apply_condition(pod_group, condition)

    def _say(self, about: ObjectRef, reason: str, note: str, *, of: _Done) -> None:
        """Record an Event about a preemption, one for each object."""
        occasion = f"since {of.nomination.since:.0f}"
        self._record(Event(about, reason, note, "Preempting", warning=False, occasion=occasion))

    # --- nominated nodes ---------------------------------------------------------------------

    async def _nominate(self, group: str, done: _Done) -> None:
        """Nominate the nodes of pods that wait, so that others see for what room is kept.

        This comes after the evictions: kube-scheduler leaves a nominated pod alone while such a
        victim of a lower priority is leaving the node.
        """
        now, nodes = self._clock.monotonic(), dict[str, str]()
        for node, room in done.nomination.rooms.items():
            nodes |= dict.fromkeys(room.pods, node)
        works = []
        for pod in self._view.members(group):
            wanted = nodes.get(pod.name)
            if wanted is None or pod.nominated == wanted or not _waits(pod):
                continue
            times, last = done.nominated.get(pod.uid, (0, now - LOOK_AGAIN))
            if times < MOST_NOMINATIONS and now - last >= LOOK_AGAIN:
                done.nominated[pod.uid] = times + 1, now
                works.append(self._writer.nominate(_ref(pod), wanted))
        await self._all(works)

    async def _withdraw(self, group: str, pod_group: PodGroupInfo | None) -> float | None:
        """Withdraw nominations of a preemption that is over, and say so where it was in vain.

        The pods that start on its room get their nodes first.
        """
        done = self._done.get(group)
        if done is not None:
            await self._say_of_gangs(done)
            now = self._clock.monotonic()
            if done.over is None:
                done.over = now
            if now - done.over < LOOK_AGAIN:
                return done.over + LOOK_AGAIN - now
        said = pod_group.status.condition(ConditionType.PREEMPTING) if pod_group else None
        if done is not None or said is not None:
            pods = [pod for pod in self._view.members(group) if pod.nominated and _waits(pod)]
            await self._all([self._writer.nominate(_ref(pod), None) for pod in pods])
        self._done.pop(group, None)
        if pod_group is not None and said is not None and said.reason in _IN_VAIN:
            occasion = f"until {said.transition:.0f}"
            what = about_group(pod_group), said.reason, said.message, "Preempting"
            self._record(Event(*what, warning=True, occasion=occasion))
        return None


def _gangs_of(nomination: PreemptedRoom) -> set[str]:
    """Return the UIDs of the gangs that go whole."""
    return {each.uid for each in nomination.victims if each.kind == "PodGroup"}


def _waits(pod: PodInfo) -> bool:
    return pod.node is None and not pod.terminating and not pod.gates


def _ref(pod: PodInfo) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)


class StoredNominations:
    """Keeps the room in this process's state that PodGroups say is kept for them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._known: dict[str, PreemptedRoom] = {}
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Follow the PodGroups that changed."""
        for group in change.statuses:
            self._follow(group)

    def again(self) -> None:
        """Follow all of them anew: their pods may not have been there, nor their priorities."""
        self._known.clear()
        for group in self._view.pod_groups:
            self._follow(group)

    def _follow(self, group: str) -> None:
        pod_group = self._view.pod_group(group)
        stored = pod_group.nomination if pod_group is not None else None
        if stored == self._known.get(group):
            return
        if stored is not None:
            self._known[group] = stored
            self._cluster.apply(events.Nominated(group, stored))
        else:
            del self._known[group]
            self._cluster.apply(events.NominationsEnded((group,)))


LONGEST_PAUSE: Final = 32 * LOOK_AGAIN
"""The longest pause before pods are tried again: the extender may still be away."""
_NO_ANSWER: Final = re.compile(r'preemption: (Post "|failed \S+ with extender at URL)')


class FailedCalls:
    """Has pods tried again whose preemption failed because no extender answered kube-scheduler.

    For such a pod kube-scheduler waits until another one goes, or for five minutes. A nominated
    node that is taken back counts as a pod that goes, for all pods of that priority or a lower one.
    """

    def __init__(self, cluster: Cluster, writer: PodGroupWriter) -> None:
        self._view = cluster.view()
        self._writer = writer
        self._failed: set[str] = set()
        self._changed = asyncio.Event()
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Note the pods that have just failed so."""
        failed = {uid for uid in change.unschedulable if self._has_failed(uid)}
        if failed:
            self._failed |= failed
            self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        pause = LOOK_AGAIN
        while True:
            await self._changed.wait()
            await asyncio.sleep(pause)
            self._failed = {uid for uid in self._failed if self._has_failed(uid)}
            if not self._failed:
                self._changed.clear()
                pause = LOOK_AGAIN
                continue
            pause = min(LONGEST_PAUSE, pause * 2)
            pod = max((self._view.pods[uid] for uid in self._failed), key=lambda pod: pod.priority)
            try:
                await self._try_again(pod)
            except ApiError as error:
                _log.warning("pods are not tried again", pod=pod.key, error=str(error))

    async def _try_again(self, pod: PodInfo) -> None:
        """Nominate a node for a moment."""
        _log.info("tried again: no extender answered", pod=pod.key, pods=len(self._failed))
        ref, node = _ref(pod), next(iter(self._view.nodes), None)
        if pod.nominated is None and node is not None:
            await self._writer.nominate(ref, node)
        await self._writer.nominate(ref, None)

    def _has_failed(self, uid: str) -> bool:
        pod = self._view.pods.get(uid)
        said = pod.unschedulable if pod is not None and pod.node is None else None
        return said is not None and _NO_ANSWER.search(said) is not None
