"""Chooses the pods that make room for a gang that does not fit.

No pod is chosen if the gang fits without, or if not all its missing members would fit. The search
first finds the lowest priority up to which units have to go. Units up to it are taken, the least
important first, until the gang fits. Then as many as possible are put back, the most important
first: units that a budget protects, then by priority, cost and age. Each remaining unit is needed.
The packer that plans gangs confirms the choice, and says where the members go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from extender.fit import domains
from extender.fit.candidates import Candidates, Feasibility, PodShape
from extender.fit.packer import Wanted
from extender.fit.room_left import Placed
from extender.gang import topology
from extender.gang.fit import (
    Fit,
    candidates,
    finds_no_node,
    fitting,
    fitting_without,
    is_readable,
    lacking_resources,
    pod_shape,
)
from extender.gang.options import GangOptions
from extender.gang.preempt.units import Evictables, Going, Unit
from extender.gang.preempt.what_if import Ranked, Regions, WhatIf
from extender.resources.quantity import Resources, add
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

REGIONS: Final = 8
"""The largest number of domains to search for victims, if the gang requires one domain."""
LOOKS: Final = 256
"""The largest number of times that unlike pods are packed to find out which units may stay."""


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


def choosing(
    pod_group: PodGroupInfo, *, view: ClusterView, now: float, options: GangOptions
) -> Steps[Preemption | None]:
    """Return the pods of lower priority that make room for a group; None if it needs no room.

    Also return None if the group would not fit as a whole even without them. `now` is in seconds
    since the epoch.
    """
    group = pod_group.key
    pods = candidates(None, group, view=view)
    missing = view.quorum(pod_group) - view.tally(group).committed
    if not 0 < missing <= len(pods) or not _may_preempt(pods, pod_group, view=view):
        return None
    if (yield from fitting(pods, missing, group=group, view=view)).complete:
        return None
    where = yield from _where(pod_group, pods[:missing], view=view)
    search = _UnitSearch(pod_group, pods[:missing], where, view=view, now=now, options=options)
    found = yield from search.finding()
    yield from search.forgetting()
    # State may have changed between two pieces.
    return found if found is not None and stands(found, view=view, now=now) else None


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


def _may_preempt(pods: Sequence[PodInfo], pod_group: PodGroupInfo, *, view: ClusterView) -> bool:
    """Return whether a group may preempt and, as far as the extender can tell, only lacks room."""
    return (
        all(pod.preempts for pod in pods)
        and is_readable(pod_group.key, view=view)
        and not any(finds_no_node(pod, pod_group.key) for pod in pods)
        and topology.impossible(pod_group, view=view) is None
    )


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


@dataclass(frozen=True, slots=True)
class _Where:
    """The nodes where the missing members may go."""

    regions: Regions
    pods: Mapping[str, Sequence[PodInfo]]
    """The members that may go to each region: all of them, unless `every` region has its own."""
    every: bool = False
    exact: bool = True
    """True if equal members may go to any node of their region."""


class _Try(NamedTuple):
    """The cost of making room in one domain, or in all domains that a queue has chosen."""

    violations: int
    """The number of evictions beyond the budgets."""
    priority: int
    """The highest priority among the units."""
    pods: int
    regions: tuple[str, ...]
    units: tuple[Unit, ...]


class _UnitSearch:
    """One search for victims. It marks units as gone, and leaves the chosen ones marked."""

    def __init__(
        self,
        pod_group: PodGroupInfo,
        pods: Sequence[PodInfo],
        where: _Where,
        *,
        view: ClusterView,
        now: float,
        options: GangOptions,
    ) -> None:
        self._pod_group, self._pods, self._view = pod_group, pods, view
        self._options = options
        group = pod_group.key
        self._regions, self._every = where.regions, where.every
        feasible = Feasibility(view)
        hardness = Candidates(feasible, view.left).hardness
        shapes = [feasible.of(pod.shape) for pod in dict.fromkeys(map(pod_shape, pods))]
        there = {node.name: node for nodes in self._regions.values() for node in nodes}

        def is_near(name: str) -> bool:
            node = there.get(name)
            return node is not None and any(each.allows(node) for each in shapes)

        units = Evictables(
            *(group, view.tally(group).priority),
            view=view,
            now=now,
            options=options,
            near=is_near,
        )
        self._budgets = units.budgets
        wanted: dict[int, Sequence[Wanted]] = {}
        for some in where.pods.values():
            if id(some) not in wanted:
                counts = Counter(map(pod_shape, some)).items()
                wanted[id(some)] = sorted(counts, key=lambda each: hardness(each[0].shape))
        self._equal = where.exact and all(len(each) == 1 for each in wanted.values())
        self._what_if = WhatIf(
            {region: wanted[id(some)] for region, some in where.pods.items()},
            group,
            view=view,
            units=units,
        )
        self._looks = 0

    def finding(self) -> Steps[Preemption | None]:
        """Return the preemption, or None where there is none, or none is needed."""
        what_if = self._what_if
        yield from what_if.reading(self._regions)
        if (yield from self._fits()):
            return None  # it fits once the pods that are being deleted have gone
        ways = [True] if self._options.strict_budgets else [True, False]
        for keep_budgets in ways if self._view.has_budgets else [False]:
            found = yield from self._find_units(keep_budgets=keep_budgets)
            if found is not None:
                return (yield from self._preemption(found))
        return None

    def forgetting(self) -> Steps[None]:
        """Free what was read of the cluster, piece by piece: at once it would take long."""
        yield from self._what_if.forgetting()

    # -- which units

    def _find_units(self, *, keep_budgets: bool) -> Steps[_Try | None]:
        """Return the cheapest way to make room at the lowest priority at which there is one."""
        what_if = self._what_if
        ways = [(*self._regions,)] if self._every else [(region,) for region in self._regions]
        least = {way: self._least(way) for way in ways}
        for priority in what_if.priorities():
            due = [way for way, p in least.items() if p is not None and p <= priority]
            tries: list[_Try] = []
            for way in sorted(due, key=lambda each: (-what_if.total[each[0]], each))[:REGIONS]:
                found = yield from self._in_regions(way, priority, keep_budgets=keep_budgets)
                if found is not None:
                    tries.append(found)
            if tries:
                best = min(tries, key=lambda each: each[:4])
                yield from self._mark_gone(best.units)
                return best
        return None

    def _least(self, regions: Sequence[str]) -> int | None:
        """Return the lowest priority at which there may be room in each of these regions."""
        found = [self._what_if.least(region) for region in regions]
        known = [priority for priority in found if priority is not None]
        return max(known) if len(known) == len(found) else None

    def _in_regions(
        self, regions: tuple[str, ...], limit: int, *, keep_budgets: bool
    ) -> Steps[_Try | None]:
        """Return the units up to a priority that have to go in these regions; None if too few."""
        self._looks = 0
        units = yield from self._taken(regions, limit)
        found = None
        if units and (yield from self._fits()):
            found = self._try(regions, (yield from self._needed(units)))
            if keep_budgets and found.violations:
                found = None
        for number, part in enumerate([*self._what_if.gone]):
            if number % PIECE == PIECE - 1:
                yield
            self._what_if.stay(part)
        return found

    def _taken(self, regions: Sequence[str], limit: int) -> Steps[list[Unit]]:
        """Mark units up to a priority as gone until each region has room; return these units.

        The least important units go first, and units that a budget protects after all others.
        """
        taken: list[Unit] = []
        for protected in (False, True):
            for number, region in enumerate(regions):
                if number % PIECE == PIECE - 1:
                    yield
                taken += yield from self._taken_in(region, limit, protected=protected)
            if not self._view.has_budgets or (yield from self._fits()):
                break
        return taken

    def _taken_in(self, region: str, limit: int, *, protected: bool) -> Steps[list[Unit]]:
        """Mark units of one region as gone until it has room; protected ones only if allowed."""
        taken: list[Unit] = []
        enough = PIECE
        for number, ranked in enumerate((yield from self._least_important_first(region))):
            rank, what, node = ranked
            if number % PIECE == PIECE - 1:
                yield
            if rank.priority > limit or (self._equal and region not in self._what_if.lacking):
                break
            if not self._equal and len(taken) >= enough:
                # Only the packer can tell how many unlike pods fit: it is asked seldom.
                if (yield from self._fits()):
                    break
                enough *= 2
            unit = what if isinstance(what, Unit) else node.unit_of(what, self._what_if.units)
            if unit is None or unit.gone:
                continue
            if protected or not self._is_protected(unit):
                self._what_if.go(unit)
                taken.append(unit)
        return taken

    def _least_important_first(self, region: str) -> Steps[Iterable[Ranked]]:
        there: list[list[Ranked]] = []
        for number, node in enumerate(self._what_if.by_region[region]):
            if number % PIECE == PIECE - 1:
                yield
            there.append(node.in_order())
        return merge(*there, key=itemgetter(0))

    def _is_protected(self, unit: Unit) -> bool:
        guarded = Counter[str]()
        for part in unit.going():
            guarded.update(part.guarded)
        return bool(guarded) and self._budgets.would_break(guarded)

    def _mark_gone(self, units: Iterable[Unit]) -> Steps[None]:
        for number, unit in enumerate(units):
            if number % PIECE == PIECE - 1:
                yield
            self._what_if.go(unit)

    def _try(self, regions: tuple[str, ...], units: Sequence[Unit]) -> _Try:
        highest = max(unit.rank.priority for unit in units)
        return _Try(
            self._budgets.violations,
            highest,
            sum(unit.size for unit in units),
            regions,
            tuple(units),
        )

    def _needed(self, chosen: Iterable[Unit]) -> Steps[list[Unit]]:
        """Put back all units that are not needed; return the others, the most important first."""
        every: dict[Unit, None] = {}
        whole: dict[Unit, Unit] = {}
        for number, unit in enumerate(chosen):
            if number % PIECE == PIECE - 1:
                yield
            every[unit] = None
            for beyond in unit.beyond:
                every[beyond], whole[beyond] = None, unit
        order = sorted(every, key=attrgetter("rank"), reverse=True)
        yield
        if not self._equal:
            yield from self._put_back_beside_members(order, whole)
        if self._view.has_budgets:
            yield from self._put_back_protected(order, whole)
        yield from self._put_back([unit for unit in order if unit.gone], whole)
        return [unit for unit in order if unit.gone and not (unit in whole and whole[unit].gone)]

    def _put_back_beside_members(
        self, order: Sequence[Unit], whole: Mapping[Unit, Unit]
    ) -> Steps[None]:
        """Put back all units that leave room for the members where the packer puts them.

        Units that a budget protects come first. The packer would need a look for each unit.
        """
        fit = yield from self._packed()
        if not fit.complete:  # state has changed
            return
        needed: dict[str, Resources] = {}
        for pod in self._pods:
            add(needed.setdefault(fit.placements[pod.uid], {}), pod.shape.requests)
        alone = {fit.placements[pod.uid] for pod in self._pods if pod_shape(pod).shape.one_per_node}
        protected = [unit for unit in order if self._budgets.broken_by(unit.guarded)]
        back: list[Unit] = []
        for number, unit in enumerate([*protected, *order]):
            if number % PIECE == PIECE - 1:
                yield
            may_stay = unit.gone and not (unit in whole and whole[unit].gone)
            if may_stay and alone.isdisjoint(unit.on) and self._leaves_room(unit, needed):
                self._what_if.stay(unit)
                back.append(unit)
        if not (yield from self._fits()):
            yield from self._mark_gone(back)

    def _leaves_room(self, unit: Unit, needed: Mapping[str, Resources]) -> bool:
        """Return whether the nodes of a unit have the room that is needed if the unit stays."""
        for name, amounts in unit.on.items():
            node = self._what_if.nodes.get(name)
            for resource, amount in needed.get(name, {}).items():
                if node is None or node.room.get(resource, 0) - amounts.get(resource, 0) < amount:
                    return False
        return True

    def _put_back_protected(self, order: Sequence[Unit], whole: Mapping[Unit, Unit]) -> Steps[None]:
        """Put back units whose budget is exceeded, one by one, as long as it is."""
        for number, unit in enumerate(order):
            if number % PIECE == PIECE - 1:
                yield
            if not self._equal and self._looks > LOOKS // 2:
                break
            if unit.gone and self._budgets.broken_by(unit.guarded):
                yield from self._put_back([unit], whole)

    def _put_back(self, units: Sequence[Unit], whole: Mapping[Unit, Unit]) -> Steps[None]:
        """Put back as many of these units as possible, the first ones rather than the last.

        All are tried at once, then each half, because most may stay. Members above minMember stay
        only if the rest of their gang (`whole`) stays.
        """
        if not self._equal and self._looks > LOOKS:
            return
        some: list[Unit] = []
        for number, unit in enumerate(units):
            if number % PIECE == PIECE - 1:
                yield
            if unit not in whole or not whole[unit].gone:
                self._what_if.stay(unit)
                some.append(unit)
        if not some or (yield from self._fits()):
            return
        yield from self._mark_gone(some)
        if len(some) > 1:
            half = len(some) // 2
            yield from self._put_back(some[:half], whole)
            yield from self._put_back(some[half:], whole)

    # -- whether that is enough

    def _fits(self) -> Steps[bool]:
        """Return whether all missing members fit once the units marked as gone are gone."""
        lacking = self._what_if.lacking
        self._looks += 1
        if self._equal:
            if self._looks % PIECE == 0:
                yield
            return not lacking if self._every else len(lacking) < len(self._regions)
        if self._looks > LOOKS:
            return False
        return (yield from self._packed()).complete

    def _packed(self) -> Steps[Fit]:
        """Place the missing members as if the units marked as gone were gone."""
        what_if, nodes = self._what_if, self._view.nodes
        counts = Counter[tuple[str, PodShape]]()
        for number, unit in enumerate([*what_if.gone]):
            if number % PIECE == PIECE - 1:
                yield
            counts.update((pod.node, pod_shape(pod)) for pod in unit.pods if pod.node)
        yield
        placed = [Placed(nodes[name], p, n) for (name, p), n in counts.items() if name in nodes]
        gone = [*what_if.coming, *placed]
        return (
            yield from fitting_without(gone, self._pods, group=self._pod_group.key, view=self._view)
        )

    # -- the answer

    def _preemption(self, found: _Try) -> Steps[Preemption | None]:
        fit = yield from self._packed()
        yield
        if not fit.complete or (yield from self._lacks_min_resources(found.units)):
            return None
        yield
        counts: dict[str, Counter[Shape]] = {}
        for pod in self._pods:
            counts.setdefault(fit.placements[pod.uid], Counter())[pod.shape] += 1
        places = tuple(_place(name, counts[name]) for name in sorted(counts))
        return Preemption(self._pod_group.key, places, found.units, fit.placements)

    def _lacks_min_resources(self, victims: Iterable[Unit]) -> Steps[bool]:
        """Return whether minResources are still not met once the victims have gone."""
        short = yield from lacking_resources(self._pod_group, view=self._view)
        for pod in (pod for unit in victims for pod in unit.all_pods):
            for name in short:
                short[name] -= pod.shape.requests.get(name, 0)
        return any(amount > 0 for amount in short.values())


def _place(node: str, counts: Mapping[Shape, int]) -> Place:
    amounts: Resources = {}
    for shape, count in counts.items():
        add(amounts, {name: n * count for name, n in shape.requests.items()})
    return Place(node, sum(counts.values()), amounts)


def _where(pod_group: PodGroupInfo, pods: Sequence[PodInfo], *, view: ClusterView) -> Steps[_Where]:
    """Return the nodes where these pods may go, by region, and the pods that may go to each region.

    Chosen domains that share nodes are one region, because they compete for the same room.
    """
    if not pod_group.assigned:
        regions = _regions(pod_group, view=view)
        return _Where(regions, dict.fromkeys(regions, pods))
    places = yield from topology.places_of(pods, pod_group, view=view)
    number_of: dict[str, int] = {}
    there: dict[int, tuple[dict[str, NodeInfo], list[PodInfo]]] = {}
    exact = True
    for number, (nodes, some) in enumerate(places):
        if number % PIECE == PIECE - 1:
            yield
        near, members = {node.name: node for node in nodes}, [*some]
        for other in {number_of[name] for name in near if name in number_of}:
            others, more = there.pop(other)
            exact = exact and others.keys() == near.keys()
            near |= others
            members += more
        there[number] = near, members
        number_of |= dict.fromkeys(near, number)
    return _Where(
        {str(number): [*near.values()] for number, (near, _) in there.items()},
        {str(number): members for number, (_, members) in there.items()},
        every=True,
        exact=exact,
    )


def _regions(pod_group: PodGroupInfo, *, view: ClusterView) -> Regions:
    """Return the nodes of each domain if the group requires one; else all nodes as one region."""
    asked = topology.topology_of(pod_group)
    if asked is None or not asked.required:
        return {"": list(view.nodes.values())}
    pinned = set(filter(None, topology.domains_in_use(pod_group.key, asked, view=view)))
    there = domains.by_label(view.nodes.values(), asked.label)
    return {value: nodes for value, nodes in there.items() if not pinned or value in pinned}
