"""Pauses in the answers of filter.

kube-scheduler's loop is serial: while it waits for an answer it tries no other pod. One answer is
held back at a time, and only about members of gangs: pods without a group are answered at once.
They may stand behind a member whose answer is held, so each pause has an end.

`WritePauses` pauses while Bindings are written ahead. Otherwise kube-scheduler goes on to the next
pod in its queue, which is often a member that is about to be bound: that costs a cycle, and takes
the member out of the batch. After a pause its queue has dropped these members. It goes on when few
Bindings are left, so that the next group can begin while they are written. If the API server is
slow, there are few pauses.

`ArrivalPauses` pauses while the pods of a gang are being created. A job controller creates them one
by one, and kube-scheduler tries the first ones before the last ones are there. Each early try is
refused, for the gang is not complete: that costs a status, an Event, and a patch that has the pod
tried again. With a pause the first pod is answered when the last one is there, and the gang starts.
The pause ends as soon as kube-scheduler has anything else to do, so it only delays further tries of
pods that were judged before.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from cachetools import TTLCache

from extender.gang import begin
from extender.permit.ahead.write import AheadWriter
from extender.permit.hold import Gone
from extender.permit.plans import Plans
from extender.permit.timing import (
    ARRIVAL_LOOK_SECONDS,
    ARRIVAL_REST,
    ARRIVAL_SECONDS,
    FEW_LEFT,
    GAP_SECONDS,
    PAUSE_REST_SECONDS,
    PAUSE_SECONDS,
    REMEMBERED,
    STUCK_SECONDS,
    WORTH,
)
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.store import Cluster


class PauseEnd(StrEnum):
    """The reasons for which a pause ends."""

    WRITTEN = "written"
    """Few Bindings are left, or the member's own Binding is on its way after all."""
    TIME = "time"
    STOPPED = "stopped"
    """This process is about to stop."""
    HUNG_UP = "hung_up"
    """kube-scheduler has hung up on this request, or on a bind request."""


class WritePauses:
    """Holds back one answer at a time while Bindings are written ahead."""

    def __init__(self, writer: AheadWriter, *, hung_up: Callable[[], None]) -> None:
        """Call `hung_up` when kube-scheduler hangs up on the request whose answer is held."""
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._report_hang_up = hung_up
        self._seconds = writer.metrics.pause_seconds
        self._held: asyncio.Future[PauseEnd] | None = None
        self._uid = ""
        """The member that the answer is about."""
        self._made = 0
        """The number of Bindings that were made during the pause."""
        self._rests_until = float("-inf")

    @property
    def are_due(self) -> bool:
        """Return whether an answer about a member may have to be held back."""
        rested = self._loop.time() >= self._rests_until
        return rested and self._held is None and self._writer.going_out > 0

    def delays(self, uid: str) -> bool:
        """Return whether the Bindings that go out are a reason to hold back a member's answer.

        They are not if the member's own is being written: kube-scheduler would see the pod on its
        node before it has the answer, and call that an error.
        """
        return self._writer.going_out > FEW_LEFT and uid not in self._writer.writing

    async def hold(self, uid: str, gone: Gone) -> float | None:
        """Return when a member may be answered, with the seconds for which that was held back.

        None says that kube-scheduler has hung up. Then nothing is to be decided: a decision would
        count as a call of one that is there.
        """
        if not self.delays(uid):
            return 0.0
        self._writer.leave(uid)
        began, self._uid, self._made = self._loop.time(), uid, 0
        held = self._held = self._loop.create_future()
        caller = asyncio.ensure_future(gone())
        try:
            await asyncio.wait(
                (held, caller), timeout=PAUSE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            caller.cancel()
            self._held = None
        seconds = self._loop.time() - began
        if caller.done():
            end = PauseEnd.HUNG_UP
            self._report_hang_up()
        else:
            end = held.result() if held.done() else PauseEnd.TIME
        self._seconds.labels(end.value).observe(seconds)
        if end is PauseEnd.TIME and self._made < WORTH:
            self._rests_until = self._loop.time() + PAUSE_REST_SECONDS
        return seconds if end is not PauseEnd.HUNG_UP else None

    def ended(self, *, made: bool) -> None:
        """Count a Binding that is made, or that is not to be written ahead any more."""
        self._made += made
        if self._held is not None and not self.delays(self._uid):
            self._end(PauseEnd.WRITTEN)

    def hung_up(self) -> None:
        """End a pause: kube-scheduler has hung up on a bind request."""
        self._end(PauseEnd.HUNG_UP)

    def stop(self) -> None:
        """End a pause, and begin no other one: the process is about to stop."""
        self._rests_until = float("inf")
        self._end(PauseEnd.STOPPED)

    def _end(self, end: PauseEnd) -> None:
        if self._held is not None and not self._held.done():
            self._held.set_result(end)


class ArrivalEnd(StrEnum):
    """The reasons for which a pause ends."""

    COMPLETE = "complete"
    """The gang has its pods."""
    CHANGED = "changed"
    """It lacks no pods for another reason: its PodGroup or its pods are gone, say."""
    SLOW = "slow"
    """No more pods came."""
    OTHERS = "others"
    """kube-scheduler has something else to do."""
    TIME = "time"
    STOPPED = "stopped"
    """This process is about to stop."""
    HUNG_UP = "hung_up"
    """kube-scheduler has hung up on this request, or on a bind request."""


@dataclass(frozen=True, slots=True)
class _Held:
    group: str
    end: "asyncio.Future[ArrivalEnd]"


class ArrivalPauses:
    """Holds back one answer at a time while the gang of its pod is being created."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        writer: AheadWriter,
        *,
        hung_up: Callable[[], None],
    ) -> None:
        """Call `hung_up` when kube-scheduler hangs up on the request whose answer is held."""
        self._loop = asyncio.get_running_loop()
        self._view = cluster.view()
        self._plans = plans
        self._writer = writer
        self._report_hang_up = hung_up
        self._seconds = writer.metrics.arrival_pause_seconds
        self._sizes: dict[str, int] = {}
        """The number of pods of each group that has no room yet."""
        self._grew: dict[str, float] = {}
        """The time of the latest pod of each gang that may still grow, in the order of times."""
        self._in_the_way: TTLCache[str, float] = TTLCache(
            REMEMBERED, 10 * STUCK_SECONDS, self._loop.time
        )
        """The time since which a pod has been in the way of a gang, by UID."""
        self._held: _Held | None = None
        self._rests_until = float("-inf")
        cluster.subscribe(self.on_change)

    @property
    def are_due(self) -> bool:
        """Return whether an answer about a member may have to be held back."""
        now = self._loop.time()
        while self._grew and now - next(iter(self._grew.values())) >= GAP_SECONDS:
            del self._grew[next(iter(self._grew))]
        return bool(self._grew) and self._held is None and now >= self._rests_until

    @property
    def held_back(self) -> str | None:
        """Return the gang for whose member an answer is held back; kube-scheduler awaits it."""
        return self._held.group if self._held is not None else None

    def on_change(self, change: ClusterChange) -> None:
        """Note the gangs that have one more pod, and end the pause of a gang that lacks none."""
        for group in change.groups:
            self._look_at(group)

    def _look_at(self, group: str) -> None:
        tally, before = self._view.tally(group), self._sizes.pop(group, 0)
        size = len(tally.members)
        if size and not tally.committed:
            self._sizes[group] = size
        if not begin.lacks_pods(group, view=self._view):
            self._grew.pop(group, None)
            self._end_if_held(group)
        elif size > before and self._is_ours(next(reversed(tally.members))):
            self._grew.pop(group, None)
            self._grew[group] = self._loop.time()

    def _is_ours(self, uid: str) -> bool:
        """Return whether kube-scheduler is to judge a pod."""
        return uid in self._view.fresh and (
            self._view.pods[uid].scheduler in self._plans.schedulers
        )

    def _end_if_held(self, group: str) -> None:
        if self._held is not None and self._held.group == group:
            tally, pod_group = self._view.tally(group), self._view.pod_group(group)
            is_complete = pod_group is not None and (
                tally.waits_for_room(self._view.quorum(pod_group))
            )
            self._end(ArrivalEnd.COMPLETE if is_complete else ArrivalEnd.CHANGED)

    async def hold(self, group: str, gone: Gone) -> float | None:
        """Return when a member may be answered, with the seconds for which that was held back.

        None says that kube-scheduler has hung up. Then nothing is to be decided: a decision would
        count as a call of one that is there.
        """
        if self._reason_to_end(group) is not None:
            return 0.0
        self._writer.asked()
        began, held = self._loop.time(), _Held(group, self._loop.create_future())
        self._held, end = held, ArrivalEnd.TIME
        hanging_up = asyncio.ensure_future(gone())
        try:
            while (left := began + ARRIVAL_SECONDS - self._loop.time()) > 0:
                await asyncio.wait(
                    (held.end, hanging_up),
                    timeout=min(left, ARRIVAL_LOOK_SECONDS),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                found = self._found(held, hanging_up)
                if found is not None:
                    end = found
                    break
        finally:
            hanging_up.cancel()
            self._held = None
        seconds = self._loop.time() - began
        self._seconds.labels(end.value).observe(seconds)
        rest = seconds if end is ArrivalEnd.COMPLETE else ARRIVAL_REST * seconds
        self._rests_until = max(self._rests_until, self._loop.time() + rest)
        return seconds if end is not ArrivalEnd.HUNG_UP else None

    def _found(self, held: _Held, hanging_up: asyncio.Future[None]) -> ArrivalEnd | None:
        """Return why an answer is no longer to be held back; None if it still is."""
        if hanging_up.done():
            self._report_hang_up()
            return ArrivalEnd.HUNG_UP
        return held.end.result() if held.end.done() else self._reason_to_end(held.group)

    def _reason_to_end(self, group: str) -> ArrivalEnd | None:
        if self._loop.time() - self._grew.get(group, float("-inf")) >= GAP_SECONDS:
            return ArrivalEnd.SLOW
        is_planning = next(self._plans.planner.planned, None) is not None
        others = is_planning or begin.others_wait(group, view=self._view, is_stuck=self._is_stuck)
        return ArrivalEnd.OTHERS if others else None

    def _is_stuck(self, uid: str) -> bool:
        """Return whether a pod has been in the way for long, and is still to be judged."""
        now = self._loop.time()
        return now - self._in_the_way.setdefault(uid, now) >= STUCK_SECONDS

    def hung_up(self) -> None:
        """End a pause: kube-scheduler has hung up on a bind request."""
        self._end(ArrivalEnd.HUNG_UP)

    def stop(self) -> None:
        """End a pause, and begin no other one: the process is about to stop."""
        self._rests_until = float("inf")
        self._end(ArrivalEnd.STOPPED)

    def _end(self, end: ArrivalEnd) -> None:
        if self._held is not None and not self._held.end.done():
            self._held.end.set_result(end)
