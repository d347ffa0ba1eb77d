"""A pause in the answers of filter, while the pods of a gang are being created.

A job controller creates the pods of a gang one after the other, and kube-scheduler tries the first
ones before the last ones are there. Each of these is refused, for its gang is not complete: that is
a status, an Event, and a patch that has it tried again. With a pause the first one is answered when
the last one is there, and the gang starts.

A pause ends as soon as kube-scheduler has anything else to do. So it takes time from the retries of
pods that were judged before, and from nothing else.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extender.permit.waiting_pods import Gone
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import Metrics

LONGEST_SECONDS: Final = 1.0
"""How long an answer is held back, at most."""
GAP_SECONDS: Final = 0.1
"""After so long without one more pod a gang is not being created any more, or too slowly."""
LOOK_SECONDS: Final = 0.01
"""Between two looks at what else waits."""
REST: Final = 4
"""How much longer than a pause without a complete gang no answer is held back after it."""


class ArrivalEnd(StrEnum):
    """What ended a pause."""

    COMPLETE = "complete"
    """The gang has its pods."""
    SLOW = "slow"
    """No more pods came."""
    OTHERS = "others"
    """kube-scheduler has another pod to judge."""
    TIME = "time"
    HUNG_UP = "hung_up"
    """kube-scheduler has, on this request."""


@dataclass(frozen=True, slots=True)
class _Held:
    """An answer that is held back."""

    group: str
    judged: int
    """Members that are not to be judged now."""
    schedulers: Collection[str]
    complete: asyncio.Future[None]


class ArrivingGangs:
    """Knows which gangs are being created, and holds back one answer at a time."""

    def __init__(self, cluster: Cluster, schedulers: Collection[str], *, metrics: Metrics) -> None:
        """`schedulers` are the names of those that ask."""
        self._loop = asyncio.get_running_loop()
        self._view = cluster.view()
        self._schedulers = schedulers
        self._seconds = metrics.arrival_pause_seconds
        self._incomplete: dict[str, int] = {}
        """How many pods groups have that have too few."""
        self._grew: dict[str, float] = {}
        """When the last pod came of these, the latest last; those alone that may still grow."""
        self._held: _Held | None = None
        self._rests_until = float("-inf")
        cluster.subscribe(self.on_change)

    @property
    def are_due(self) -> bool:
        """Whether an answer about a member may have to be held back."""
        now = self._loop.time()
        while self._grew and now - next(iter(self._grew.values())) >= GAP_SECONDS:
            del self._grew[next(iter(self._grew))]
        return bool(self._grew) and self._held is None and now >= self._rests_until

    def on_change(self, change: ClusterChange) -> None:
        """Note which gangs have more pods, and end a pause whose gang is complete."""
        for group in change.groups:
            pods = self._too_few(group)
            if pods is None:
                self._incomplete.pop(group, None)
                self._grew.pop(group, None)
                self._complete(group)
                continue
            if pods > self._incomplete.get(group, 0):
                self._grew.pop(group, None)
                self._grew[group] = self._loop.time()
            self._incomplete[group] = pods

    def _too_few(self, group: str) -> int | None:
        """Return how many pods free of gates a gang has that waits for more; None for others."""
        tally = self._view.tally(group)
        if tally.committed or not tally.members:
            return None
        pod_group = self._view.pod_group(group)
        able = len(tally.members) - len(tally.gated) - len(tally.leaving)
        is_complete = pod_group is None or able >= self._view.quorum(pod_group)
        return None if is_complete else able

    def _complete(self, group: str) -> None:
        held = self._held
        if held is not None and held.group == group and not held.complete.done():
            held.complete.set_result(None)

    async def hold(self, uid: str, group: str, gone: Gone) -> float | None:
        """Return when a member may be answered, with the seconds for which that was held back.

        None says that kube-scheduler has hung up. Then nothing is to be decided.
        """
        held = self._begin(uid, group)
        if not self._is_growing(group) or self._others_wait(held):
            return 0.0
        began, self._held, seconds = self._loop.time(), held, 0.0
        caller = asyncio.ensure_future(gone())
        end: ArrivalEnd | None = None
        try:
            while end is None:
                await asyncio.wait(
                    (held.complete, caller),
                    timeout=LOOK_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                seconds = self._loop.time() - began
                end = ArrivalEnd.HUNG_UP if caller.done() else self._end(held, seconds)
        finally:
            caller.cancel()
            self._held = None
        self._seconds.labels(end.value).observe(seconds)
        if end not in {ArrivalEnd.COMPLETE, ArrivalEnd.HUNG_UP}:
            self._rests_until = self._loop.time() + REST * seconds
        return seconds if end is not ArrivalEnd.HUNG_UP else None

    def _begin(self, uid: str, group: str) -> _Held:
        members, schedulers = self._view.tally(group).members, {*self._schedulers}
        if uid in self._view.pods:
            schedulers.add(self._view.pods[uid].scheduler)
        judged = len(members) - self._view.fresh_among(members)
        return _Held(group, judged, schedulers, self._loop.create_future())

    def _end(self, held: _Held, seconds: float) -> ArrivalEnd | None:
        """Return why an answer is not to be held back any longer, if it is so."""
        if held.complete.done():
            return ArrivalEnd.COMPLETE
        if self._others_wait(held):
            return ArrivalEnd.OTHERS
        if not self._is_growing(held.group):
            return ArrivalEnd.SLOW
        return ArrivalEnd.TIME if seconds >= LONGEST_SECONDS else None

    def _is_growing(self, group: str) -> bool:
        return self._loop.time() - self._grew.get(group, float("-inf")) < GAP_SECONDS

    def _others_wait(self, held: _Held) -> bool:
        """Return whether pods are to be judged that are no members: no member is, meanwhile."""
        fresh = len(self._view.tally(held.group).members) - held.judged
        return self._view.fresh(held.schedulers) > fresh
