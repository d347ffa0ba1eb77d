"""Chooses the pods that make room for a gang that does not fit.

No pod is chosen if the gang fits without, or if not all its missing members would fit. All units of
lower priority count as gone first, and are then put back, the most important first, as long as the
gang fits: so each remaining unit is needed, and the least important ones go. If that breaks a
budget, units that a budget protects are put back before all others. The packer that plans gangs
confirms the choice, and says where the members go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice, product
from operator import attrgetter
from typing import NamedTuple

from extender.fit import domains
from extender.fit.candidates import Feasibility, Placed, PodShape
from extender.fit.leaving import fewest_to_leave
from extender.gang import topology
from extender.gang.fit import (
    candidates,
    finds_no_node,
    fitting,
    fitting_without,
    is_readable,
    lacking_resources,
    packer_of,
    pod_shape,
)
from extender.gang.preempt.units import Evictables, Going, Unit
from extender.gang.room import Room
from extender.gang.verdicts import GangOptions
from extender.resources.quantity import Resources, add
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps, cut


@dataclass(frozen=True, slots=True)
class Place:
    """The room that is kept on one node for members."""

    node: str
    count: int
    """The number of members that go there."""
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Preemption:
    """The chosen victims, and where the missing members go once the victims have gone."""

    group: str
    nodes: tuple[Place, ...]
    victims: tuple[Unit, ...]
    """The victims, the most important one first."""
    pods: Mapping[str, str]
    """The node of each member, by UID."""


class _Cost(NamedTuple):
    """The cost of making room in one way: the way with the lowest cost is taken."""

    violations: int
    """The number of evictions beyond the budgets."""
    priority: int
    """The highest priority among the units."""
    pods: int


def choosing(
    pod_group: PodGroupInfo, *, view: ClusterView, now: float, options: GangOptions
) -> Steps[Preemption | None]:
    """Return the pods of lower priority that make room for a group; None if it needs no room.

    Also return None if the group would not fit as a whole even without them. `now` is in seconds
    since the epoch.
    """
    group = pod_group.key
    able = candidates(None, group, view=view)
    missing = view.quorum(pod_group) - view.tally(group).committed
    if not 0 < missing <= len(able) or not _may_preempt(able, pod_group, view=view):
        return None
    if (yield from fitting(able, missing, group=group, view=view)).complete:
        return None
    pods = able[:missing]
    ways = yield from _ways(pod_group, pods, view=view)
    near = yield from _near(ways, view=view)
    units = Evictables(
        *(group, view.tally(group).priority),
        view=view,
        now=now,
        options=options,
        near=near.__contains__,
    )
    best: tuple[_Cost, Sequence[Unit], Sequence[Placed]] | None = None
    for way in ways:
        search = _Search(pod_group.key, way, near, units=units, view=view)
        found = yield from search.cheapest(strict=options.strict_budgets)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    if best is None or not best[1]:
        return None  # it does not fit, or fits once the pods that are being deleted have gone
    return (yield from _confirmed(best[1], pods, pod_group, gone=best[2], view=view, now=now))


def _may_preempt(pods: Sequence[PodInfo], pod_group: PodGroupInfo, *, view: ClusterView) -> bool:
    """Return whether a group may preempt and, as far as the extender can tell, only lacks room."""
    return (
        all(pod.preempts for pod in pods)
        and is_readable(pod_group.key, view=view)
        and not any(finds_no_node(pod, pod_group.key) for pod in pods)
        and topology.impossible(pod_group, view=view) is None
    )


# --- where the members may go ------------------------------------------------------------------


_Way = Sequence[tuple[Sequence[NodeInfo], Sequence[PodInfo]]]
"""All missing members, each with the nodes where it may go."""


def _ways(
    pod_group: PodGroupInfo, pods: Sequence[PodInfo], *, view: ClusterView
) -> Steps[Sequence[_Way]]:
    """Return the ways to place pods: on any node, in one of some domains, or as a queue chose."""
    if pod_group.assigned:
        return [(yield from topology.places_of(pods, pod_group, view=view))]
    asked = topology.topology_of(pod_group)
    if asked is None or not asked.required:
        return [[([*view.nodes.values()], pods)]]
    pinned = set(filter(None, topology.domains_in_use(pod_group.key, asked, view=view)))
    there = domains.by_label(view.nodes.values(), asked.label)
    return [[(nodes, pods)] for value, nodes in there.items() if not pinned or value in pinned]


def _near(ways: Iterable[_Way], *, view: ClusterView) -> Steps[Mapping[str, NodeInfo]]:
    """Return the nodes, by name, that at least one of the members may use."""
    feasible, near = Feasibility(view), dict[str, NodeInfo]()
    for nodes, pods in (part for way in ways for part in way):
        shapes = [feasible.of(shape) for shape in dict.fromkeys(pod.shape for pod in pods)]
        for number, node in enumerate(nodes):
            if number % PIECE == PIECE - 1:
                yield
            if node.name not in near and any(each.allows(node) for each in shapes):
                near[node.name] = node
    return near


class _Search:
    """The search for the units that have to go so that all members fit in one way."""

    def __init__(
        self,
        group: str,
        way: _Way,
        near: Mapping[str, NodeInfo],
        *,
        units: Evictables,
        view: ClusterView,
    ) -> None:
        self._group, self._way, self._evictables, self._view = group, way, units, view
        self._nodes = {n.name: n for nodes, _ in way for n in nodes if n.name in near}
        self._coming: list[Placed] = []
        """The pods that are leaving: their room is about to be free."""
        self._units: list[Unit] = []
        """The units that may go, the most important first."""

    def cheapest(
        self, *, strict: bool
    ) -> Steps[tuple[_Cost, Sequence[Unit], Sequence[Placed]] | None]:
        """Return the units that have to go, with their cost and all pods that are gone then.

        Return None if not all members fit even without all units, or, if `strict`, without breaking
        a budget.
        """
        yield from self._read()
        found = yield from self._needed(self._units)
        if found is None:
            return None
        violations = self._evictables.budgets.violations
        if violations(found):
            protected = self._evictables.budgets.protected(reversed(self._units))
            order = sorted(self._units, key=lambda unit: unit not in protected)
            kept = yield from self._needed(order)
            found = kept if kept is not None and violations(kept) < violations(found) else found
        if strict and violations(found):
            return None
        gone, pods = [*self._coming], 0
        for unit in found:
            for part in unit.parts:
                gone += self._placed(part)
                pods += len(part.pods)
            yield
        highest = max([unit.rank.priority for unit in found], default=0)
        cost = _Cost(violations(found), highest, pods)
        while self._units:
            del self._units[-PIECE:]
            yield
        return cost, found, gone

    def _read(self) -> Steps[None]:
        """Find the units with pods on the nodes of this way, and the pods that leave anyway."""
        view, going, found = self._view, self._evictables.going, set[Unit]()
        by_node: list[list[Unit]] = []
        for info in self._nodes.values():
            yield
            pods = [view.pods[uid] for uid in view.pods_on(info.name)]
            coming = (pod for pod in pods if going.leaves(pod) and going.is_in_time(pod))
            self._coming += [Placed(info, pod_shape(pod), 1) for pod in coming]
            stays = (pod for pod in pods if not going.leaves(pod))
            units = dict.fromkeys(filter(None, map(self._evictables.of, stays)))
            there = [unit for unit in units if unit not in found]
            found.update(there)
            by_node.append(sorted(there, key=attrgetter("rank"), reverse=True))
        for number, unit in enumerate(merge(*by_node, key=attrgetter("rank"), reverse=True)):
            if number % PIECE == 0:
                yield
            self._units.append(unit)

    def _needed(self, units: Sequence[Unit]) -> Steps[list[Unit] | None]:
        """Return the units that have to go, if the first ones rather stay than the last."""
        gone: dict[str, list[Placed]] = {}
        placed: list[list[Placed]] = []
        for each in self._coming:
            gone.setdefault(each.node.name, []).append(each)
        for unit in units:
            placed.append(self._placed(unit))
            for each in placed[-1]:
                gone.setdefault(each.node.name, []).append(each)
            yield
        packer = packer_of(self._group, view=self._view, room=Room.FREE).apart_from(gone)
        wanted = Counter[PodShape]()
        for nodes, pods in self._way:
            own: dict[PodShape, PodShape] = {}
            for pod in pods:
                shape = pod_shape(pod)
                if shape not in own:
                    # Equal pods of another part of this way may use other nodes.
                    own[shape] = PodShape(replace(shape.shape), shape.anti_affinity)
                    allows = Feasibility(self._view).of(shape.shape).allows
                    names = [node.name for node in nodes if allows(node)]
                    packer.offer(own[shape], names, only=True)
                    yield
                wanted[own[shape]] += 1
        number_of = {unit: number for number, unit in enumerate(units)}
        along = {
            number: [number_of[each] for each in unit.beyond if each in number_of]
            for unit, number in number_of.items()
            if unit.beyond
        }
        going = yield from fewest_to_leave(packer, wanted.items(), placed, along=along)
        while gone or placed:  # to free all at once would take long
            del placed[-PIECE:]
            for name in [*islice(gone, PIECE)]:
                del gone[name]
            yield
        if going is None:
            return None
        found = [units[number] for number in going]
        with_whole = {each for unit in found for each in unit.beyond}
        return sorted(
            (unit for unit in found if unit not in with_whole), key=attrgetter("rank"), reverse=True
        )

    def _placed(self, unit: Unit) -> list[Placed]:
        counts = Counter((pod.node or "", pod_shape(pod)) for pod in unit.pods)
        return [
            Placed(self._nodes[name], shape, count)
            for (name, shape), count in counts.items()
            if name in self._nodes
        ]


def _confirmed(
    victims: Sequence[Unit],
    pods: Sequence[PodInfo],
    pod_group: PodGroupInfo,
    *,
    gone: Sequence[Placed],
    view: ClusterView,
    now: float,
) -> Steps[Preemption | None]:
    """Return the preemption with these victims, if the gang then fits; else None."""
    fit = yield from fitting_without(gone, pods, group=pod_group.key, view=view)
    short = yield from lacking_resources(pod_group, view=view)
    for some in cut([pod for unit in victims for part in unit.parts for pod in part.pods]):
        for pod, name in product(some, short):
            short[name] -= pod.shape.requests.get(name, 0)
        yield
    if not fit.complete or any(amount > 0 for amount in short.values()):
        return None
    counts, amounts = Counter(fit.placements.values()), dict[str, Resources]()
    for pod in pods:
        add(amounts.setdefault(fit.placements[pod.uid], {}), pod.shape.requests)
    places = tuple(Place(name, counts[name], amounts[name]) for name in sorted(counts))
    found = Preemption(pod_group.key, places, tuple(victims), fit.placements)
    # State may have changed between two pieces.
    return found if stands(found, view=view, now=now) else None


# --- whether a choice is still valid -----------------------------------------------------------


def stands(found: Preemption, *, view: ClusterView, now: float) -> bool:
    """Return whether a preemption is still valid: its victims run, and leave room for its members.

    `now` is in seconds since the epoch.
    """
    priority, going = view.tally(found.group).priority, Going(view, now)
    if not _leaves_quorums(found.victims, view=view, going=going):
        return False
    for unit in found.victims:
        if not _is_as_chosen(unit, view=view, priority=priority, going=going):
            return False
    members = (view.pods.get(uid) for uid in found.pods)
    if any(pod is None or pod.node is not None or pod.terminating for pod in members):
        return False
    return _has_room(found, view=view, going=going)


def _has_room(found: Preemption, *, view: ClusterView, going: Going) -> bool:
    """Return whether the nodes have room for all members once the victims are gone."""
    priority, room = view.tally(found.group).priority, dict[str, Resources]()
    for unit in found.victims:
        for pod in unit.all_pods:
            add(room.setdefault(pod.node or "", {}), pod.shape.requests)
    for place in found.nodes:
        node = view.nodes.get(place.node)
        if node is None or not node.ready:
            return False
        left = view.free(node, priority=priority, group=found.group)
        add(left, room.get(place.node, {}))
        for uid in view.pods_on(place.node):
            pod = view.pods[uid]
            if going.leaves(pod) and going.is_in_time(pod):
                add(left, pod.shape.requests)
        if any(amount > left.get(name, 0) for name, amount in place.amounts.items() if amount):
            return False
    return True


def _is_as_chosen(unit: Unit, *, view: ClusterView, priority: int, going: Going) -> bool:
    """Return whether the pods of a unit are unchanged and are still all that go with it."""
    for pod in unit.all_pods:
        there = view.pods.get(pod.uid)
        if there is None or (there.node, there.group) != (pod.node, pod.group):
            return False
        if there.priority >= priority or going.leaves(there):
            return False
    group = unit.group if unit.all_pods[0].workload is None else None
    if not unit.whole or group is None:
        return True
    return _staying(group, view=view, going=going) == len(unit.all_pods)


def _leaves_quorums(units: Iterable[Unit], *, view: ClusterView, going: Going) -> bool:
    """Return whether gangs that lose only some of their members keep their minMember."""
    lost = Counter(unit.group for unit in units if unit.group is not None and not unit.whole)
    for group, count in lost.items():
        pod_group = view.pod_group(group)
        if pod_group is None:
            continue
        if _staying(group, view=view, going=going) - count < view.quorum(pod_group):
            return False
    return True


def _staying(group: str, *, view: ClusterView, going: Going) -> int:
    """Return how many members of a group have a node and do not leave it."""
    return sum(not going.leaves(view.pods[uid]) for uid in view.tally(group).bound)
