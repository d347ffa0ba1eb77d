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
from collections.abc import Callable
from contextlib import suppress

from extender.gang import begin
from extender.gang.begin import Prospect
from extender.permit.plans import Plans
from extender.permit.timing import (
    MOST_GROUPS,
    PODS_AT_ONCE,
    REST,
    SLICE_SECONDS,
    SPARED_SECONDS,
    TURNS_SETTLE_SECONDS,
)
from extender.runtime.clock import timed
from extender.runtime.faults import FAULTS
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import FairShare, Steps


class NextGroups:
    """Begins groups whose turn it is, as long as kube-scheduler is there."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        *,
        is_open: Callable[[], bool],
        ask: Callable[[str], None],
    ) -> None:
        """Take `is_open`, which says whether a group may begin, and `ask`, which begins it."""
        self._view = cluster.view()
        self._plans = plans
        self._is_open = is_open
        self._ask = ask
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

    def look_soon(self) -> None:
        """Look at the queue soon: kube-scheduler has judged a pod."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SPARED_SECONDS if self._asked else None):
                    await self._changed.wait()
            self._changed.clear()
            in_vain = 0.0
            try:
                begun, spent = await timed(self.looking(), self._clock, seconds=SLICE_SECONDS)
                in_vain = 0.0 if begun else spent
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("next-groups", error)
            await asyncio.sleep(max(TURNS_SETTLE_SECONDS, in_vain * REST))

    def looking(self) -> Steps[int]:
        """Begin the groups whose turn it is; return their number.

        An ask may come to nothing: a member was taken back, or its Bindings are refused. A group
        that still has its room after a pause is asked for again.
        """
        ready: list[str] = []
        for group in [each for each, at in self._asked.items() if self._clock.monotonic() >= at]:
            del self._asked[group]
            if self._view.tally(group).planned:
                self._planned[group] = None
        yield from self._find_planned(ready)
        yield from self._find_in_queue(ready)
        # kube-scheduler reaches the first groups first, so they are written last.
        for group in reversed(ready):
            pod_group = self._view.pod_group(group)
            if pod_group is not None:
                self._kept[group] = self._view.quorum(pod_group)
                self._asked[group] = self._clock.monotonic() + SPARED_SECONDS
                self._ask(group)
            yield
        return len(ready)

    def _find_planned(self, ready: list[str]) -> Steps[None]:
        """Add to `ready` the groups that can begin and got room before their turn."""
        pods = 0
        for group in [*self._planned]:
            if not self._is_open() or (ready and pods > PODS_AT_ONCE):
                return
            if self._plans.planner.is_busy(group) or group in self._asked:
                continue  # it has only a part of its room yet, or may be about to begin
            self._planned.pop(group, None)
            pod_group, tally = self._view.pod_group(group), self._view.tally(group)
            if pod_group is None or not tally.planned or tally.assigned:
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
        for group in [*self._kept]:
            tally = self._view.tally(group)
            if tally.assigned or not tally.planned:
                del self._kept[group]
        least_priority, pods = -math.inf, 0
        for group in (yield from self._share.choosing(self._view.queue)):
            yield
            pod_group = self._view.pod_group(group)
            if pod_group is None or group not in self._view.queue:
                continue
            pods += self._view.quorum(pod_group)
            if not self._is_open() or (ready and pods > PODS_AT_ONCE):
                return
            if sum(self._kept.values()) >= PODS_AT_ONCE or self._is_outranked(group):
                return
            priority = self._view.tally(group).priority
            if priority < least_priority:
                return  # the groups behind it have no higher priority
            prospect = yield from self._serving(pod_group, ready)
            if prospect is Prospect.UNREADABLE:
                least_priority = priority
            elif prospect in (Prospect.ASKED_FOR, Prospect.IN_HAND):
                return

    def _serving(self, pod_group: PodGroupInfo, ready: list[str]) -> Steps[Prospect]:
        """Give a group its turn; return its prospect, ASKED_FOR if those behind it have to wait."""
        group, plans = pod_group.key, self._plans
        if plans.planner.is_busy(group):
            return Prospect.ASKED_FOR
        strict = plans.verdicts.options.strict_order and not plans.never_starts(pod_group)
        passed = Prospect.ASKED_FOR if strict else Prospect.STANDS_ASIDE
        prospect = Prospect.STANDS_ASIDE
        if not plans.had_no_room(pod_group):
            prospect = yield from self._judging(pod_group)
        if prospect not in (Prospect.BEGINS, Prospect.LACKS_NODES):
            return passed if strict else prospect
        came_between = self._view.pod_group(group) != pod_group or self._is_outranked(group)
        if came_between or group in self._asked:
            return Prospect.ASKED_FOR
        plans.plan_ahead(pod_group, schedulers=plans.schedulers, seconds=SLICE_SECONDS)
        if group in self._view.queue:
            strict = strict and not plans.never_starts(pod_group)
            return Prospect.ASKED_FOR if strict or plans.planner.is_busy(group) else passed
        if prospect is Prospect.BEGINS:
            ready.append(group)
        else:
            self._kept[group] = self._view.quorum(pod_group)
        return prospect

    def _is_outranked(self, group: str) -> bool:
        priority, schedulers = self._view.tally(group).priority, self._plans.schedulers
        return begin.is_outranked(priority, view=self._view, schedulers=schedulers)

    def _judging(self, pod_group: PodGroupInfo) -> Steps[Prospect]:
        return begin.prospect_of(
            pod_group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._plans.verdicts.awaiting_bind,
        )
