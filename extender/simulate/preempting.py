"""Gangs that make room for others: the extender's choice of victims, and their evictions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from extender.api.reasons import PreemptionReason
from extender.gang.options import GangOptions
from extender.gang.preempt import nominate
from extender.gang.preempt.choosing import choosing
from extender.gang.preempt.nominate import Seen
from extender.permit.plans import Plans
from extender.permit.preempting import AGAIN_SECONDS, BACKOFF_SECONDS
from extender.simulate.clock import VirtualClock
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo, PreemptedRoom
from extender.state.cluster.store import Cluster
from extender.steps import at_once

_IN_VAIN = frozenset((PreemptionReason.VICTIMS_STAY, PreemptionReason.ROOM_LOST))


@dataclass(slots=True)
class _MakingRoom:
    """One preemption that is under way."""

    nomination: PreemptedRoom
    seen: Seen = field(default_factory=Seen)


class PreemptionModel:
    """Has pods evicted for gangs that lack room; `evict` takes the victims of one gang."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        clock: VirtualClock,
        *,
        evict: Callable[[str, list[PodInfo]], None],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._cluster, self._view, self._plans, self._clock = cluster, cluster.view(), plans, clock
        self._options: GangOptions = plans.verdicts.options
        self._evict, self._after = evict, after
        self._courses: dict[str, _MakingRoom] = {}
        self._pauses: dict[str, tuple[float, float]] = {}
        """Until when a group is left alone, and how long that is."""

    def run(self) -> bool:
        """End what is over, and begin what is due; return whether any pods were evicted."""
        for group in [*self._courses]:
            self._end_if_over(group)
        lowest, found = self._view.lowest_on_nodes, False
        if not self._options.preempts or lowest is None:
            return False
        for group in [*self._view.queue]:
            if self._view.tally(group).priority <= lowest:
                break  # those behind it have no higher priority
            if self._is_due(group):
                found = self._look_at(group) or found
            if self._options.strict_order and group not in self._courses:
                break
        return found

    def _is_due(self, group: str) -> bool:
        view, pod_group = self._view, self._view.pod_group(group)
        if pod_group is None or group in self._courses:
            return False
        until, _ = self._pauses.get(group, (0.0, 0.0))
        if self._clock.now < until:
            return False
        # For the last pod that a gang lacks kube-scheduler preempts itself.
        if view.quorum(pod_group) - view.tally(group).committed <= 1:
            return False
        return self._plans.verdicts.no_room(group) is not None

    def _look_at(self, group: str) -> bool:
        pod_group, view, now = self._view.pod_group(group), self._view, self._clock.wall()
        assert pod_group is not None
        found = at_once(choosing(pod_group, view=view, now=now, options=self._options))
        if found is None:
            first, longest = AGAIN_SECONDS
            self._pause(group, first, first if self._courses else longest)
            return False
        chosen = nominate.nomination(found, view=view, now=now)
        self._cluster.apply(ev.Nominated(group, chosen))
        self._courses[group] = _MakingRoom(chosen)
        self._evict(group, [*self._pods(chosen)])
        return True

    def _pods(self, chosen: PreemptedRoom) -> Iterable[PodInfo]:
        pods = self._view.pods
        return [pods[uid] for victim in chosen.victims for uid in victim.pods if uid in pods]

    def _end_if_over(self, group: str) -> None:
        course, pod_group = self._courses[group], self._view.pod_group(group)
        over = None
        if pod_group is not None:
            over = nominate.ended(
                pod_group,
                course.nomination,
                seen=course.seen,
                view=self._view,
                now=self._clock.wall(),
            )
            if over is None:
                return
        del self._courses[group]
        self._cluster.apply(ev.NominationsEnded((group,)))
        if over is not None and over.reason in _IN_VAIN:
            self._pause(group, *BACKOFF_SECONDS)

    def _pause(self, group: str, first: float, longest: float) -> None:
        """Leave a group alone, each time in a row for twice as long."""
        _, before = self._pauses.get(group, (0.0, 0.0))
        pause = min(longest, max(first, before * 2))
        self._pauses[group] = self._clock.now + pause, pause
        self._after(pause, lambda: None)
