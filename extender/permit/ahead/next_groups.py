"""Starts the next groups in the queue before kube-scheduler asks for one of their members.

The first groups of the queue are looked at after a change: room came, a group became complete,
Bindings were made, kube-scheduler has judged a pod. A group is planned and bound together if each
of its members has an equal that kube-scheduler has judged. The look ends at the first group that
kube-scheduler is to try itself.

kube-scheduler goes through its own queue meanwhile, in nearly the same order, and takes back the
members that it reaches. So few groups begin at a time, and the last of them is written first.
"""

import asyncio
import math
from contextlib import suppress

from cachetools import TTLCache

from extender.gang import begin
from extender.gang.begin import Prospect
from extender.permit.ahead.begin import Begin
from extender.permit.plans import Plans
from extender.permit.timing import (
    BACK_OFF_SECONDS,
    MOMENT_SECONDS,
    MOST_GROUPS,
    PODS_AT_ONCE,
    REMEMBERED,
    REST,
    SLICE_SECONDS,
    TURNS_SETTLE_SECONDS,
)
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import advance
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.state.fair_share import FairShare
from extender.steps import Steps


class NextGroups:
    """Begins groups whose turn it is, as long as kube-scheduler is there."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        starter: Begin,
    ) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._verdicts = plans.verdicts
        self._starter = starter
        self._clock = plans.clock
        self._changed = asyncio.Event()
        self._share = FairShare(MOST_GROUPS)
        self._planned: dict[str, None] = {}
        """The groups that have room, but may have no member that has begun."""
        self._kept: dict[str, int] = {}
        """The quorums of the groups that got room in an earlier look and have not begun."""
        self._asked: dict[str, float] = {}
        """The time when a group that was asked for may be asked for again: until then it is left to
        that ask, or to kube-scheduler."""
        self._paused: TTLCache[str, float] = TTLCache(
            REMEMBERED, 2 * BACK_OFF_SECONDS, plans.clock.monotonic
        )
        """The last pause of each group that was asked for, in seconds."""
        self._least_priority = -math.inf
        """In a look: the priority below which groups are left to kube-scheduler."""
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Look at the queue soon, and at groups that were planned before their turn."""
        for group in change.groups:
            tally = self._view.tally(group)
            if tally.planned and not tally.assigned:
                self._planned[group] = None
            else:
                self._planned.pop(group, None)
        self._changed.set()

    def _ask(self, group: str) -> None:
        """Ask for a group to begin; if it still waits after a pause, it is asked for again.

        An ask may come to nothing: the group was just looked at, a member was taken back, or its
        Bindings are refused.
        """
        pause = min(BACK_OFF_SECONDS, self._paused.get(group, MOMENT_SECONDS) * 2)
        self._paused[group] = pause
        self._asked[group] = self._clock.monotonic() + pause
        self._starter.ask(group)

    def _end_pauses(self) -> None:
        """Make the groups whose pause is over ready to be asked for again."""
        now = self._clock.monotonic()
        for group in [group for group, until in self._asked.items() if now >= until]:
            del self._asked[group]
            if self._view.tally(group).planned:
                self._planned[group] = None

    async def _changed_or_due(self) -> None:
        """Return when something has changed, or a pause is over."""
        due = min(self._asked.values(), default=math.inf)
        seconds = None if due == math.inf else max(0.0, due - self._clock.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def look_soon(self) -> None:
        """Look at the queue soon: kube-scheduler has judged a pod."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._changed_or_due()
            self._changed.clear()
            try:
                in_vain = await self._look()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("next-groups", error)
                in_vain = 0.0
            await asyncio.sleep(max(TURNS_SETTLE_SECONDS, in_vain * REST))

    async def _look(self) -> float:
        """Begin the groups whose turn it is; return the seconds spent in vain."""
        steps, spent = self.looking(), 0.0
        while True:
            began = self._clock.monotonic()
            found = advance(steps, self._clock, seconds=SLICE_SECONDS)
            spent += self._clock.monotonic() - began
            if found is not None:
                return 0.0 if found.value else spent
            await asyncio.sleep(SLICE_SECONDS)

    def looking(self) -> Steps[int]:
        """Begin the groups whose turn it is; return their number."""
        ready: list[str] = []
        self._end_pauses()
        yield from self._find_planned(ready)
        yield from self._find_in_queue(ready)
        # kube-scheduler reaches the first groups first, so they are written last.
        for group in reversed(ready):
            pod_group = self._view.pod_group(group)
            if pod_group is not None:
                self._kept[group] = self._view.quorum(pod_group)
                self._ask(group)
            yield
        return len(ready)

    def _find_planned(self, ready: list[str]) -> Steps[None]:
        """Add to `ready` the groups that can begin and got room before their turn."""
        pods = 0
        for group in [*self._planned]:
            if not self._starter.is_open or (ready and pods > PODS_AT_ONCE):
                return
            if self._plans.planner.is_busy(group):
                continue  # it has only a part of its room yet
            pod_group, tally = self._view.pod_group(group), self._view.tally(group)
            is_able = pod_group is not None and tally.planned and not tally.assigned
            if is_able and group in self._asked:
                continue
            self._planned.pop(group, None)
            if pod_group is None or not is_able:
                continue
            yield
            if not self._is_outranked(group):
                prospect = yield from self._judging(pod_group)
                if prospect is Prospect.BEGINS:
                    ready.append(group)
                    pods += self._view.quorum(pod_group)

    def _find_in_queue(self, ready: list[str]) -> Steps[None]:
        """Plan the first groups of the queue, and add to `ready` those that can begin.

        A group that has room and does not begin is left to kube-scheduler, and loses its room if
        that takes long: few groups may wait that way.
        """
        self._forget_begun()
        self._least_priority = -math.inf
        pods = 0
        for group in (yield from self._share.choosing(self._view.queue)):
            yield
            pod_group = self._view.pod_group(group)
            if pod_group is None or group not in self._view.queue:
                continue
            pods += self._view.quorum(pod_group)
            if not self._starter.is_open or (ready and pods > PODS_AT_ONCE):
                return
            if sum(self._kept.values()) >= PODS_AT_ONCE or self._is_outranked(group):
                return
            if self._view.tally(group).priority < self._least_priority:
                return  # the groups behind it have no higher priority
            if not (yield from self._serving(pod_group, ready)):
                return

    def _serving(self, pod_group: PodGroupInfo, ready: list[str]) -> Steps[bool]:
        """Give a group its turn; return whether the groups behind it may have theirs."""
        if self._plans.planner.is_busy(pod_group.key):
            return False
        if self._plans.had_no_room(pod_group):
            return self._may_be_passed(pod_group)
        prospect = yield from self._judging(pod_group)
        if prospect is Prospect.UNREADABLE:
            self._least_priority = self._view.tally(pod_group.key).priority
        if prospect in (Prospect.STANDS_ASIDE, Prospect.UNREADABLE):
            return self._may_be_passed(pod_group)
        return self._planned_room(pod_group, prospect, ready)

    def _planned_room(self, pod_group: PodGroupInfo, prospect: Prospect, ready: list[str]) -> bool:
        """Plan a group that may start; return whether the groups behind it may have their turn."""
        group, plans = pod_group.key, self._plans
        came_between = self._view.pod_group(group) != pod_group or self._is_outranked(group)
        is_first = prospect in (Prospect.ASKED_FOR, Prospect.IN_HAND)
        if came_between or is_first or group in self._asked:
            return False
        plans.plan_ahead(pod_group, schedulers=plans.schedulers, seconds=SLICE_SECONDS)
        if group in self._view.queue:
            return not plans.planner.is_busy(group) and self._may_be_passed(pod_group)
        if prospect is Prospect.BEGINS:
            ready.append(group)
        else:
            self._kept[group] = self._view.quorum(pod_group)
        return True

    def _forget_begun(self) -> None:
        for group in [*self._kept]:
            tally = self._view.tally(group)
            if tally.assigned or not tally.planned:
                del self._kept[group]

    def _may_be_passed(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the groups behind one that cannot start may have their turn."""
        schedulers = self._plans.schedulers
        return (
            not self._verdicts.options.strict_order
            or all(pod.scheduler not in schedulers for pod in self._view.members(pod_group.key))
            or self._verdicts.never_fits(pod_group.key) is not None
        )

    def _is_outranked(self, group: str) -> bool:
        priority, schedulers = self._view.tally(group).priority, self._plans.schedulers
        return begin.is_outranked(priority, view=self._view, schedulers=schedulers)

    def _judging(self, pod_group: PodGroupInfo) -> Steps[Prospect]:
        return begin.prospect_of(
            pod_group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._verdicts.known_schedulers,
            in_hand=self._verdicts.awaiting_bind,
        )
