"""Claims to room for groups that have waited long, so that a stream of small ones cannot pass them.

Nobody knows when running pods will end, so a claim names nodes. The first are those on which pods
leave the most of one resource: the one of which the group's pods ask for the largest share of the
largest node, so that the least has to end there before the group fits. Only
pods of a higher priority, and pods that fit beside the claim, then get room on the claimed nodes.
Other nodes stay open to all (backfill). If the claimed nodes stay full, the claim grows twice as
the group goes on waiting.

Claims are made in the order of waiting, not of failures. Only a group that lacks room has a claim.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from extender.fit import domains
from extender.fit.candidates import (
    Candidates,
    Conflicts,
    Feasibility,
    Placed,
    PodShape,
    RoomLeft,
    is_feasible,
)
from extender.fit.packer import Found, Packer, Wanted
from extender.gang import gates, topology
from extender.gang.fit import candidates, fits, fitting, pod_shape
from extender.gang.topology import Places
from extender.gang.verdicts import GangOptions
from extender.gang.victims import PATIENCE_SECONDS
from extender.resources.quantity import CPU, MEMORY, PODS, Resources, add, subtract
from extender.state.cluster.records import Domain, NodeInfo, PodGroupInfo, PodInfo, Shape
from extender.state.cluster.reservations import Claim
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, FairShare, Steps

MOST = 20
"""The largest number of claims, of groups without a claim that are tried in one look, and of a
group's pod shapes that decide which nodes it can use."""
LARGEST = 3
"""The largest multiple of its own room that a group may claim. Pods of services never end, and
their new pods must find room whatever a gang waits for. On a cluster that grows it is one: no node
is added for the pods that are kept off."""


@dataclass(frozen=True, slots=True)
class _Aged:
    """A group that has waited long, and where it may have a claim."""

    pod_group: PodGroupInfo
    priority: int
    periods: int
    pods: Sequence[PodInfo]
    """The pods that the group still needs."""
    assigned: Sequence[Domain | None]
    """The domain of each of `pods`; empty unless a queue has chosen domains."""
    places: Places
    """The nodes that a queue has chosen, and the pods that go there."""
    domains: Mapping[str, frozenset[str]] | None
    """The nodes of each domain that may take the group; None if it needs no single domain."""

    @property
    def shapes(self) -> Sequence[Shape]:
        """The first shapes of `pods`: they decide which nodes the group may use."""
        return tuple(islice(dict.fromkeys(pod.shape for pod in self.pods), MOST))

    @property
    def demand(self) -> tuple[object, ...]:
        """The demand that a claim is made for. The claim ends when the demand changes."""
        shapes = tuple(pod.shape for pod in self.pods)
        return shapes, self.priority, self.assigned, self.periods


def deciding(
    share: FairShare,
    *,
    view: ClusterView,
    now: float,
    options: GangOptions,
    entered: Mapping[str, float] = MappingProxyType({}),
    schedulers: Collection[str] | None = None,
) -> Steps[Sequence[Claim]]:
    """Return all claims that are due, in order of their turns; times in seconds since the epoch.

    `share` chooses the groups without a claim that are looked at. A claim that was made earlier
    keeps its nodes while its size is still right and no claim before it needs them. `entered` has
    the time when each group was seen to enter the queue. Groups with pods of schedulers other than
    `schedulers` get no claim. The options limit the claims of a namespace and the nodes that they
    name.
    """
    if not options.aging or not view.queue:
        return ()
    look = _Look(view, max(1, len(view.nodes) * options.claim_nodes_percentage // 100))
    turns = yield from _turns(view, now, options.aging, entered=entered)
    others = (group for _, group in turns if group not in view.claims)
    looked_at = {*view.claims, *(yield from share.choosing(others))}
    for since, group in turns:
        yield
        if len(look.claims) >= MOST or group not in looked_at:
            continue
        if look.groups[group.partition("/")[0]] >= options.claims_per_namespace:
            continue
        periods = min(int((now - since) / options.aging), 1 if options.growing else LARGEST)
        aged = yield from _aged(group, periods, view=view)
        if aged is None or not all(
            schedulers is None or pod.scheduler in schedulers or pod.is_gated_by_us
            for pod in aged.pods
        ):
            continue
        claim = yield from look.claim(aged, now)
        if claim is not None:
            look.put(claim)
    return tuple(look.claims)


def waits_since(pod_group: PodGroupInfo, *, view: ClusterView) -> float:
    """Return the time at which the group had the pods that it needs, in seconds since the epoch."""
    quorum = view.quorum(pod_group)
    created = sorted(pod.created for pod in view.members(pod_group.key))
    return max(pod_group.created, created[quorum - 1] if 0 < quorum <= len(created) else 0.0)


def published(
    view: ClusterView, now: float, *, options: GangOptions, entered: Mapping[str, float]
) -> dict[str, tuple[str, ...]]:
    """Return the nodes that autoscalers are to count as taken, by the first group to claim them."""
    found, taken = dict[str, tuple[str, ...]](), set[str]()
    for group, claim in view.claims.items():
        pod_group, names = view.pod_group(group), claim.amounts.keys() - taken
        taken |= names  # also of one that could start: it takes the room itself
        if names and pod_group is not None and claim.fits_since is None:
            since = max(waits_since(pod_group, view=view), entered.get(group, 0.0))
            # Until then an autoscaler may add what the group lacks beside its free nodes.
            if 0.0 < options.publishes_after <= now - since:
                found[group] = tuple(sorted(names))
    return found


def free_on_kept(view: ClusterView) -> dict[str, tuple[PodGroupInfo, Resources]]:
    """Return, for each node that a waiting group's status names, that group and the free room."""
    found, left = dict[str, tuple[PodGroupInfo, Resources]](), view.left.all()
    for pod_group in filter(None, map(view.pod_group, view.queue)):
        if not pod_group.kept_nodes:
            continue
        asks = (pod.shape.requests for pod in view.members(pod_group.key))
        asked = {CPU, MEMORY}.union(*asks) - {PODS}
        for name in pod_group.kept_nodes:
            there = left.get(name, {})
            if free := {what: there[what] for what in sorted(asked) if there.get(what, 0) > 0}:
                found.setdefault(name, (pod_group, free))
    return found


def _turns(
    view: ClusterView, now: float, aging: float, *, entered: Mapping[str, float]
) -> Steps[list[tuple[float, str]]]:
    """Return the groups that have waited long and since when, in the order of their claims."""
    found = []
    for key in list(view.queue):
        yield
        pod_group = view.pod_group(key)
        if pod_group is None or now - max(pod_group.created, entered.get(key, 0.0)) < aging:
            continue
        since = max(waits_since(pod_group, view=view), entered.get(key, 0.0))
        if now - since >= aging:
            found.append((-view.tally(key).priority, since, pod_group.version, key))
    return [(since, key) for _, since, _, key in sorted(found)]


def _aged(key: str, periods: int, *, view: ClusterView) -> Steps[_Aged | None]:
    """Return a group that has waited long; None where it lacks no pods, or pods to place."""
    pod_group, tally = view.pod_group(key), view.tally(key)
    if pod_group is None:
        return None
    missing = view.quorum(pod_group) - tally.committed
    pods = candidates(None, key, view=view)[: max(0, missing)]
    if missing <= 0 or len(pods) < missing:
        return None
    assigned: Sequence[Domain | None] = ()
    places: Places = ()
    if pod_group.assigned:
        by_uid = topology.domains_of_members(pods, pod_group, view=view)
        assigned = tuple(by_uid.get(pod.uid) for pod in pods)
        places = yield from topology.places_of(pods, pod_group, view=view)
    within = _domains(pod_group, places, view=view)
    return _Aged(pod_group, tally.priority, periods, pods, assigned, places, within)


def _domains(
    pod_group: PodGroupInfo, places: Places, *, view: ClusterView
) -> Mapping[str, frozenset[str]] | None:
    """Return the nodes of each domain that may take all pods of a group; None if any node may.

    The `places` that a queue has chosen count as one domain.
    """
    if pod_group.assigned:
        return {"": frozenset(node.name for nodes, _ in places for node in nodes)}
    asked = topology.topology_of(pod_group)
    if asked is None or not asked.required:
        return None
    pinned = {*topology.domains_in_use(pod_group.key, asked, view=view)}
    there = domains.by_label(view.nodes.values(), asked.label)
    return {
        value: frozenset(node.name for node in nodes)
        for value, nodes in there.items()
        if not pinned or pinned == {value}
    }


@dataclass(slots=True)
class _Look:
    """One look at all groups in turn, and the claims so far, which go before the next one."""

    view: ClusterView
    limit: int
    """The number of nodes on which one namespace may have claims."""
    claims: list[Claim] = field(default_factory=list)
    taken: dict[str, Resources] = field(default_factory=dict)
    barred: set[str] = field(default_factory=set)
    places: tuple[object, ...] = ()
    groups: Counter[str] = field(default_factory=Counter)
    """The number of groups with a claim, by namespace."""
    nodes: dict[str, set[str]] = field(default_factory=dict)
    """The claimed nodes, by namespace."""

    def put(self, claim: Claim) -> None:
        """Have later groups leave a claim what it needs."""
        self.claims.append(claim)
        if claim.limit is not None:
            return  # it takes nothing from the other groups of its namespace
        for node, amounts in claim.amounts.items():
            add(self.taken.setdefault(node, {}), amounts)
        self.barred |= claim.barred
        self.places += ((claim.owner, tuple(claim.amounts), claim.barred),)
        namespace = claim.owner.partition("/")[0]
        self.groups[namespace] += 1
        self.nodes.setdefault(namespace, set()).update(claim.amounts)

    def claim(self, aged: _Aged, now: float) -> Steps[Claim | None]:
        """Return a group's claim; None if it has room without one, or has long had room with one.

        A group with room starts within `PATIENCE_SECONDS`, or waits for something that no claim
        brings about, for example a volume.
        """
        group, wanted = aged.pod_group.key, len(aged.pods)
        present, fits_since = self.view.claims.get(group), None
        found = yield from fitting(aged.pods, wanted, group=group, view=self.view)
        if found.complete:
            if present is None or not present.amounts:
                return None
            fits_since = now if present.fits_since is None else present.fits_since
            if now - fits_since > PATIENCE_SECONDS:
                return None
        if present is None or not (yield from self._is_still_valid(aged, present)):
            present = yield from self._new(aged)
        return replace(present, fits_since=fits_since)

    def _allowed(self, aged: _Aged) -> int:
        """Return the number of further nodes that the group's namespace may claim."""
        return self.limit - len(self.nodes.get(aged.pod_group.key.partition("/")[0], ()))

    def _is_still_valid(self, aged: _Aged, claim: Claim) -> Steps[bool]:
        """Return whether nothing that a claim was based on has changed."""
        if not claim.amounts:
            return claim.made_for == self._facts(aged)
        names = claim.amounts.keys()
        if len(names) > self._allowed(aged):
            return False
        if aged.domains is not None and not any(names <= each for each in aged.domains.values()):
            return False
        uses = yield from self._uses(aged, names)
        if claim.made_for != (*aged.demand, uses):
            return False
        for name, amounts in claim.amounts.items():
            node = self.view.nodes.get(name)
            if node is None or not fits(amounts, self._left(node)):
                return False
        return True

    def _uses(self, aged: _Aged, names: Iterable[str]) -> Steps[tuple[object, ...]]:
        """Return which pods of the group may go to each of some nodes."""
        found, shapes = list[tuple[object, ...]](), aged.shapes
        for number, name in enumerate(sorted(names), 1):
            node = self.view.nodes.get(name)
            found.append((name, *(node and is_feasible(shape, node) for shape in shapes)))
            if number * len(shapes) % PIECE < len(shapes):
                yield
        return tuple(found)

    def _facts(self, aged: _Aged) -> tuple[object, ...]:
        """Return the facts for which a group has a claim without rooms."""
        return *aged.demand, self.places, self.view.nodes_version

    def _left(self, node: NodeInfo) -> Resources:
        """Return what a node has beside the claims so far."""
        left = dict(node.allocatable)
        subtract(left, self.taken.get(node.name, {}))
        return left

    def _usable(self, aged: _Aged, names: Iterable[str]) -> set[str]:
        """Return those of some nodes that pods of the group may use."""
        shapes = aged.shapes
        there = (self.view.nodes[name] for name in names if name in self.view.nodes)
        within = None if aged.domains is None else frozenset[str]().union(*aged.domains.values())
        return {
            node.name
            for node in there
            if (within is None or node.name in within)
            and any(is_feasible(shape, node) for shape in shapes)
        }

    def _new(self, aged: _Aged) -> Steps[Claim]:
        """Return a claim beside the earlier ones, without rooms if the group finds none.

        A claim without rooms bars later groups from the nodes that the group could use, until the
        group has started. If the namespace may not claim as many nodes as the group needs, the
        claim has the limit and bars no node.
        """
        group, priority, rooms = aged.pod_group.key, aged.priority, dict[str, Resources]()
        wanted, allowed = Counter(map(pod_shape, aged.pods)).items(), self._allowed(aged)
        for nodes in (yield from self._in_order(aged, [*wanted])):
            candidates = Candidates(
                Feasibility(self.view),
                self.view.left,
                unbound=True,
                emptiest_first=True,
                within=nodes,
            )
            packer = self._packer(group, candidates)
            found = yield from self._filled(aged, packer, candidates, wanted=wanted)
            if not found.missing:
                break
        else:
            never = yield from gates.never_fits(aged.pod_group, view=self.view)
            barred = set[str]()
            names = list(self.view.nodes) if never is None else []
            for number in range(0, len(names), PIECE):
                barred |= self._usable(aged, names[number : number + PIECE])
                yield
            asks = self._facts(aged)
            return Claim(group, priority, {}, made_for=asks, barred=frozenset(barred))
        for period in range(aged.periods):
            if period:
                found = yield from self._filled(aged, packer, candidates, wanted=wanted)
            complete = _add(found.placed, rooms, most=allowed)
            if not period and not complete:
                return Claim(group, priority, {}, made_for=self._facts(aged), limit=self.limit)
            if found.missing or not complete:
                break
        uses = yield from self._uses(aged, rooms)
        return Claim(group, priority, rooms, made_for=(*aged.demand, uses))

    def _in_order(
        self, aged: _Aged, wanted: Sequence[Wanted]
    ) -> Steps[Sequence[Collection[str] | None]]:
        """Return the nodes of each domain, the domain with room for the most pods first."""
        view = self.view
        if aged.domains is None:
            return [None]
        there = {
            value: [view.nodes[name] for name in names if name in view.nodes]
            for value, names in aged.domains.items()
        }
        left, feasible = view.left.all(), Feasibility(view)
        counts = yield from domains.counting(
            there,
            wanted,
            amounts=lambda node: left.get(node.name, {}),
            allowing=lambda pod: feasible.of(pod.shape).allows,
        )
        order = sorted(there, key=lambda value: (-counts[value], -len(there[value]), value))
        return [aged.domains[value] for value in order]

    def _packer(self, group: str, candidates: Candidates) -> Packer:
        """Return a packer of these nodes with the room that earlier claims leave on them."""

        def room(node: NodeInfo) -> Resources:
            return {} if node.name in self.barred else self._left(node)

        def siblings(node: str) -> Iterator[PodShape]:
            return (pod_shape(pod) for pod in self.view.shunning(node) if pod.group == group)

        return Packer(candidates, RoomLeft(room, Conflicts(siblings)))

    def _filled(
        self, aged: _Aged, packer: Packer, candidates: Candidates, *, wanted: Collection[Wanted]
    ) -> Steps[Found]:
        """Place the pods once more, each in the place, if any, that a queue has chosen for it."""
        if not aged.places:
            return (yield from packer.fill(wanted))
        found, orders, looked = Found(), dict[PodShape, dict[str, int]](), 0
        for nodes, pods in aged.places:
            for pod, count in Counter(map(pod_shape, pods)).items():
                if pod not in orders:
                    orders[pod] = yield from _numbered(candidates.emptiest_first(pod))
                looked += max(1, len(nodes))
                if looked > PIECE:
                    looked = 0
                    yield
                order = orders[pod]
                able = {order[node.name]: node for node in nodes if node.name in order}
                placed = packer.put_on((able[number] for number in sorted(able)), pod, count)
                found.placed += placed
                left = count - sum(each.count for each in placed)
                if left:
                    found.missing.append((pod, left))
        return found


def _add(placed: Sequence[Placed], rooms: dict[str, Resources], *, most: int) -> bool:
    """Add the rooms found, on at most so many nodes; return whether all were added."""
    for each in placed:
        name = each.node.name
        if name not in rooms and len(rooms) >= most:
            return False
        add(rooms.setdefault(name, {}), each.amounts)
    return True


def _numbered(nodes: Iterable[NodeInfo | None]) -> Steps[dict[str, int]]:
    """Return the number of each node, by name, in the order of the nodes."""
    found: dict[str, int] = {}
    for node in nodes:
        if node is None:
            yield
        else:
            found[node.name] = len(found)
    return found
