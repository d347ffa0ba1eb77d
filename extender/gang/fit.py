"""Finds places for the members of a gang on the nodes as they are now.

The packer (`extender/fit`) works with counts of equal pods. This module counts the members for it,
and gives the nodes that it finds to the members in their order.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from extender.api.values import remembered
from extender.api.wellknown import ZONE_LABEL
from extender.fit import domains
from extender.fit.candidates import Candidates, Conflicts, Feasibility, Placed, PodShape, RoomLeft
from extender.fit.domains import Domains
from extender.fit.packer import Packer, Promised, Wanted
from extender.gang import topology
from extender.gang.topology import GroupTopology
from extender.gang.verdicts import Room, is_ours, room_on
from extender.resources.quantity import PODS, Resources, add, show, subtract
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

_ROOM_TEXT: Final = re.compile(
    r"\bInsufficient \S|\bToo many pods\b"
    r"|\bno nodes available to schedule pods\b|\b0/0 nodes are available\b"
)
"""The words with which kube-scheduler says that a node is full or missing."""
_TAINT: Final = r"\d+ node\(s\) had untolerated taint(?:\(s\))?(?: \{[^}]*\})?"
_LABELS: Final = r"\d+ node\(s\) (?:didn't match Pod's node affinity/selector|were unschedulable)"
_SEEN_TEXT: Final = re.compile(
    rf"0/\d+ nodes are available: (?:{_LABELS}, )*{_TAINT}(?:, (?:{_TAINT}|{_LABELS}))*(?:\.|$)"
)
"""A text about taints, with no other cause than what plans read from the nodes themselves: a node
that boots has taints, whatever their names, and counts for a plan once they are gone."""
_NUMBERS: Final = re.compile(r"(\d+)")
_NAMES: Final = 1 << 14
"""The number of node names whose split is remembered: a large gang has as many places as pods."""

MOST_TRIES: Final = 8
"""The most domains that are added one by one if unlike pods find too little room in the fewest, and
the most that are searched for what they lack if none takes all pods."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The node of each member that fits, by UID, and what the nodes lack for the others."""

    placements: Mapping[str, str]
    wanted: int
    short: Mapping[str, int] = field(default_factory=dict)
    shortage: Callable[[], Steps[Resources]] | None = field(default=None, compare=False)
    """The function that computes `short`. Most failed plans are never asked for it."""
    where: str = ""
    """The domain to which the nodes belong, as the end of a sentence."""

    @property
    def complete(self) -> bool:
        """True if as many pods fit as were wanted."""
        return len(self.placements) >= self.wanted

    @property
    def count(self) -> int:
        """The number of pods that fit."""
        return len(self.placements)

    @property
    def missing(self) -> int:
        """The number of wanted pods that do not fit."""
        return self.wanted - len(self.placements)

    def explained(self) -> "Steps[Fit]":
        """Return the same fit with `short` filled in."""
        short = (yield from self.shortage()) if self.shortage is not None else self.short
        return Fit(self.placements, self.wanted, short, where=self.where)

    def sentence(self) -> str:
        """Return a sentence that says with numbers what is missing."""
        fits = (
            f"{len(self.placements)} of the {self.wanted} pods that it still needs fit{self.where}"
        )
        if not self.short:
            return f"{fits}, no node {'there ' if self.where else ''}has room for another"
        return f"{fits}, short of {listed(self.short)}"


def listed(amounts: Mapping[str, int]) -> str:
    """Return amounts as text."""
    return ", ".join(f"{name} {show(name, value)}" for name, value in sorted(amounts.items()))


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes that kube-scheduler found feasible for a pod; `complete` if it sent all of them."""

    nodes: Sequence[str] = ()
    complete: bool = False


NO_OFFER: Final = Offer()


def fits(requests: Mapping[str, int], free: Mapping[str, int]) -> bool:
    """Return whether free amounts cover requests; a request of zero always fits."""
    return all(value <= free.get(name, 0) or not value for name, value in requests.items())


def candidates(pod: PodInfo | None, group: str, *, view: ClusterView) -> list[PodInfo]:
    """Return the other members that may still be placed, in the order in which they get room.

    Members that only our own gate holds back are included: the gate goes when there is a plan.
    Members of another scheduler than that of `pod` are left out, and so are those whose jobs are
    not admitted for more pods beside `pod`.
    """
    able = [
        sibling
        for sibling in view.members(group)
        if (pod is None or (sibling.uid != pod.uid and sibling.scheduler == pod.scheduler))
        and sibling.node is None
        and (not sibling.gates or sibling.is_gated_by_us)
        and not sibling.terminating
        and view.reservation(sibling.uid) is None
    ]
    able.sort(key=lambda p: (-p.priority, p.index or 0, p.created, p.name))
    return view.admitted_of(able, first=pod)


def finds_no_node(pod: PodInfo, group: str) -> bool:
    """Return whether kube-scheduler found no node for a pod, for a reason that no plan can see.

    Plans see room and taints: a pod that lacked room is tried again when there is some.
    """
    text = pod.unschedulable
    if text is None or is_ours(text, group):
        return False
    return not _ROOM_TEXT.search(text) and not _SEEN_TEXT.match(text)


def is_readable(group: str, *, view: ClusterView) -> bool:
    """Return whether the extender itself can tell where all pods of a group may go."""
    return not any(pod.shape.individually_constrained for pod in view.members(group))


def fitting(  # noqa: PLR0913 - each is a fact of its own
    pods: Sequence[PodInfo],
    wanted: int,
    *,
    group: str,
    view: ClusterView,
    offer: Offer = NO_OFFER,
    room: Room = Room.FREE,
    gone: Sequence[Placed] = (),
) -> Steps[Fit]:
    """Place `wanted` of a group's pods, always including the first; others may be passed over.

    Pods that are `gone` count as having left their nodes.

    The nodes that kube-scheduler offers for the first pod are feasible for every pod of its shape.
    They are used first; if the offer is complete, that shape uses no others. Next are the nodes
    that kube-scheduler found feasible for an equal pod before: on these, members may be bound
    together. If the group asks for a topology, its pods go to one domain, or to as few as possible.
    Within the domains its placement decides which nodes they use.
    """
    asked = topology.topology_of(view.pod_group(group))
    places = _Places(pods, wanted, group, view, offer, room, asked, gone)
    pod_group = view.pod_group(group)
    if pod_group is not None and pod_group.assigned:
        return (yield from _as_assigned(places, pod_group))
    return (yield from places.on(None) if asked is None else _in_domains(places, asked))


def _as_assigned(places: "_Places", pod_group: PodGroupInfo) -> Steps[Fit]:
    """Place pods in the domains that a queue has chosen for them, always including the first."""
    pods, wanted, view = places.pods, places.wanted, places.view
    packer = packer_of(places.group, view=view, room=places.room)
    if places.offer.nodes and places.room is not Room.EMPTY:
        packer.offer(pod_shape(pods[0]), places.offer.nodes, only=places.offer.complete)
    granted = _granted(places.group, places.room, view=view, offer=places.offer)
    there = yield from topology.places_of(pods, pod_group, view=view, granted=granted)
    placements: dict[str, str] = {}
    missing: list[PodInfo] = []
    with packer.without(places.gone):
        for nodes, members in there:
            alike: dict[PodShape, list[PodInfo]] = {}
            for pod in members:
                alike.setdefault(pod_shape(pod), []).append(pod)
            for shape, some in alike.items():
                count = min(len(some), wanted - len(placements))
                found = packer.put_on(nodes, shape, count) if count > 0 else []
                names = [each.node.name for each in found for _ in range(each.count)]
                placements |= {pod.uid: name for pod, name in zip(some, names, strict=False)}
                missing += some[len(names) :]
                yield
            if pods[0].uid not in placements:
                placements, missing = {}, [*pods]
                break
    short = partial(packer.short, Counter(map(pod_shape, missing)).items())
    if len(placements) >= wanted:
        return Fit(placements, wanted)
    return Fit(placements, wanted, shortage=short, where=" in the domains that its queue chose")


def _in_domains(places: "_Places", asked: GroupTopology) -> Steps[Fit]:
    """Place pods in one domain of the topology that their group asks for, or in few."""
    pods, wanted, group, view = places.pods, places.wanted, places.group, places.view
    offer, room = places.offer, places.room
    there = domains.by_label(view.nodes.values(), asked.label)
    pinned = [*dict.fromkeys(filter(None, topology.domains_in_use(group, asked, view=view)))]
    if asked.required and pinned:
        there = {value: nodes for value, nodes in there.items() if value in pinned}
    counts = Counter(pod_shape(pod) for pod in pods)
    counting = partial(
        domains.counting,
        there,
        [*counts.items()],
        allowing=_allowing(pods[0], view=view, offer=offer, room=room),
    )
    order = (view.whole if room is Room.EMPTY else view.left).all()
    at_most = yield from counting(amounts=places.with_gone(lambda n: order.get(n.name, {})))
    sent = frozenset(offer.nodes)
    has_sent = {value for value, nodes in there.items() if any(n.name in sent for n in nodes)}
    capacity, fill, first = at_most, places.on, has_sent.__contains__
    if not asked.required:
        # If the group has pods somewhere, only a domain in use avoids adding another one.
        usable = pinned or there
        at_most = {value: n for value, n in at_most.items() if n >= wanted and value in usable}
    found = yield from in_one(
        there, wanted, at_most=at_most, equal=len(counts) == 1, first=first, fill=fill
    )
    if found.complete or asked.required:
        return found
    if view.keeps_room and room is not Room.EMPTY:
        priority = view.tally(group).priority
        on = partial(room_on, room=room, view=view, priority=priority, group=group)
        capacity = yield from counting(amounts=places.with_gone(on))
    few = _in_few(there, wanted, pinned=pinned, capacity=capacity, fill=fill)
    return (yield from few)


_Fill = Callable[[Sequence[NodeInfo] | None], Steps[Fit]]
"""Places the pods on these nodes alone, or on all."""


def in_one(
    there: Domains,
    wanted: int,
    *,
    at_most: Mapping[str, int],
    equal: bool,
    first: Callable[[str], bool],
    fill: _Fill,
) -> Steps[Fit]:
    """Return where the pods go in one domain, or the most of them that one domain takes.

    Of the domains that take all, the smallest is chosen, of those where `first` holds. The most is
    exact for `equal` pods; for others some of the largest domains are looked at.
    """
    best: Fit | None = None
    in_vain = 0
    for value in _in_order(at_most, wanted, first):
        if best is not None and best.count >= min(at_most[value], wanted):
            continue
        if at_most[value] < wanted and not equal:
            in_vain += 1
            if in_vain > MOST_TRIES:
                break
        found = yield from fill(there[value])
        if found.complete:
            return found
        best = found if best is None or found.count > best.count else best
        yield
    return best if best is not None else (yield from fill(()))


def _in_few(
    there: Domains,
    wanted: int,
    *,
    pinned: Sequence[str],
    capacity: Mapping[str, int],
    fill: _Fill,
) -> Steps[Fit]:
    """Return where the pods go in as few domains as possible; else on any nodes.

    Domains that are `pinned` hold pods of the group already, and come first.
    """
    chosen = [value for value in pinned if value in there]
    rest = max(0, wanted - sum(capacity[value] for value in chosen))
    others = {value: n for value, n in capacity.items() if value not in chosen and n}
    chosen += domains.fewest(others, rest) if rest else ()
    later = sorted(others.keys() - set(chosen), key=lambda value: (-others[value], value))
    enough = sum(capacity[value] for value in chosen) >= wanted
    for more in range(min(MOST_TRIES, len(later) + 1) if enough else 0):
        values = [*chosen, *later[:more]]
        found = yield from fill([node for value in values for node in there[value]])
        if found.complete:
            return found
        yield
    return (yield from fill(None))


def _in_order(
    at_most: Mapping[str, int], wanted: int, first: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the domains that may take all, the smallest first, and then the largest others."""
    enough = [value for value, n in at_most.items() if n >= wanted]
    yield from sorted(enough, key=lambda value: (not first(value), at_most[value], value))
    others = [value for value, n in at_most.items() if 0 < n < wanted]
    yield from sorted(others, key=lambda value: (-at_most[value], value))


def _allowing(
    pod: PodInfo, *, view: ClusterView, offer: Offer, room: Room
) -> Callable[[PodShape], Callable[[NodeInfo], bool]]:
    """Return a test of the nodes that pods may use; an offer for the first holds for its equals."""
    feasible, lead = Feasibility(view), pod_shape(pod)
    sent = frozenset(offer.nodes if room is not Room.EMPTY else ())

    def allowing(asked: PodShape) -> Callable[[NodeInfo], bool]:
        allows = feasible.of(asked.shape).allows
        if asked != lead or not sent:
            return allows
        if offer.complete:
            return lambda node: node.name in sent
        return lambda node: node.name in sent or allows(node)

    return allowing


@dataclass(frozen=True, slots=True)
class _Places:
    """A search for places for pods of a group. The fields are the arguments of `fitting`."""

    pods: Sequence[PodInfo]
    wanted: int
    group: str
    view: ClusterView
    offer: Offer
    room: Room
    asked: GroupTopology | None
    gone: Sequence[Placed] = ()

    def with_gone(self, amounts: domains.Amounts) -> domains.Amounts:
        """Return the amounts by node, plus the amounts of the pods that are gone."""
        more: dict[str, Resources] = {}
        for each in self.gone:
            add(more.setdefault(each.node.name, {}), each.amounts)
        if not more:
            return amounts

        def together(node: NodeInfo) -> Mapping[str, int]:
            found = amounts(node)
            if node.name in more:
                found = Resources(found)
                add(found, more[node.name])
            return found

        return together

    def on(self, among: Sequence[NodeInfo] | None) -> Steps[Fit]:
        """Place the pods on these nodes, or on all."""
        within = None if among is None else [node.name for node in among]
        there: dict[Shape, list[PodInfo]] = {}
        for pod in self.pods:
            there.setdefault(pod.shape, []).append(pod)
        shapes = {shape: pod_shape(alike[0]) for shape, alike in there.items()}
        packer, lead = (
            packer_of(self.group, view=self.view, room=self.room, within=within),
            shapes[self.pods[0].shape],
        )
        if self.offer.nodes and self.room is not Room.EMPTY:
            packer.offer(lead, self.offer.nodes, only=self.offer.complete)
        for shape, alike in there.items() if self.room is Room.FREE else ():
            pattern = alike[0].pattern
            good = self.view.good_nodes(pattern) if pattern is not None else ()
            if good:
                packer.prefer(shapes[shape], good)
        names = None if within is None else frozenset(within)
        gone = [each for each in self.gone if names is None or each.node.name in names]
        choice = (
            topology.placement_choice(self.group, view=self.view)
            if self.room is Room.FREE
            else None
        )
        with packer.without(gone):
            found = yield from packer.fill(
                [(shapes[shape], len(alike)) for shape, alike in there.items()],
                first=_granted(self.group, self.room, view=self.view, offer=self.offer),
                most=self.wanted,
                lead=lead,
                choice=choice,
            )
        places: dict[Shape, list[NodeInfo]] = {}
        for each in found.placed:
            places.setdefault(each.pod.shape, []).extend([each.node] * each.count)
        label, placements = self.asked.label if self.asked is not None else None, dict[str, str]()
        for shape, nodes in places.items():
            some = there[shape][: len(nodes)]
            # Only the pod that is tried needs a node that was sent.
            sent = self.offer.nodes if shapes[shape] == lead else ()
            placements |= _in_rank_order(some, nodes, label=label, sent=sent)
        if self.pods[0].uid not in placements:
            placements = {}
        missing = self.wanted - len(placements)
        # If the first pod has no place, the shortage is that of the first pods, not of the hardest.
        lacking = (
            found.missing
            if placements
            else Counter(shapes[p.shape] for p in self.pods[:missing]).items()
        )
        short = partial(packer.short, [*_first(missing, lacking)]) if missing > 0 else None
        where = _where(self.asked, self.group, view=self.view) if within is not None else ""
        return Fit(placements, self.wanted, shortage=short, where=where)


def _where(asked: GroupTopology | None, group: str, *, view: ClusterView) -> str:
    if asked is None or not asked.required:
        return ""
    has_some = any(True for _ in topology.domains_in_use(group, asked, view=view))
    return f" in {'its' if has_some else 'one'} domain of '{asked.label}'"


def packer_of(
    group: str, *, view: ClusterView, room: Room, within: Collection[str] | None = None
) -> Packer:
    """Return a packer of the nodes with the room of a kind that they have for a group.

    If `within` is given, only these nodes are used.
    """
    # The lowest priority of a gang counts: it must not start on room that is kept for a higher one.
    priority = view.tally(group).priority
    on = partial(room_on, room=room, view=view, priority=priority, group=group)
    if room is Room.EMPTY:
        return Packer(
            Candidates(Feasibility(view), view.whole, within=within), RoomLeft(on, Conflicts())
        )
    beside = partial(_beside, room=room, view=view, priority=priority, group=group)
    return Packer(
        Candidates(Feasibility(view), view.left, within=within), RoomLeft(on, Conflicts(beside))
    )


def _beside(
    node: str, *, room: Room, view: ClusterView, priority: int, group: str
) -> Iterator[PodShape]:
    """Yield the pods that count as being on a node and cannot share it with every other pod.

    These are pods whose amounts count as taken on the node (`room_on`).
    """
    kept = view.planned_on(node)
    for pod in view.shunning(node):
        counts = pod.priority >= priority if room is Room.FREE else pod.group == group
        if counts or pod.uid not in kept:
            yield pod_shape(pod)


def pod_shape(pod: PodInfo) -> PodShape:
    """Return the shape of a pod; pods that go one to a node are told apart by their group."""
    alone = (pod.group, pod.shape) if pod.shape.one_per_node and pod.group else None
    return PodShape(pod.shape, alone)


def _granted(group: str, room: Room, *, view: ClusterView, offer: Offer) -> Promised:
    """Return the room that was granted to a group, by node: the nodes that were sent come first."""
    grant = view.grants.get(group) if room is not Room.EMPTY else None
    sent = frozenset(offer.nodes)
    names = sorted(grant.amounts, key=lambda each: each not in sent) if grant is not None else ()
    return {name: grant.amounts[name] for name in names} if grant is not None else {}


def _first(count: int, wanted: Iterable[Wanted]) -> Iterator[Wanted]:
    """Yield the first `count` of the wanted pods, kind by kind."""
    for kind, there in wanted:
        if count > 0:
            yield kind, min(count, there)
        count -= there


# --- minResources: a sum over all nodes that the group could use ------------------------------


def lacking_resources(
    pod_group: PodGroupInfo, *, view: ClusterView, room: Room = Room.FREE
) -> Steps[Resources]:
    """Return the amounts missing from minResources, by name; empty if they are met or not set.

    Free room and the room that the group's own pods already have are added up. Nodes that none of
    its pods may use are left out. An overcommitted node counts as full, not as a debt. The share of
    members that are done is not asked for. Where an autoscaler adds nodes for pods, what no pod
    requests is not asked for either: no node would be added for it.
    """
    wanted = {name: n for name, n in pod_group.min_resources.items() if name != PODS}
    if view.growing:
        subtract(wanted, beyond_requests(pod_group, view=view))
    quorum = view.quorum(pod_group)
    if quorum < pod_group.min_member:
        wanted = _of_the_rest(wanted, pod_group, quorum, view=view)
    if not wanted:
        return {}
    group = pod_group.key
    shapes = {member.shape for member in view.members(group)}
    packer = packer_of(group, view=view, room=room)
    there = yield from packer.total(shapes, wanted)
    if room is not Room.EMPTY:
        for member in view.members(group):
            if member.node is not None or view.reservation(member.uid) is not None:
                add(there, {name: member.shape.requests.get(name, 0) for name in wanted})
    return {name: n - there.get(name, 0) for name, n in wanted.items() if n > there.get(name, 0)}


def beyond_requests(pod_group: PodGroupInfo, *, view: ClusterView) -> Resources:
    """Return the amounts of minResources beyond what the members request."""
    asked = _requests(pod_group, view)
    wanted = {name: n for name, n in pod_group.min_resources.items() if name != PODS}
    return {name: n - asked.get(name, 0) for name, n in wanted.items() if n > asked.get(name, 0)}


def _requests(pod_group: PodGroupInfo, view: ClusterView) -> Resources:
    asked: Resources = {}
    for member in view.members(pod_group.key):
        add(asked, member.shape.requests)
    return asked


def _of_the_rest(
    wanted: Mapping[str, int], pod_group: PodGroupInfo, quorum: int, *, view: ClusterView
) -> Resources:
    """Return the share of minResources for members that are not done, at most what they request."""
    asked = _requests(pod_group, view)
    share = {name: n * quorum // pod_group.min_member for name, n in wanted.items()}
    return {name: min(n, asked.get(name, 0)) for name, n in share.items()}


# --- rank order: pods of neighbouring index on neighbouring nodes -----------------------------


def _in_rank_order(
    pods: Sequence[PodInfo],
    places: Sequence[NodeInfo],
    *,
    label: str | None,
    sent: Collection[str] = (),
) -> Mapping[str, str]:
    """Return a node for each of these equal pods, by UID; there are as many places as pods.

    The pods of one owner, by index, follow the domains of a label, or zones, and then the names of
    nodes in natural order. The first pod is the one that is tried: if a place is on a node that was
    `sent`, the pod gets it from the pod nearest in rank. Pods without an index keep their order,
    and so do the places.
    """
    if any(pod.index is None for pod in pods):
        return {pod.uid: node.name for pod, node in zip(pods, places, strict=True)}
    ranked = sorted(pods, key=lambda pod: (pod.controller or "", pod.index or 0))
    by_name = sorted(places, key=lambda node: _place(node, label))
    found = {pod.uid: node.name for pod, node in zip(ranked, by_name, strict=True)}
    tried, usable = pods[0].uid, frozenset(sent)
    if usable and found[tried] not in usable:
        own = ranked.index(pods[0])
        able = (rank for rank, pod in enumerate(ranked) if found[pod.uid] in usable)
        other = ranked[min(able, key=lambda rank: abs(rank - own), default=own)].uid
        found[tried], found[other] = found[other], found[tried]
    return found


def _place(node: NodeInfo, label: str | None) -> tuple[object, ...]:
    domain = node.labels.get(label if label is not None else ZONE_LABEL, "")
    return _natural(domain), _natural(node.name)


@remembered(_NAMES)
def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key in natural order, so that `n2` comes before `n10`."""
    parts = _NUMBERS.split(text)
    return tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts)
