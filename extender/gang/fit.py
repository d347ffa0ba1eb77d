"""Whether enough members of a gang fit on the nodes as they are now, node by node.

A sum over the cluster is not enough: four nodes with 6, 2, 2 and 2 CPUs free do not take three
pods of 4. For equal members filling node after node is exact, since what a node can take does not
depend on the others. For unequal ones it is bin packing; then the bound ones come first (those
that may use few nodes), then the large ones. The pod that is tried goes before all of them, since
without it there is no plan; a second try takes the fullest nodes first, and a third has it wait
for those that are harder to place.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final

from extender.gang.feasibility import is_feasible
from extender.gang.room import Room, room_on
from extender.resources.quantity import Resources, add, show, subtract
from extender.state.claims import Grant
from extender.state.nodes import NodeInfo
from extender.state.pods import PodInfo, Shape
from extender.state.snapshot import Snapshot
from extender.steps import PIECE, Steps, at_once


@dataclass(frozen=True, slots=True)
class Fit:
    """Where members go: node by UID. Short of `wanted`, what the nodes lack for the others."""

    placements: Mapping[str, str]
    wanted: int
    short: Mapping[str, int] = field(default_factory=dict)
    shortage: Callable[[], Steps[Resources]] | None = field(default=None, compare=False)
    """Adds up `short`, which most plans that fail are not asked for."""

    @property
    def complete(self) -> bool:
        """Whether as many fit as were wanted."""
        return len(self.placements) >= self.wanted

    def explained(self) -> "Steps[Fit]":
        """Return the same with what the nodes lack."""
        short = (yield from self.shortage()) if self.shortage is not None else self.short
        return Fit(self.placements, self.wanted, short)

    def sentence(self) -> str:
        """Return what is missing, with numbers."""
        fits = f"{len(self.placements)} of the {self.wanted} pods that it still needs fit"
        if not self.short:
            return f"{fits}, no node has room for another"
        short = ", ".join(f"{name} {show(name, n)}" for name, n in sorted(self.short.items()))
        return f"{fits}, short of {short}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes that kube-scheduler found good for a pod; `complete` if it knows no others."""

    nodes: Sequence[str] = ()
    complete: bool = False


NO_OFFER: Final = Offer()
_NOTHING: Final[Mapping[str, int]] = {}


def fits(requests: Mapping[str, int], free: Mapping[str, int]) -> bool:
    """Return whether free amounts cover requests; a request of zero always fits."""
    return all(value <= free.get(name, 0) or not value for name, value in requests.items())


def fit(
    pods: Sequence[PodInfo],
    wanted: int,
    *,
    group: str,
    snapshot: Snapshot,
    offer: Offer = NO_OFFER,
    room: Room = Room.FREE,
) -> Fit:
    """Return the answer of `fitting`, and with it what the nodes lack."""
    found = at_once(fitting(pods, wanted, group=group, snapshot=snapshot, offer=offer, room=room))
    return at_once(found.explained())


def fitting(
    pods: Sequence[PodInfo],
    wanted: int,
    *,
    group: str,
    snapshot: Snapshot,
    offer: Offer = NO_OFFER,
    room: Room = Room.FREE,
) -> Steps[Fit]:
    """Place `wanted` of a group's pods, the first of them in any case; others may be passed over.

    The nodes that kube-scheduler offers for the first pod are good for every pod of its shape. They
    come first, and where the offer is complete they are all there is for that shape.
    """
    best: Fit | None = None
    # A gang of mixed priorities is worth its lowest: it must not start on room that is not its own.
    priority = snapshot.tally(group).priority

    def free(node: NodeInfo) -> Resources:
        return room_on(node, room, snapshot=snapshot, priority=priority, group=group)

    for in_front, fullest_first in _tries(pods):
        attempt = Packing(
            snapshot, free, fullest_first=fullest_first, beside_used=room is not Room.EMPTY
        )
        attempt.prefer(offer, pods[0].shape)
        if room is not Room.EMPTY:
            attempt.grant(snapshot.grants.get(group))
        found = yield from attempt.place(pods, wanted, in_front=in_front)
        if found.complete or not found.placements:  # the first fits nowhere, however it is tried
            return found
        if best is None or len(found.placements) > len(best.placements):
            best = found
    assert best is not None
    return best


def _tries(pods: Sequence[PodInfo]) -> Iterator[tuple[bool, bool]]:
    """Yield the ways to try: whether the first pod goes before all others, and the fullest nodes.

    Each is another one than those before, where pods are unequal and the first is not the hardest.
    """
    yield True, False
    first = pods[0].shape
    shapes = {id(pod.shape): pod.shape for pod in pods}.values()
    if len(shapes) > 1:
        yield True, True
    if any(hardest_first(shape) < hardest_first(first) for shape in shapes):
        yield False, False


def hardest_first(shape: Shape) -> tuple[bool, int]:
    """Order pods that may use few nodes, then those that ask for much, before the others."""
    free_choice = not shape.node_selector and shape.affinity is None
    return free_choice, -sum(shape.requests.values())


def occupied_nodes(pod: PodInfo, snapshot: Snapshot) -> set[str]:
    """Return the nodes that have, or are to have, another pod of the group and of this shape."""
    nodes = set()
    for sibling in snapshot.members(pod.group or ""):
        if sibling.shape is pod.shape and sibling.uid != pod.uid:
            assumption = snapshot.assumption(sibling.uid)
            nodes.add(assumption.node if assumption else sibling.node)
    return {node for node in nodes if node is not None}


def has_equal(pod: PodInfo, node: str, snapshot: Snapshot) -> bool:
    """Return whether another pod of the group and of this shape is on a node, or is to be there."""
    there = (snapshot.pods.get(uid) for uid in snapshot.pods_on(node))
    assumed = (snapshot.pods.get(uid) for uid in snapshot.assumed_on(node))
    return any(
        each is not None
        and each.uid != pod.uid
        and each.group == pod.group
        and each.shape is pod.shape
        for each in chain(there, assumed)
    )


class Packing:
    """One attempt: what is left on each node, and how far each shape has looked.

    `room` says how much a node has to begin with: at most what is not used, if it is `beside_used`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        room: Callable[[NodeInfo], Resources],
        *,
        fullest_first: bool = False,
        emptiest_first: bool = False,
        beside_used: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._room = room
        self._granted: dict[str, Resources] = {}
        self._grantees: dict[Shape, Iterator[str]] = {}
        self._offered_shape: Shape | None = None
        self._offer = NO_OFFER
        self._direction = fullest_first - emptiest_first
        self._beside_used = beside_used
        self._left: dict[str, Resources] = {}
        self._occupied: dict[Shape, set[str]] = {}
        self._cursors: dict[Shape, tuple[Sequence[str], int]] = {}
        """By shape: its nodes in order, and the number of the first that has not refused it."""
        self._to_read: dict[Shape, set[str]] = {}
        """By shape: nodes of which our own reading has to say whether they let it in."""

    def prefer(self, offer: Offer, shape: Shape) -> None:
        """Have pods of a shape try these nodes first, or no others."""
        self._offer, self._offered_shape = offer, shape

    def grant(self, grant: Grant | None) -> None:
        """Have pods go where room was found for them, no more of them than it was found for."""
        if grant is not None:
            self._granted = {name: dict(amounts) for name, amounts in grant.rooms.items()}

    def place(self, pods: Sequence[PodInfo], wanted: int, *, in_front: bool) -> Steps[Fit]:
        """Place `wanted` of the pods, the first of them in any case, and perhaps before all others.

        Else it has its turn among them: those that are the hardest to place come first.
        """
        first = pods[0]
        order = sorted(pods, key=lambda p: (in_front and p is not first, hardest_first(p.shape)))
        placements: dict[str, str] = {}
        unplaced: list[PodInfo] = []
        for_others = wanted - 1
        for number, pod in enumerate(order):
            if len(placements) == wanted:
                break
            if pod is not first and not for_others:
                continue  # the last place is the first pod's
            if number % PIECE == PIECE - 1:
                yield
            node = yield from self.taking(pod)
            if node is not None:
                placements[pod.uid] = node
                for_others -= pod is not first
            elif pod is first:
                placements, unplaced = {}, list(pods)  # there is no point in placing the others
                break
            else:
                unplaced.append(pod)
        missing = wanted - len(placements)
        short = partial(self._shortage, unplaced[:missing]) if missing else None
        return Fit(placements, wanted, shortage=short)

    def taking(self, pod: PodInfo) -> Steps[str | None]:
        """Return the next node with room for the pod, and take that room.

        Rooms only shrink, so a node that has refused a shape need not be asked again for it.
        """
        granted = self._take_granted(pod) if self._granted else None
        if granted is not None:
            return granted
        known = self._cursors.get(pod.shape)
        names, number = known if known is not None else ((yield from self._candidates(pod)), 0)
        node = None
        while number < len(names):
            if self._take(pod, names[number]):
                node = names[number]
                break
            number += 1
            if number % PIECE == 0:
                yield
        self._cursors[pod.shape] = (names, number)
        return node

    def _take_granted(self, pod: PodInfo) -> str | None:
        asked = pod.shape.requests
        names = self._grantees.get(pod.shape)
        if names is None:
            names = self._grantees[pod.shape] = self._granted_to(pod)
        for name in names:
            if fits(asked, self._granted[name]) and self._take(pod, name):
                subtract(self._granted[name], asked)
                self._grantees[pod.shape] = chain((name,), names)
                return name
        return None

    def _granted_to(self, pod: PodInfo) -> Iterator[str]:
        """Yield the granted nodes that a pod may use, by what was sent for it or by our reading."""
        offer = self._offer if pod.shape is self._offered_shape else NO_OFFER
        sent, nodes = set(offer.nodes), self._snapshot.nodes
        for name in sorted(self._granted, key=lambda each: each not in sent):
            node = nodes.get(name)
            unsent = not (sent and offer.complete) and node and is_feasible(pod.shape, node)
            if name in sent or unsent:
                yield name

    def _candidates(self, pod: PodInfo) -> Steps[Sequence[str]]:
        """Return the nodes for a shape: those that were sent for it, then those that we read.

        Where they need no order, those that we read are only read when their turn comes.
        """
        offer = self._offer if pod.shape is self._offered_shape else NO_OFFER
        sent = offer.nodes
        first = yield from self._ordered(sent, pod)
        if sent and offer.complete:
            return first
        known = set(sent)
        rest = [name for name in self._snapshot.nodes if name not in known]
        self._to_read.setdefault(pod.shape, set()).update(rest)
        return [*first, *(yield from self._ordered(rest, pod))]

    def _ordered(self, names: Sequence[str], pod: PodInfo) -> Steps[Sequence[str]]:
        if not self._direction:
            return names
        slack: dict[str, float] = {}
        for number, name in enumerate(names):
            slack[name] = self._direction * self._slack(name, pod)
            if number % PIECE == PIECE - 1:
                yield
        return sorted(names, key=slack.__getitem__)

    def _is_open(self, shape: Shape, name: str) -> bool:
        to_read = self._to_read.get(shape)
        if to_read is None or name not in to_read:
            return True
        node = self._snapshot.nodes.get(name)
        if node is None or not is_feasible(shape, node):
            return False
        to_read.discard(name)
        return True

    def _slack(self, name: str, pod: PodInfo) -> float:
        """Return how empty a node is, in what the pod asks for."""
        node = self._snapshot.nodes.get(name)
        if node is None:
            return 0.0
        # For claims the room is not what is free, yet the least busy nodes are the first to be so.
        used = self._snapshot.used(name) if self._direction < 0 else {}
        left, whole = self._free(name), node.allocatable
        return sum(
            (left.get(r, 0) - used.get(r, 0)) / max(1, whole.get(r, 1)) for r in pod.shape.requests
        )

    def _free(self, name: str) -> Resources:
        left = self._left.get(name)
        if left is None:
            node = self._snapshot.nodes.get(name)
            left = self._room(node) if node else {}
            self._left[name] = left
        return left

    def _take(self, pod: PodInfo, name: str) -> bool:
        requests = pod.shape.requests
        if self._is_full(name, requests) or not self._is_open(pod.shape, name):
            return False
        left = self._free(name)
        if not fits(requests, left):
            return False
        if pod.shape.one_per_node:
            if pod.shape not in self._occupied:
                self._occupied[pod.shape] = occupied_nodes(pod, self._snapshot)
            if name in self._occupied[pod.shape]:
                return False
            self._occupied[pod.shape].add(name)
        subtract(left, requests)
        return True

    def _is_full(self, name: str, requests: Mapping[str, int]) -> bool:
        """Return whether a node has too little by what is known without adding anything up.

        A full node costs next to nothing then, and most nodes are full when a gang has to wait.
        """
        node = self._snapshot.nodes.get(name)
        if node is None:
            return any(requests.values())
        whole = node.allocatable
        used = self._snapshot.used(name) if self._beside_used else _NOTHING
        for what, amount in requests.items():
            if amount and whole.get(what, 0) - used.get(what, 0) < amount:
                return True
        return False

    def _shortage(self, unplaced: Sequence[PodInfo]) -> Steps[Resources]:
        """Return, by name, what the unplaced ask for that no node they may use has left."""
        short: Resources = {}
        for shape, pods in Counter(pod.shape for pod in unplaced).items():
            lacking = dict(shape.requests)
            for number, name in enumerate(list(self._snapshot.nodes)):
                if number % PIECE == PIECE - 1:
                    yield
                if not lacking:
                    break
                node = self._snapshot.nodes.get(name)
                if node is not None and is_feasible(shape, node):
                    lacking = self._lacking(lacking, name)
            add(short, {name: value * pods for name, value in lacking.items()})
        return short

    def _lacking(self, asked: Resources, node: str) -> Resources:
        """Return those of some amounts that a node has not left."""
        return {
            name: value
            for name, value in asked.items()
            if self._is_full(node, {name: value}) or self._free(node).get(name, 0) < value
        }
