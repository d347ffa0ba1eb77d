"""A simple kube-scheduler, the extender's plans for gangs, and evictions for them.

kube-scheduler takes pods by priority, then by time. Gangs are planned by the extender's own code,
in the extender's order. A pod without a gang goes to the node that has most left, as kube-scheduler
prefers by default, and takes nothing that is kept for a gang.
"""

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from extender.api.reasons import PreemptionReason
from extender.fit.candidates import Feasibility
from extender.gang import gates, preempt
from extender.gang.fit import candidates, fits, fitting
from extender.gang.gates import cannot_start
from extender.gang.preempt import Seen
from extender.gang.verdicts import GangOptions, Refuse
from extender.gang.victims import choosing
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.timing import EVICTED_IN_VAIN_SECONDS, NO_VICTIMS_SECONDS
from extender.resources.quantity import PODS
from extender.state.cluster import events
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo, PreemptedRoom
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from gang_tools.snapshot.file import StoppedClock

SCHEDULER: Final = "default-scheduler"

_IN_VAIN: Final = frozenset((PreemptionReason.VICTIMS_STAY, PreemptionReason.ROOM_LOST))

PodOrder = tuple[int, float, int, int]
"""Lowest first: priority negated, time, index within its job, arrival."""
_Kind = tuple[int, int, str | None]
"""Priority, identity of the shape, and group, of pods that are equal to nodes."""


@dataclass(slots=True, eq=False)
class _PodLine:
    """Equal pods without a plan that wait for a node, in their order."""

    pods: list[tuple[PodOrder, PodInfo]] = field(default_factory=list)
    blocked: bool = False
    """True if the first pod found no node, and nothing has changed since."""


_Turn = tuple[PodOrder, int, str | _PodLine]
"""A group or a line of pods, behind its order and a number that orders equal ones."""


class SchedulerModel:
    """Gives nodes to pods; `bound` is called with each pod, as it is on its node then."""

    def __init__(
        self,
        cluster: Cluster,
        clock: StoppedClock,
        *,
        options: GangOptions,
        bound: Callable[[PodInfo], None],
    ) -> None:
        self._cluster, self._clock, self._options = cluster, clock, options
        self._view = cluster.view()
        self._bound = bound
        self.verdicts = GroupMemory(cluster, options=options, clock=clock)
        self.plans = Plans(cluster, self.verdicts)
        self.plans.schedulers.add(SCHEDULER)
        self._feasible = Feasibility(self._view)
        self._lines: dict[_Kind, _PodLine] = {}
        self._line_of: dict[str, _Kind] = {}
        self._number = count()
        self._changed = False
        self._seen = (-1, -1)
        cluster.subscribe(self._on_change)

    def _on_change(self, change: ClusterChange) -> None:
        for group in change.groups:
            self.verdicts.changed(group)
        self._changed = self._changed or bool(change.groups or change.room)

    # --- pods without a plan -----------------------------------------------------------------

    def add(self, pods: Iterable[tuple[PodOrder, PodInfo]]) -> None:
        """Queue pods that need no plan, each once."""
        for order, pod in pods:
            if pod.uid in self._line_of:
                continue
            kind = (pod.priority, id(pod.shape), pod.group)
            line = self._lines.setdefault(kind, _PodLine())
            insort(line.pods, (order, pod), key=lambda each: each[0])
            line.blocked = line.blocked and line.pods[0][1] is not pod
            self._line_of[pod.uid] = kind
        self._changed = True

    def drop(self, uids: Iterable[str]) -> None:
        """Forget pods that are gone."""
        for uid in uids:
            kind = self._line_of.pop(uid, None)
            if kind is not None:
                line = self._lines[kind]
                line.pods = [each for each in line.pods if each[1].uid != uid]
                line.blocked = False

    # --- one pass ------------------------------------------------------------------------------

    def run(self) -> bool:
        """Give nodes to all that can have some; return whether any pod got one."""
        seen = (self._view.capacity_version, self._view.nodes_version)
        if seen != self._seen:
            self._seen = seen
            for line in self._lines.values():
                line.blocked = False
        elif not self._changed:
            return False
        self._changed = False
        found, turns = False, self._turns()
        heapify(turns)
        while turns:
            _, _, turn = heappop(turns)
            if isinstance(turn, _PodLine):
                found = self._serve_line(turn, turns) or found
                continue
            found = self._serve(turn) or found
            if self._stops(turn):
                turns = [each for each in turns if isinstance(each[2], _PodLine)]
                heapify(turns)
        return found

    def _turns(self) -> list[_Turn]:
        """Return the groups that are worth a plan, and the pods that are first in their line."""
        view, turns = self._view, list[_Turn]()
        for key in view.queue:
            pod_group = view.pod_group(key)
            if pod_group is not None and not self.plans.had_no_room(pod_group):
                least, since, version, _ = view.turn(pod_group)
                order = (least, since - self._clock.began, 0, version)
                turns.append((order, next(self._number), key))
            elif self._options.strict_order and self._stops(key):
                break
        for kind, line in [*self._lines.items()]:
            if not line.pods:
                del self._lines[kind]
            elif not line.blocked:
                turns.append((line.pods[0][0], next(self._number), line))
        return turns

    def _stops(self, group: str) -> bool:
        """Return whether groups behind one wait: it has no room, and order counts."""
        if not self._options.strict_order or group not in self._view.queue:
            return False
        return self.plans.verdicts.never_fits(group) is None

    # --- gangs ---------------------------------------------------------------------------------

    def _serve(self, group: str) -> bool:
        view = self._view
        pod_group = view.pod_group(group)
        if pod_group is None or group not in view.queue:
            return False
        self.plans.plan_ahead(pod_group, schedulers=self.plans.schedulers)
        while any(self.plans.planner.planned):  # a large plan is kept part by part
            self.plans.planner.work()
        planned = [*view.tally(group).planned]
        if not planned or view.tally(group).committed < view.quorum(pod_group):
            return False
        self.drop(planned)  # those that waited for a node of their own
        places = {uid: view.planned_node(uid) for uid in planned}
        for uid, node in places.items():
            if node is not None:
                self._bind(view.pods[uid], node)
        self.verdicts.started(group)
        rest = [pod for pod in view.members(group) if pod.node is None]
        now = self._clock.now
        self.add(((-pod.priority, now, n, 0), pod) for n, pod in enumerate(rest))
        return True

    def why_no_room(self, group: str) -> str:
        """Return why a group has no room, in the words of its refusal."""
        view, pod_group = self._view, self._view.pod_group(group)
        refusal = cannot_start(group, view=view)
        pods = candidates(None, group, view=view)
        if refusal is None and pod_group is not None and pods:
            found = at_once(gates.plan_gang(pods[0], pod_group, view=view))
            refusal = found if isinstance(found, Refuse) else None
        return refusal.message if refusal is not None else ""

    # --- pods one by one -----------------------------------------------------------------------

    def _serve_line(self, line: _PodLine, turns: list[_Turn]) -> bool:
        """Place pods of a line until another turn comes first, or one finds no node."""
        placed = 0
        for order, pod in line.pods:
            if turns and turns[0][0] < order:
                heappush(turns, (order, next(self._number), line))
                break
            node = self._node_for(pod)
            if node is None:
                line.blocked = True
                break
            placed += 1
            self._line_of.pop(pod.uid, None)
            self._bind(pod, node)
        del line.pods[:placed]
        return placed > 0

    def _node_for(self, pod: PodInfo) -> str | None:
        """Return the node that has most left of what a pod asks most for."""
        shape, view = pod.shape, self._view
        if shape.one_per_node or (pod.group is not None and view.pod_group(pod.group) is not None):
            found = at_once(fitting([pod], 1, group=pod.group or "", view=view))
            return found.placements.get(pod.uid)
        asked = [(name, amount) for name, amount in shape.requests.items() if amount]
        most = view.whole.most
        resource, amount = max(
            asked, key=lambda each: each[1] / max(1, most(each[0])), default=(PODS, 0)
        )
        allows, left = self._feasible.of(shape).allows, view.left.all()
        for entry, name in reversed(view.left.by(resource)):
            if entry < amount:
                return None
            node = view.nodes[name]
            if not (allows(node) and fits(shape.requests, left[name])):
                continue
            if not view.is_kept(name):
                return name
            # What is kept there for gangs stays.
            if fits(shape.requests, view.free(node, priority=pod.priority, group=pod.group)):
                return name
        return None

    def _bind(self, pod: PodInfo, node: str) -> None:
        there = replace(
            pod, node=node, phase="Running", ready=True, bound_at=self._clock.wall(), gates=()
        )
        self._cluster.apply(events.ObjectApplied(there))
        self._bound(there)


class PreemptionModel:
    """Has pods evicted for gangs that lack room; `evict` takes the victims of one gang."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        clock: StoppedClock,
        *,
        evict: Callable[[str, list[PodInfo]], None],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._cluster, self._view, self._plans, self._clock = cluster, cluster.view(), plans, clock
        self._options: GangOptions = plans.verdicts.options
        self._evict, self._after = evict, after
        self._courses: dict[str, tuple[PreemptedRoom, Seen]] = {}
        """The preemptions that are under way, and what was seen of each, by group."""
        self._pauses: dict[str, tuple[float, float]] = {}
        """The time until which a group is left alone, and the length of that pause, by group."""

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
            first, longest = NO_VICTIMS_SECONDS
            self._pause(group, first, first if self._courses else longest)
            return False
        chosen = preempt.nomination(found, view=view, now=now)
        self._cluster.apply(events.Nominated(group, chosen))
        self._courses[group] = chosen, Seen()
        pods, uids = view.pods, [uid for victim in chosen.victims for uid in victim.pods]
        self._evict(group, [pods[uid] for uid in uids if uid in pods])
        return True

    def _end_if_over(self, group: str) -> None:
        (chosen, seen), pod_group = self._courses[group], self._view.pod_group(group)
        over = None
        if pod_group is not None:
            now = self._clock.wall()
            over = preempt.ended(pod_group, chosen, seen=seen, view=self._view, now=now)
            if over is None:
                return
        del self._courses[group]
        self._cluster.apply(events.NominationsEnded((group,)))
        if over is not None and over.reason in _IN_VAIN:
            self._pause(group, *EVICTED_IN_VAIN_SECONDS)

    def _pause(self, group: str, first: float, longest: float) -> None:
        """Leave a group alone, each time in a row for twice as long."""
        _, before = self._pauses.get(group, (0.0, 0.0))
        pause = min(longest, max(first, before * 2))
        self._pauses[group] = self._clock.now + pause, pause
        self._after(pause, lambda: None)
