"""Chooses the pods that make room for a gang that does not fit.

No pod is chosen if the gang fits without, or if not all its missing members would fit. All units of
lower priority count as gone first, and are then put back, the most important first, as long as the
gang fits: so each remaining unit is needed, and the least important ones go. If that breaks a
budget, units that a budget protects are put back before all others. The packer that plans gangs
confirms the choice, and says where the members go.

A unit goes as a whole or not at all. A pod without a group is a unit. In a gang each member above
minMember is a unit by itself, and the others are one unit: if it goes, the gang no longer runs, and
all its members go with it. The pods of a job that a queue has admitted are one unit, because the
queue stops the whole job.

No unit, and no gang of a unit, has pods of the preemptor's priority or above. Static pods cannot be
evicted. Pods of a DaemonSet come back to the same node, whatever room is kept there. A gang that is
starting, or has not run for its guaranteed time, is left alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice, product
from operator import attrgetter
from typing import Final, NamedTuple

from extender.api.core_v1 import LabelSelector, matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.fit import domains
from extender.fit.candidates import Feasibility, Placed, PodShape
from extender.fit.packer import fewest_to_leave
from extender.gang import topology
from extender.gang.filter import is_of_system
from extender.gang.fit import (
    candidates,
    finds_no_node,
    fitting,
    is_readable,
    lacking_resources,
    packer_of,
    pod_shape,
)
from extender.gang.topology import Places
from extender.gang.verdicts import GangOptions, Room
from extender.resources.quantity import Resources, add
from extender.state.cluster.records import BudgetInfo, NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps, cut

PATIENCE_SECONDS: Final = 30.0
"""The time that a pod may take to leave beyond its grace period, and then the group to start."""
MOST_LOOKS: Final = 50_000
"""The number of labels and values to compare for the pods of one namespace in one search."""
_NONE: Mapping[str, int] = {}


class Budgets:
    """The budgets of the namespaces that were asked about."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._allowed: dict[str, int] = {}
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._named: dict[str, tuple[frozenset[str], int]] = {}
        """The labels that the budgets of a namespace name, and the cost of comparing them."""
        self._looks = Counter[str]()

    def of(self, pods: Iterable[PodInfo]) -> Mapping[str, int]:
        """Return the number of these pods that each budget selects, by the key of the budget."""
        found = Counter[str]()
        for pod in pods:
            budgets = self._view.budgets(pod.namespace)
            if budgets:
                found.update(self._about(pod, budgets))
        return found or _NONE

    def violations(self, units: Iterable["Unit"]) -> int:
        """Return the number of evictions beyond what the budgets allow, if these units go."""
        counts = Counter[str]()
        for part in (part for unit in units for part in unit.parts):
            counts.update(part.guarded)
        return sum(max(0, count - self._allowed[key]) for key, count in counts.items())

    def protected(self, units: Iterable["Unit"]) -> "set[Unit]":
        """Return those of these units that exceed a budget, if the first ones rather go."""
        taken, found = Counter[str](), set[Unit]()
        for unit in (each for each in units if each.guarded or each.beyond):
            if not found.isdisjoint(unit.beyond) or self.would_break(unit.guarded, taken):
                found.add(unit)
            else:
                taken.update(unit.guarded)
        return found

    def would_break(self, counts: Mapping[str, int], taken: Mapping[str, int] = _NONE) -> bool:
        """Return whether these evictions, beside those `taken`, are more than a budget allows."""
        return any(taken.get(key, 0) + n > self._allowed[key] for key, n in counts.items())

    def _about(self, pod: PodInfo, budgets: Collection[BudgetInfo]) -> tuple[str, ...]:
        """Return the keys of the budgets that select a pod.

        They are worked out once for all pods with the same values of the labels that budgets name.
        If that takes too long, because a tenant has made very many budgets, the remaining pods
        count as protected by all budgets.
        """
        namespace = pod.namespace
        if namespace not in self._named:
            found = frozenset(name for each in budgets for name in _names(each.selector))
            self._named[namespace] = found, sum(_cost(each.selector) for each in budgets)
        names, cost = self._named[namespace]
        labels = {name: value for name, value in pod.labels.items() if name in names}
        if pod.index is not None and INDEX_LABEL in names:
            labels.setdefault(INDEX_LABEL, str(pod.index))
        key = (namespace, *labels.items())
        if key in self._known:
            return self._known[key]
        if self._looks[namespace] > MOST_LOOKS:
            self._allowed[namespace] = 0
            return (namespace,)
        self._looks[namespace] += cost
        about = [each for each in budgets if matches_selector(each.selector, labels)]
        self._allowed.update({each.key: each.allowed for each in about})
        self._known[key] = tuple(each.key for each in about)
        return self._known[key]


def _names(selector: LabelSelector | None) -> list[str]:
    """Return the names of the labels that a selector compares."""
    if selector is None:
        return []
    return [*(selector.match_labels or ()), *(e.key for e in selector.match_expressions or ())]


def _cost(selector: LabelSelector | None) -> int:
    """Return the number of labels and values that a selector compares, and one for itself."""
    expressions = (selector.match_expressions if selector else None) or ()
    return 1 + len(_names(selector)) + sum(len(each.values or ()) for each in expressions)


# --- units -------------------------------------------------------------------------------------


class Rank(NamedTuple):
    """The importance of a unit: the least important unit goes first."""

    priority: int
    cost: int
    age: float
    """The negated time of its start: an older unit is more important."""
    part: int
    """The negated index of a member: a lower index is more important."""
    namespace: str
    name: str
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods that go together or not at all. Equality is identity."""

    pods: Sequence[PodInfo]
    group: str | None
    rank: Rank
    beyond: "Sequence[Unit]" = ()
    """The members of its gang above minMember, which go with it."""
    guarded: Mapping[str, int] = field(default_factory=dict)
    """The number of its pods that each budget selects."""

    @property
    def whole(self) -> bool:
        """True if it is a whole gang or job."""
        return self.rank.whole

    @property
    def parts(self) -> "tuple[Unit, ...]":
        """The units that go with it, itself first."""
        return (self, *self.beyond)

    @property
    def all_pods(self) -> tuple[PodInfo, ...]:
        """The pods that go with it, by name."""
        pods = (pod for each in self.parts for pod in each.pods)
        return tuple(sorted(pods, key=attrgetter("name")))


class Going:
    """The pods that leave anyway, whatever is chosen now."""

    def __init__(self, view: ClusterView, now: float) -> None:
        """`now` is in seconds since the epoch."""
        chosen = (each.victims for each in view.nominated.values())
        self._chosen, self._now = frozenset[str]().union(*chosen), now

    def leaves(self, pod: PodInfo) -> bool:
        """Return whether a pod is being deleted, or was chosen to make room for another gang."""
        return pod.terminating or pod.uid in self._chosen

    def is_in_time(self, pod: PodInfo) -> bool:
        """Return whether a pod that leaves is not late, so that its room may be waited for."""
        return pod.gone_by is None or self._now < pod.gone_by + PATIENCE_SECONDS


class Evictables:
    """The units of a cluster that a gang may take; each is made when a pod of it is asked about."""

    def __init__(
        self,
        group: str,
        priority: int,
        *,
        view: ClusterView,
        now: float,
        options: GangOptions,
        near: Callable[[str], bool],
    ) -> None:
        """`near` returns whether room on a node is of use to the gang."""
        self.budgets = Budgets(view)
        self._group, self._priority, self._near = group, priority, near
        self._view, self._now, self._options = view, now, options
        self.going = Going(view, now)
        self._of: dict[str, Unit | None] = {}
        """The unit of each pod of a gang or a workload that was asked about, by UID."""

    def of(self, pod: PodInfo) -> Unit | None:
        """Return the unit of a pod with a node; None if the pod stays."""
        if pod.group is None and pod.workload is None:
            return self._made([pod], None, _rank([pod])) if self._may_go(pod) else None
        if pod.uid not in self._of:
            self._read(pod)
        return self._of[pod.uid]

    def _may_go(self, pod: PodInfo) -> bool:
        return pod.priority < self._priority and not is_of_system(pod)

    def _is_lower(self, group: str | None) -> bool:
        """Return whether all members of a group that run, or could run, have a lower priority."""
        if group is None:
            return True
        highest = self._view.tally(group).worth
        return group != self._group and highest is not None and highest < self._priority

    def _read(self, pod: PodInfo) -> None:
        """Find the units of all pods that belong to a pod's gang or job."""
        view, group = self._view, pod.group
        pod_group = view.pod_group(group) if group is not None else None
        if pod.workload is not None:
            uids = view.of_workload(pod.workload)
            there = sorted((view.pods[uid] for uid in uids), key=attrgetter("name"))
        elif pod_group is not None:
            there = list(view.members(pod_group.key))
        else:
            there = [pod]  # its PodGroup was deleted: its pods are no gang any more
        running = [each for each in there if each.node is not None and not self.going.leaves(each)]
        self._of.update(dict.fromkeys([each.uid for each in running]))
        self._of[pod.uid] = None
        if all(map(self._is_lower, {each.group for each in there})):
            for unit in self._units(running, pod_group, is_job=pod.workload is not None):
                self._of.update(dict.fromkeys([each.uid for each in unit.pods], unit))

    def _units(
        self, running: Sequence[PodInfo], pod_group: PodGroupInfo | None, *, is_job: bool
    ) -> Iterator[Unit]:
        """Yield the units that may go of these pods, which are a gang, or a job of a queue."""
        if pod_group is not None and self._is_let_run(pod_group, running):
            return
        if is_job:
            found: Sequence[Unit | None] = [self._whole(running, pod_group, ())]
        elif pod_group is not None:
            found = self._of_gang(pod_group, running)
        else:
            found = [self._made([p], None, _rank([p])) for p in running if self._may_go(p)]
        yield from filter(None, found)

    def _is_let_run(self, pod_group: PodGroupInfo, running: Sequence[PodInfo]) -> bool:
        """Return whether a gang is starting, or has not run for long enough."""
        tally, least = self._view.tally(pod_group.key), self._options.runs_for(pod_group.min_run)
        starts = bool(tally.binding or tally.waiting)
        return starts or (least > 0 and self._now - _since(running, pod_group) < least)

    def _of_gang(self, pod_group: PodGroupInfo, running: Sequence[PodInfo]) -> list[Unit | None]:
        """Return the units of a gang: each member above minMember, and the rest.

        The members above minMember are chosen in this order: on nodes that are of use, not
        protected by a budget, of low priority and cost, with the highest index, the youngest.
        """
        above = max(0, len(running) - max(0, self._view.quorum(pod_group)))
        if not above:
            return [self._whole(running, pod_group, ())]
        able = [pod for pod in running if self._may_go(pod)]
        single = sorted(able, key=lambda pod: self._order(pod, pod_group))[:above]
        uids = {pod.uid for pod in single}
        rest = [pod for pod in running if pod.uid not in uids]
        most = _rank(rest, pod_group, whole=True) if rest else None
        if len(able) < len(running) or most is None:
            return [self._made([p], pod_group.key, _rank([p], pod_group)) for p in single]
        below = most._replace(whole=False)  # they go before the rest, whatever their cost
        beyond = [
            self._made([pod], pod_group.key, min(_rank([pod], pod_group), below)) for pod in single
        ]
        return [self._whole(rest, pod_group, beyond), *beyond]

    def _order(self, pod: PodInfo, pod_group: PodGroupInfo) -> tuple[object, ...]:
        """Return the sort key for the members of a gang: the first member goes first."""
        cost = _rank([pod], pod_group).cost
        index = -1 if pod.index is None else pod.index
        far = not self._near(pod.node or "")
        protected = self.budgets.would_break(self.budgets.of([pod]))
        return far, protected, pod.priority, cost, -index, -(pod.bound_at or pod.created), pod.name

    def _whole(
        self,
        pods: Sequence[PodInfo],
        pod_group: PodGroupInfo | None,
        beyond: Sequence[Unit],
    ) -> Unit | None:
        if not pods or not all(map(self._may_go, pods)):
            return None
        group = pod_group.key if pod_group is not None else None
        return self._made(pods, group, _rank(pods, pod_group, whole=True), beyond=beyond)

    def _made(
        self,
        pods: Sequence[PodInfo],
        group: str | None,
        rank: Rank,
        *,
        beyond: Sequence[Unit] = (),
    ) -> Unit:
        return Unit(pods, group, rank, beyond, self.budgets.of(pods))


def _rank(
    pods: Sequence[PodInfo], pod_group: PodGroupInfo | None = None, *, whole: bool = False
) -> Rank:
    """Return the rank of a unit. For a member its own cost goes before that of its PodGroup."""
    own = max([pod.cost for pod in pods if pod.cost is not None], default=None)
    of_group = pod_group.cost if pod_group is not None else None
    cost = (
        (of_group if own is None else own) if not whole else (own if of_group is None else of_group)
    )
    since = _since(pods, pod_group if whole else None)
    first = pods[0]
    name = pod_group.name if pod_group is not None and whole else first.name
    priority = max(pod.priority for pod in pods)
    part = 0 if whole or first.index is None else -first.index
    return Rank(priority, cost or 0, -since, part, first.namespace, name, whole)


def _since(pods: Sequence[PodInfo], pod_group: PodGroupInfo | None) -> float:
    """Return the time since which a gang, or the first of some pods, runs."""
    started = pod_group.started if pod_group is not None else None
    if started is not None:
        return started
    return min([pod.bound_at or pod.created for pod in pods], default=0.0)


# --- the search ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Preemption:
    """The chosen victims, and where the missing members go once the victims have gone."""

    group: str
    nodes: Mapping[str, Mapping[str, int]]
    """The room that is kept for members on each node."""
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


def _ways(
    pod_group: PodGroupInfo, pods: Sequence[PodInfo], *, view: ClusterView
) -> Steps[Sequence[Places]]:
    """Return the ways to place pods: on any node, in one of some domains, or as a queue chose."""
    if pod_group.assigned:
        return [(yield from topology.places_of(pods, pod_group, view=view))]
    asked = topology.topology_of(pod_group)
    if asked is None or not asked.required:
        return [[([*view.nodes.values()], pods)]]
    pinned = set(filter(None, topology.domains_in_use(pod_group.key, asked, view=view)))
    there = domains.by_label(view.nodes.values(), asked.label)
    return [[(nodes, pods)] for value, nodes in there.items() if not pinned or value in pinned]


def _near(ways: Iterable[Places], *, view: ClusterView) -> Steps[Mapping[str, NodeInfo]]:
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
        way: Places,
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
    fit = yield from fitting(pods, len(pods), group=pod_group.key, view=view, gone=gone)
    short = yield from lacking_resources(pod_group, view=view)
    for some in cut([pod for unit in victims for part in unit.parts for pod in part.pods]):
        for pod, name in product(some, short):
            short[name] -= pod.shape.requests.get(name, 0)
        yield
    if not fit.complete or any(amount > 0 for amount in short.values()):
        return None
    amounts: dict[str, Resources] = {}
    for pod in sorted(pods, key=lambda each: fit.placements[each.uid]):
        add(amounts.setdefault(fit.placements[pod.uid], {}), pod.shape.requests)
    found = Preemption(pod_group.key, amounts, tuple(victims), fit.placements)
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
    return _leave_room(found, view=view, going=going)


def _leave_room(found: Preemption, *, view: ClusterView, going: Going) -> bool:
    """Return whether the nodes have room for all members once the victims are gone."""
    priority, room = view.tally(found.group).priority, dict[str, Resources]()
    for unit in found.victims:
        for pod in unit.all_pods:
            add(room.setdefault(pod.node or "", {}), pod.shape.requests)
    for name, amounts in found.nodes.items():
        node = view.nodes.get(name)
        if node is None or not node.ready:
            return False
        left = view.free(node, priority=priority, group=found.group)
        add(left, room.get(name, {}))
        for uid in view.pods_on(name):
            pod = view.pods[uid]
            if going.leaves(pod) and going.is_in_time(pod):
                add(left, pod.shape.requests)
        if any(amount > left.get(what, 0) for what, amount in amounts.items() if amount):
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
