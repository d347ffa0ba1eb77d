"""Preempts for whole gangs: chooses victims, keeps their room, and says so in the status.

The reconciler evicts. The preemption stored in a PodGroup's status counts, whichever process wrote
it: so this process after a restart, or another extender whose kube-scheduler leads by now, goes on
with it. A preemption that this process writes counts from the decision on.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import structlog
from cachetools import LRUCache

from extender.api.reasons import PreemptionReason, Reason
from extender.api.wellknown import GROUP_NATIVE, ConditionType
from extender.gang import preempt
from extender.gang.filter import BEHIND, DISAGREE
from extender.gang.fit import finds_no_node
from extender.gang.preempt import Ended, Seen, overtaken
from extender.gang.verdicts import GangOptions
from extender.gang.victims import choosing
from extender.kube.errors import ApiError
from extender.kube.pod_groups import NotStoredError, PreemptorWriter, TooManyVictimsError
from extender.permit.plans import Plans
from extender.permit.timing import (
    EVICTED_IN_VAIN_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    NO_VICTIMS_SECONDS,
    PARALLEL,
    REMEMBERED,
    REST,
    SLICE_PODS,
    TAKEN_SECONDS,
    TRIES,
    UNSURE_SECONDS,
    WRITE_AGAIN_SECONDS,
)
from extender.runtime.clock import in_turns
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import (
    ConditionInfo,
    PodInfo,
    PreemptedRoom,
)
from extender.state.cluster.store import Cluster
from extender.steps import FairShare, Steps
from extender.telemetry.metrics import Metrics

_BEHIND_REASONS: Final = frozenset(
    (Reason.CACHE_BEHIND, Reason.CACHE_STALE, Reason.SCHEDULER_DISAGREES)
)
_BEHIND_TEXTS: Final = (BEHIND, DISAGREE)
_log = structlog.get_logger(__name__)

_DONE: Final = object()
_IN_VAIN: Final = {
    PreemptionReason.VICTIMS_STAY: EVICTED_IN_VAIN_SECONDS,
    PreemptionReason.ROOM_LOST: EVICTED_IN_VAIN_SECONDS,
    PreemptionReason.ROOM_TAKEN: TAKEN_SECONDS,
    PreemptionReason.TOO_MANY: EVICTED_IN_VAIN_SECONDS,
    PreemptionReason.NOT_STORED: EVICTED_IN_VAIN_SECONDS,
    PreemptionReason.OVERTAKEN: NO_VICTIMS_SECONDS,
}


@dataclass(slots=True)
class _Course:
    """One preemption that is under way, or whose end is being written."""

    uid: str
    """The UID of the PodGroup."""
    nomination: PreemptedRoom
    stored: bool
    """True once the watch has shown it."""
    seen: Seen = field(default_factory=Seen)
    end: Ended | None = None
    """The reason why it is over, while its status is to be taken back."""
    offered: float | None = None
    """The time when its room was last announced, by the monotonic clock."""


@dataclass(slots=True)
class _Pause:
    """The pause during which a group is left alone, by the monotonic clock."""

    until: float
    seconds: float
    evicted: int = 0
    """The number of its preemptions that evicted in vain."""


class Preempting:
    """Begins and ends the preemptions of groups that wait for room."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        writer: PreemptorWriter,
        *,
        metrics: Metrics,
        is_asked: Callable[[], bool],
        is_behind: Callable[[], bool],
    ) -> None:
        """Take `is_asked`, which returns whether there is a kube-scheduler that asks this process.

        `is_behind` returns whether our watch is known to be behind kube-scheduler's.
        """
        self._cluster = cluster
        self._view = cluster.view()
        self._plans = plans
        self._options: GangOptions = plans.verdicts.options
        self._clock = plans.clock
        self._writer = writer
        self._metrics = metrics
        self._is_asked = is_asked
        self._is_behind = is_behind
        self._courses: dict[str, _Course] = {}
        self._pauses: LRUCache[tuple[str, str], _Pause] = LRUCache(REMEMBERED)
        """The pauses by group and UID of its PodGroup."""
        self._lacking: LRUCache[str, float] = LRUCache(REMEMBERED)
        """The time since which each group lacks room, by the monotonic clock."""
        self._share = FairShare(SLICE_PODS)
        self._queue: WorkQueue[str] = WorkQueue()
        """Groups whose status is to be written."""
        self._changed = asyncio.Event()
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Follow the stored preemptions, and look at the queue soon."""
        for group in change.statuses:
            pod_group = self._view.pod_group(group)
            if group in self._courses or (pod_group is not None and pod_group.nomination):
                self._follow(group)
        if change.groups or change.unschedulable:
            self._changed.set()
        for group in change.groups & self._lacking.keys():
            pod_group = self._view.pod_group(group)
            if not pod_group or self._view.tally(group).assigned >= self._view.quorum(pod_group):
                self._lacking.pop(group)

    @property
    def under_way(self) -> int:
        """Return the number of groups that wait for victims to go, or for their room."""
        return sum(course.end is None for course in self._courses.values())

    def recover(self) -> Iterator[None]:
        """Go on with the stored preemptions, once the whole cluster has been seen."""
        for group in [*self._view.pod_groups]:
            self._follow(group)
            yield

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_on())
            tasks.create_task(self._write_on())

    # --- what is stored ----------------------------------------------------------------------

    def _follow(self, group: str) -> None:
        """Compare a preemption with the status of its PodGroup, and adopt what is stored there."""
        pod_group, course = self._view.pod_group(group), self._courses.get(group)
        if course is not None and (pod_group is None or pod_group.uid != course.uid):
            self._drop(group)
            course = None
        if pod_group is None:
            return
        stored = pod_group.nomination
        if course is not None and stored == course.nomination:
            course.stored = True
            return
        if course is not None and course.stored:
            # Another process has ended it, or the watch shows the end that this one wrote.
            self._drop(group)
            course = None
        if course is None and stored is not None:
            self._courses[group] = _Course(pod_group.uid, stored, stored=True)
            self._cluster.apply(ev.Nominated(group, stored))

    def _drop(self, group: str) -> None:
        del self._courses[group]
        self._cluster.apply(ev.NominationsEnded((group,)))

    # --- looks -------------------------------------------------------------------------------

    async def _look_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            in_vain = 0.0
            try:
                in_vain = await in_turns(self.looking(), self._clock)
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("preempting", error)
            await asyncio.sleep(max(MOMENT_SECONDS, in_vain * REST))

    def looking(self) -> Steps[float]:
        """End preemptions that are over, and begin those due; return the seconds spent in vain.

        Too many such seconds end the look for their namespace: its groups have a pause. The time
        that others took between two steps does not count: on a busy machine that is most of it.
        """
        for group in [*self._courses]:
            self._end_if_over(group)
            yield
        if not self._options.preempts or not self._is_asked() or self._is_behind():
            return 0.0
        lowest, in_vain = self._view.lowest_on_nodes, defaultdict[str, float](float)
        for group in (yield from self._share.choosing(self._view.queue)):
            if lowest is None or self._view.tally(group).priority <= lowest:
                break  # the groups behind it have no higher priority
            namespace = group.partition("/")[0]
            if in_vain[namespace] <= MOMENT_SECONDS:
                yield
                in_vain[namespace] += yield from self._serving(group)
            if self._options.strict_order and group not in self._courses:
                break
        return sum(in_vain.values())

    def _serving(self, group: str) -> Steps[float]:
        """Begin a preemption for a group if it is due; return the seconds spent in vain."""
        if not self._is_due(group):
            return 0.0
        steps, spent, done = self._look_at(group), 0.0, False
        while not done:
            began = self._clock.monotonic()
            done = next(steps, _DONE) is _DONE
            spent += self._clock.monotonic() - began
            if not done:
                yield
        return 0.0 if group in self._courses else spent

    def _end_if_over(self, group: str) -> None:
        course, pod_group = self._courses.get(group), self._view.pod_group(group)
        if course is None or pod_group is None or course.end is not None:
            return
        over = preempt.ended(
            pod_group,
            course.nomination,
            seen=course.seen,
            view=self._view,
            now=self._clock.wall(),
            standby=0.0 if self._is_ours(group) else UNSURE_SECONDS,
            enabled=self._options.preempts,
        )
        if over is None and self._is_ours(group):
            why = overtaken(pod_group, course.nomination, view=self._view)
            over = Ended(PreemptionReason.OVERTAKEN, why) if why else None
        if over is not None:
            self._end(group, course, over)
        elif course.seen.gone is not None and group in self._view.queue:
            self._offer(group, course)

    def _offer(self, group: str, course: _Course) -> None:
        """Announce once in a while that the victims have gone and their room is there.

        That wakes a member, and has the group planned again. kube-scheduler may have seen victims
        go before this process did, and have tried the members then: it tries them again when
        something else happens, and on quiet nodes nothing does.
        """
        now = self._clock.monotonic()
        if course.offered is None:
            course.offered = now  # most start by themselves
        elif now - course.offered >= LATE_SECONDS:
            course.offered = now
            self._cluster.apply(ev.Nominated(group, course.nomination))

    def _is_ours(self, group: str) -> bool:
        """Return whether there is a kube-scheduler that asks this process about a group's pods.

        A scheduler of another name may ask another extender, which then runs the preemption.
        """
        asks = (pod.scheduler in self._plans.schedulers for pod in self._view.members(group))
        return self._is_asked() and any(asks)

    def _end(self, group: str, course: _Course, over: Ended) -> None:
        if over.reason in _IN_VAIN:
            over = self._paused(group, course, over)
        else:
            self._pauses.pop((group, course.uid), None)
        course.end = over
        self._metrics.preemptions.labels(over.reason).inc()
        _log.info("preemption ended", group=group, reason=over.reason, why=over.message)
        self._cluster.apply(ev.NominationsEnded((group,)))
        self._queue.add(group)

    def _paused(self, group: str, course: _Course, over: Ended) -> Ended:
        """Leave a group alone after a preemption in vain; return its end, perhaps GIVEN_UP."""
        if over.reason is PreemptionReason.ROOM_LOST:
            taken = preempt.taken(course.nomination, self._plans.schedulers, view=self._view)
            over = taken or over
        pause = self._pause(group, course.uid, _IN_VAIN[over.reason])
        pause.evicted += preempt.has_cost(course.nomination, view=self._view)
        if pause.evicted < TRIES:
            return over
        self._pauses.pop((group, course.uid))
        text = f"it has evicted {TRIES} times in vain, and does not until its spec changes"
        return Ended(PreemptionReason.GIVEN_UP, f"{text}; the last time {over.message}")

    def _is_due(self, group: str) -> bool:
        """Return whether to look now for pods that could make room for a group."""
        view, pod_group = self._view, self._view.pod_group(group)
        if pod_group is None or group in self._courses or self._plans.planner.is_busy(group):
            return False
        pause = self._pauses.get((group, pod_group.uid))
        if pause is not None and self._clock.monotonic() < pause.until:
            return False
        said = pod_group.status.condition(ConditionType.PREEMPTING)
        given_up = said is not None and said.reason == PreemptionReason.GIVEN_UP
        if given_up and said is not None and said.generation == pod_group.generation:
            return False
        # The preemption is stored in the status of the PodGroup; a native one has no field for it.
        if pod_group.api_group == GROUP_NATIVE:
            return False
        # For the last pod that a gang lacks kube-scheduler preempts itself.
        if view.quorum(pod_group) - view.tally(group).committed <= 1:
            return False
        return self._is_refused(group) and self.may_preempt(group)

    def may_preempt(self, group: str | None) -> bool:
        """Return whether a group that lacks room has given an autoscaler time to add nodes."""
        if group is None or not self._options.preempts_after:
            return True
        now = self._clock.monotonic()
        return now - self._lacking.setdefault(group, now) >= self._options.preempts_after

    def _look_at(self, group: str) -> Steps[None]:
        """Begin a preemption for a group if one helps it."""
        pod_group = self._view.pod_group(group)
        if pod_group is None:
            return
        found = yield from choosing(
            pod_group, view=self._view, now=self._clock.wall(), options=self._options
        )
        now = self._view.pod_group(group)
        same = now is not None and now.uid == pod_group.uid and group in self._view.queue
        if found is None or not same:
            first, longest = NO_VICTIMS_SECONDS
            self._pause(group, pod_group.uid, (first, first if self.under_way else longest))
            self._metrics.preemptions.labels(PreemptionReason.NO_VICTIMS).inc()
            return
        chosen = preempt.nomination(found, view=self._view, now=self._clock.wall())
        self._cluster.apply(ev.Nominated(group, chosen))
        self._courses[group] = _Course(pod_group.uid, chosen, stored=False)
        self._metrics.preemptions.labels(PreemptionReason.EVICTING).inc()
        _log.info("preempting", group=group, victims=len(chosen.victims), nodes=len(chosen.rooms))
        self._queue.add(group)

    def _pause(self, group: str, uid: str, seconds: tuple[float, float]) -> _Pause:
        """Leave a group alone, each time in a row for twice as long."""
        first, longest = seconds
        before = self._pauses.get((group, uid))
        pause = min(longest, max(first, before.seconds * 2 if before is not None else 0.0))
        evicted = before.evicted if before is not None else 0
        found = self._pauses[group, uid] = _Pause(self._clock.monotonic() + pause, pause, evicted)
        return found

    # --- the status --------------------------------------------------------------------------

    async def _write_on(self) -> None:
        pauses: dict[str, float] = {}
        while True:
            group = await self._queue.get()
            try:
                await self._write(group)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's alone
                if isinstance(error, ApiError):
                    _log.warning("preemption not written", group=group, error=str(error))
                else:
                    FAULTS.report("preempting", error, key=group)
                first, longest = WRITE_AGAIN_SECONDS
                pauses[group] = min(longest, pauses.get(group, first / 2) * 2)
                self._queue.add_after(group, pauses[group])
            else:
                pauses.pop(group, None)

    async def _write(self, group: str) -> None:
        course, pod_group = self._courses.get(group), self._view.pod_group(group)
        if course is None or pod_group is None or pod_group.uid != course.uid:
            return
        end, chosen = course.end, course.nomination
        condition = ConditionInfo(
            ConditionType.PREEMPTING,
            "False" if end else "True",
            end.reason if end else PreemptionReason.EVICTING,
            end.message if end else preempt.sentence(chosen),
            self._clock.wall() if end else chosen.since,
            pod_group.generation,
        )
        try:
            await self._writer.apply(pod_group, None if end else chosen, condition)
        except (TooManyVictimsError, NotStoredError) as error:
            too_many = isinstance(error, TooManyVictimsError)
            reason = PreemptionReason.TOO_MANY if too_many else PreemptionReason.NOT_STORED
            self._end(group, course, Ended(reason, str(error)))
            return
        if self._courses.get(group) is not course:
            return
        if end is not course.end:
            self._queue.add(group)  # it ended meanwhile
        elif end is not None and not course.stored:
            # The watch may show it late, or not at all if the preemption was never stored.
            course.stored = True
            self._follow(group)

    # --- whether kube-scheduler has tried a group ------------------------------------------------

    def _is_refused(self, group: str) -> bool:
        """Return whether kube-scheduler has tried a member in vain, or our own plan has failed.

        Only such a group may preempt. Until kube-scheduler has tried a member, it may know of a
        reason to reject the pod that a plan cannot see. A group is left alone if kube-scheduler
        finds no node for a member for a reason that no plan sees, if its scheduler does not ask us,
        or if kube-scheduler knows more of it than our watch has shown: its room may be there
        already.
        """
        tried = self._plans.verdicts.no_room(group) is not None
        for pod in islice(self._view.members(group), PARALLEL):
            if pod.node is not None or self._view.reservation(pod.uid) is not None:
                continue
            asks = pod.scheduler in self._plans.schedulers or pod.is_gated_by_us
            if not asks or finds_no_node(pod, group) or self._has_news(pod):
                return False
            tried = tried or pod.unschedulable is not None or pod.uid in self._view.refused
        return tried

    def _has_news(self, pod: PodInfo) -> bool:
        """Return whether kube-scheduler's last try of a pod saw something that we had not seen."""
        refusal, said = self._view.refused.get(pod.uid), pod.unschedulable or ""
        if refusal is None:
            return pod.uid in self._view.seen or any(text in said for text in _BEHIND_TEXTS)
        return pod.uid in self._view.seen or refusal.reason in _BEHIND_REASONS
