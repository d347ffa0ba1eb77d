"""The nodes that pods of a shape may use and that could take them, in the order all packers use.

Whether a node may take a pod at all, room aside, is read from selectors and taints. kube-scheduler
answers this for the nodes that it sends. Our reading is for the others, when a whole gang is
planned and the nodes sent for one member are too few or are another member's. A node is read once
for equal pods until it changes.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/

A node may also be closed to pods that must not share one: by host ports or required anti-affinity.

The nodes that have least left of the resource that the pods ask most for come first, so that the
others stay whole. Nodes that have too little of it are passed without a look.

`RoomLeft` is what is left on each node while a packer places pods and takes them back.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from extender.api.core_v1 import Affinity, Taint, is_tolerated, matches_term
from extender.resources.quantity import PODS, Resources, add, raise_to
from extender.state.cluster.index import Entry, NodeOrder
from extender.state.cluster.records import EVERY_PORT, HostPort, NodeInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

AntiAffinityKey = tuple[str, Shape]
"""Pods with an equal key never share a node: group or namespace, and the shape of a template."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """The properties of a pod that decide which nodes take it. Equal pods share one."""

    shape: Shape
    anti_affinity: AntiAffinityKey | None = None


@dataclass(slots=True)
class _OnNode:
    """The number of pods on a node that have each anti-affinity key and each host port."""

    keys: Counter[AntiAffinityKey] = field(default_factory=Counter)
    ports: Counter[HostPort] = field(default_factory=Counter)

    def count(self, pod: PodShape, count: int) -> None:
        if pod.anti_affinity is not None:
            self.keys[pod.anti_affinity] += count
        for port in pod.shape.host_ports:
            self.ports[port] += count

    def excludes(self, pod: PodShape) -> bool:
        if pod.anti_affinity is not None and self.keys[pod.anti_affinity] > 0:
            return True
        taken = [port for port, count in self.ports.items() if count > 0] if self.ports else ()
        return clashes(taken, pod.shape.host_ports)


class Conflicts:
    """Pods by node that do not share it with all others; `there` returns a node's first ones."""

    def __init__(self, there: Callable[[str], Iterable[PodShape]] = lambda _: ()) -> None:
        self._there = there
        self._begin: Callable[[str], _OnNode] = self._first_ones
        self._on: dict[str, _OnNode] = {}

    def exclude(self, node: str, pod: PodShape) -> bool:
        """Return whether a pod on a node keeps one of this shape away."""
        return pod.shape.one_per_node and self._look(node).excludes(pod)

    def put(self, node: str, pod: PodShape, count: int) -> None:
        """Count so many pods on a node; a negative number for those that go."""
        if pod.shape.one_per_node:
            self._look(node).count(pod, count)

    def apart(self, gone: Callable[[str], Iterable[tuple[PodShape, int]]]) -> "Conflicts":
        """Return others that begin with these pods, less so many on each node that are gone."""
        others = Conflicts()

        def begin(node: str) -> _OnNode:
            now = self._look(node)
            found = _OnNode(now.keys.copy(), now.ports.copy())
            for pod, count in gone(node):
                found.count(pod, -count)
            return found

        others._begin = begin
        return others

    def _look(self, node: str) -> _OnNode:
        found = self._on.get(node)
        if found is None:
            found = self._on[node] = self._begin(node)
        return found

    def _first_ones(self, node: str) -> _OnNode:
        found = _OnNode()
        for pod in self._there(node):
            found.count(pod, 1)
        return found


def clashes(taken: Collection[HostPort], wanted: Collection[HostPort]) -> bool:
    """Return whether one of these host ports cannot be on a node where one of those is taken."""
    if not taken or not wanted:
        return False
    if EVERY_PORT in taken or EVERY_PORT in wanted:
        return True
    addresses = dict[tuple[str, int], set[str]]()
    for protocol, number, address in taken:
        addresses.setdefault((protocol, number), set()).add(address)
    # No address is every address.
    there = ((addresses.get((protocol, number)), address) for protocol, number, address in wanted)
    return any(each and (not own or "" in each or own in each) for each, own in there)


UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_feasible(shape: Shape, node: NodeInfo) -> bool:
    """Return whether the node's state, taints, labels and declared features let the pod in."""
    if not node.ready:
        return False
    if node.unschedulable and not is_tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
        return False
    if not shape.features <= node.features:
        return False
    selector = shape.node_selector
    if selector and any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    if node.taints and not all(is_tolerated(taint, shape.tolerations) for taint in node.taints):
        return False
    return shape.affinity is None or _matches_affinity(shape.affinity, node)


def _matches_affinity(of_pod: Affinity, node: NodeInfo) -> bool:
    affinity = of_pod.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    terms = required.node_selector_terms
    return any(matches_term(term, node.labels, name=node.name) for term in terms)


_KNOWN: Final = 1024
"""The most pod shapes for which answers and the position of the search are kept."""


class FeasibleNodes:
    """The nodes for all shapes that ask for the same ones."""

    __slots__ = ("__weakref__", "_asks", "_read")

    def __init__(self, shape: Shape) -> None:
        # Not the shape itself: what is known of it goes when it does.
        self._asks = Shape(
            node_selector=shape.node_selector,
            affinity=shape.affinity,
            tolerations=shape.tolerations,
            features=shape.features,
        )
        self._read: dict[str, bool] = {}

    def allows(self, node: NodeInfo) -> bool:
        """Return whether the pods may use a node."""
        found = self._read.get(node.name)
        if found is None:
            found = self._read[node.name] = is_feasible(self._asks, node)
        return found

    def allows_all(self, names: Sequence[str], nodes: Mapping[str, NodeInfo]) -> bool:
        """Return whether the pods may use all of these; an unknown node they may not."""
        if all(map(self._read.get, names)):
            return True
        return all(name in nodes and self.allows(nodes[name]) for name in names)

    def would_allow(self, node: NodeInfo) -> bool:
        """Return the same; what is not known is not kept."""
        found = self._read.get(node.name)
        return is_feasible(self._asks, node) if found is None else found

    def forget(self, names: Iterable[str]) -> None:
        """Forget what was read of nodes that changed."""
        for name in names:
            self._read.pop(name, None)


class Feasibility:
    """The nodes that each shape may use, as the cluster is now."""

    def __init__(self, cluster: ClusterView) -> None:
        self.cluster = cluster
        self._version = cluster.nodes_version
        self._known = WeakValueDictionary[tuple[object, ...], FeasibleNodes]()
        self._of = WeakKeyDictionary[Shape, FeasibleNodes]()
        self._usable: dict[frozenset[FeasibleNodes], int] = {}

    def still(self, node: NodeInfo, shape: Shape) -> NodeInfo | None:
        """Return a node, which a shape could use, as it is now; None where it went or bars it."""
        now = self.cluster.nodes.get(node.name)
        if now is node or now is None or is_feasible(shape, now):
            return now
        return None

    def of(self, shape: Shape) -> FeasibleNodes:
        """Return the nodes that a shape may use."""
        if self._version != self.cluster.nodes_version or len(self._known) > _KNOWN:
            self._look_again()
        found = self._of.get(shape)
        if found is None:
            selector = frozenset(shape.node_selector.items())
            key = (selector, id(shape.affinity), shape.tolerations, shape.features)
            found = self._known.get(key) or FeasibleNodes(shape)
            self._of[shape] = self._known[key] = found
        return found

    def usable(self, shapes: Iterable[Shape]) -> Steps[int]:
        """Return how many nodes there are that any of these shapes may use."""
        asked = frozenset(map(self.of, shapes))
        version, found = self._version, self._usable.get(asked)
        if found is None:
            found, at_once = 0, max(1, PIECE // max(1, len(asked)))
            for number, node in enumerate(list(self.cluster.nodes.values()), 1):
                found += any(each.would_allow(node) for each in asked)
                if number % at_once == 0:
                    yield
            if len(self._usable) >= PIECE:
                self._usable.clear()
            if self._version == version:
                self._usable[asked] = found
        return found

    def _look_again(self) -> None:
        changed = [*self.cluster.changed_since(self._version)]
        self._version = self.cluster.nodes_version
        self._usable.clear()
        if len(changed) > PIECE or len(self._known) > _KNOWN:
            self._known.clear()
            self._of.clear()
        for each in self._known.values():
            each.forget(changed)


_NOTHING: Final[Mapping[str, int]] = {}
_NO_OFFER: Final[tuple[Collection[str], bool]] = ((), False)


class CandidateNodes:
    """The nodes for one pod shape, as far as anything has looked."""

    __slots__ = ("at", "nodes", "rest")

    def __init__(self, rest: Iterator[NodeInfo | None]) -> None:
        self.nodes: list[NodeInfo] = []
        self.at = 0
        """The number of the first one that has not refused a pod: room only shrinks."""
        self.rest = rest
        """The other nodes, and None after each piece of work."""

    def ahead(self) -> Iterator[NodeInfo | None]:
        """Yield the nodes from `at` on, and None after each piece; `at` is the last one read."""
        while self.at < len(self.nodes):
            yield self.nodes[self.at]
            self.at += 1
        for node in self.rest:
            if node is not None:
                self.nodes.append(node)
            yield node
            self.at = len(self.nodes)

    def all_from_here(self) -> Iterator[NodeInfo | None]:
        """Yield the same nodes, and refuse none of them: `at` stays where it is."""
        number = self.at
        while True:
            if number < len(self.nodes):
                yield self.nodes[number]
                number += 1
                continue
            try:
                node = next(self.rest)
            except StopIteration:
                return
            if node is None:
                yield None
            else:
                self.nodes.append(node)


class Candidates:
    """The candidates of each pod shape.

    `order` has the nodes by what they have to begin with, or by more. Where a node may have more
    than it says, they are `unbound`; `emptiest_first` reads it backwards.
    """

    def __init__(
        self,
        feasible: Feasibility,
        order: NodeOrder,
        *,
        unbound: bool = False,
        emptiest_first: bool = False,
        within: Collection[str] | None = None,
    ) -> None:
        """`within` are the only nodes that there are."""
        self._within = None if within is None else frozenset(within)
        self.feasible, self.order = feasible, order
        self._unbound, self._emptiest_first = unbound, emptiest_first
        self.nodes, self._whole = feasible.cluster.nodes, feasible.cluster.whole
        self._by_shape: dict[PodShape, CandidateNodes] = {}
        self._offers: dict[PodShape, tuple[Collection[str], bool]] = {}
        self._preferred: dict[PodShape, Collection[str]] = {}
        self._orders: dict[str, list[Entry]] = {}
        """The nodes `within`, by resource."""
        self._raised: frozenset[str] = frozenset()
        """Nodes that have more now than to begin with."""

    def of(self, pod: PodShape) -> CandidateNodes:
        """Return the nodes that have room for one pod at least."""
        candidates = self._by_shape.get(pod)
        if candidates is None:
            if len(self._by_shape) >= _KNOWN:
                self._by_shape.clear()
            candidates = self._by_shape[pod] = CandidateNodes(self._candidates(pod))
        return candidates

    def emptiest_first(self, pod: PodShape) -> Iterator[NodeInfo | None]:
        """Yield the same nodes, those that have most left first, and None after each piece."""
        return self._candidates(pod, emptiest=True)

    def feasible_of(self, pod: PodShape) -> FeasibleNodes | None:
        """Return which nodes are feasible; None where an offer or a domain decides that too."""
        limited = pod in self._offers or self._within is not None
        return None if limited else self.feasible.of(pod.shape)

    def allows(self, pod: PodShape, node: NodeInfo) -> bool:
        """Return whether pods may use a node."""
        sent, only = self._offers.get(pod, _NO_OFFER)
        if self._within is not None and node.name not in self._within:
            return False
        return node.name in sent or (not only and self.feasible.of(pod.shape).allows(node))

    def offer(self, pod: PodShape, names: Collection[str], *, only: bool) -> None:
        """Put these nodes first for pods, whatever they ask of nodes; or allow no others."""
        within = self._within
        there = names if within is None else (name for name in names if name in within)
        self._offers[pod] = dict.fromkeys(there), only
        self._by_shape.pop(pod, None)

    def prefer(self, pod: PodShape, names: Collection[str]) -> None:
        """Put these nodes for pods before others, those that are offered aside; a live set."""
        self._preferred[pod] = names
        self._by_shape.pop(pod, None)

    def offered(self, pod: PodShape) -> Collection[str]:
        """Return the nodes that these pods use first."""
        return self._offers.get(pod, _NO_OFFER)[0]

    def preferred(self, pod: PodShape) -> Collection[str]:
        """Return the nodes that these pods use after those that are offered; a live set."""
        return self._preferred.get(pod, ())

    def at_most(self, node: NodeInfo) -> Mapping[str, int]:
        """Return what a node has to begin with at most."""
        return node.allocatable if self._unbound else self.order.all().get(node.name, _NOTHING)

    def richest_first(self, resource: str, amount: int) -> Iterator[str]:
        """Yield the names of the nodes that may have so much of a resource."""
        if self._within is not None:
            yield from self._within
            return
        yield from self._raised
        for most, name in reversed(self.order.by(resource)):
            if most < amount and not self._unbound:
                return
            yield name

    def start_again(self) -> None:
        """Begin at the first node again for each pod shape."""
        for candidates in self._by_shape.values():
            candidates.at = 0

    def clear(self) -> None:
        """Forget the candidates: nodes have more than before, or are others."""
        self._by_shape.clear()
        self._orders.clear()

    @contextmanager
    def apart(self, raised: Iterable[str]) -> Iterator[None]:
        """Begin with other candidates meanwhile: some nodes have more."""
        before = self._by_shape, self._raised
        self._by_shape, self._raised = {}, self._raised.union(raised)
        try:
            yield
        finally:
            self._by_shape, self._raised = before

    def copy(self, raised: Iterable[str]) -> "Candidates":
        """Return others that look at the same nodes from the first on; some of them have more."""
        found = Candidates(
            self.feasible,
            self.order,
            unbound=self._unbound,
            emptiest_first=self._emptiest_first,
            within=self._within,
        )
        found._offers, found._preferred = {**self._offers}, {**self._preferred}
        found._raised = self._raised.union(raised)
        return found

    def hardness(self, shape: Shape) -> tuple[object, ...]:
        """Return what shapes are ordered by: few nodes that they may use, then large amounts.

        Shapes that are equal in these have an order too, whatever the caller named first.
        """
        asked, selector = sorted(shape.requests.items()), sorted(shape.node_selector.items())
        shares = [self._share(*each) for each in asked]
        free_choice = not selector and shape.affinity is None and not shape.features
        return free_choice, -max(shares, default=0.0), -sum(shares), asked, selector

    def _share(self, resource: str, amount: int) -> float:
        """Return an amount in parts of the largest node."""
        return amount / max(1, self._whole.most(resource))

    # -- the candidates of one shape

    def _candidates(self, pod: PodShape, *, emptiest: bool = False) -> Iterator[NodeInfo | None]:
        """Yield nodes in their order, and None after each piece of work."""
        asked = [(name, amount) for name, amount in pod.shape.requests.items() if amount]
        asked.sort(key=lambda each: -self._share(*each))
        resource = asked[0][0] if asked else PODS
        sent, only_sent = self._offers.get(pod, _NO_OFFER)
        first = self._sorted(sent, resource) if sent else []
        if emptiest:
            first.reverse()
        emptiest = emptiest or self._emptiest_first
        rest = () if only_sent else self._others(pod, resource, asked, emptiest=emptiest)
        allows, amounts = self.feasible.of(pod.shape).allows, self.order.all()
        nodes, unbound, raised = self.nodes, self._unbound, self._raised
        for number, (_, name) in enumerate(chain(first, rest), 1):
            if number % PIECE == 0:
                yield None
            node = nodes.get(name)
            if node is None:
                continue
            if not unbound and name not in raised and not _covers(amounts.get(name), asked):
                continue
            if number <= len(first) or (name not in sent and allows(node)):
                yield node

    def _others(
        self, pod: PodShape, resource: str, asked: Sequence[tuple[str, int]], *, emptiest: bool
    ) -> Iterator[Entry]:
        """Return the nodes that may have room, those first that are preferred."""
        entries = partial(self._entries, resource, asked, emptiest=emptiest)
        if pod in self._preferred:
            return self._preferred_first(self._preferred[pod], entries)
        return entries()

    def _preferred_first(
        self, now: Collection[str], entries: Callable[[], Iterator[Entry]]
    ) -> Iterator[Entry]:
        had: set[str] = set()  # which ones are preferred may change until this is read to its end
        for entry in entries():
            if entry[1] in now:
                had.add(entry[1])
                yield entry
        yield from (entry for entry in entries() if entry[1] not in had)

    def _entries(
        self, resource: str, asked: Sequence[tuple[str, int]], *, emptiest: bool
    ) -> Iterator[Entry]:
        """Yield the nodes that may have room, in their order."""
        order = self._within_by(resource) if self._within is not None else self.order.by(resource)
        if emptiest:
            for _, equal in groupby(reversed(order), itemgetter(0)):
                yield from reversed([*equal])
            return
        start = 0 if self._unbound or not asked else bisect_left(order, (asked[0][1], ""))
        if self._raised:
            yield from (entry for entry in order[:start] if entry[1] in self._raised)
        yield from islice(order, start, None)

    def _within_by(self, resource: str) -> Sequence[Entry]:
        """Return the only nodes in the order of an amount: sorted once for all shapes."""
        if resource not in self._orders:
            self._orders[resource] = self._sorted(self._within or (), resource)
        return self._orders[resource]

    def _sorted(self, names: Iterable[str], resource: str) -> list[Entry]:
        amounts = self.order.all()
        return sorted((amounts.get(name, _NOTHING).get(resource, 0), name) for name in names)


def _covers(left: Mapping[str, int] | None, asked: Sequence[tuple[str, int]]) -> bool:
    if left is None:
        return not asked
    for name, amount in asked:  # noqa: SIM110 - called for each node, and three times as fast
        if left.get(name, 0) < amount:
            return False
    return True


@dataclass(slots=True)  # thousands are made for one answer: not frozen, which takes twice the time
class Placed:
    """A number of equal pods on one node."""

    node: NodeInfo
    pod: PodShape
    count: int

    @property
    def amounts(self) -> Resources:
        """Return the requests of these pods together."""
        return {name: value * self.count for name, value in self.pod.shape.requests.items()}


class RoomLeft:
    """Amounts by node; `room` returns what a node has to begin with."""

    def __init__(self, room: Callable[[NodeInfo], Resources], conflicts: Conflicts) -> None:
        self._room, self._conflicts = room, conflicts
        self._left: dict[str, Resources] = {}
        self._read: dict[str, Resources] = {}
        """The room that a node had at first, when it was read last."""
        self._most = WeakKeyDictionary[FeasibleNodes, Resources | None]()
        """The most that is left on any of the nodes, for nodes on which a shape found no room. None
        after the first such shape: the second one computes it."""

    def on(self, node: NodeInfo) -> Resources:
        """Return what is left on a node."""
        left = self._left.get(node.name)
        if left is None:
            self._read[node.name] = self._room(node)
            left = self._left[node.name] = dict(self._read[node.name])
        return left

    def slots(self, node: NodeInfo, pod: PodShape) -> int:
        """Return how many pods a node takes beside what is on it."""
        there = slots(pod.shape, self.on(node))
        if there and pod.shape.one_per_node and self._conflicts.exclude(node.name, pod):
            return 0
        return there

    def slack(self, node: NodeInfo, shape: Shape) -> float:
        """Return how much of what pods ask for is left, in parts of the node."""
        left, whole = self.on(node), node.allocatable
        asked = (name for name, amount in shape.requests.items() if amount)
        return sum(left.get(name, 0) / max(1, whole.get(name, 1)) for name in asked)

    def take(self, node: NodeInfo, pod: PodShape, count: int) -> Placed | None:
        """Place as many pods as a node takes, and return them; None where it takes none."""
        left, shape = self.on(node), pod.shape
        count = min(count, slots(shape, left))
        if count <= 0:
            return None
        if shape.one_per_node:
            if self._conflicts.exclude(node.name, pod):
                return None
            self._conflicts.put(node.name, pod, count)
        for name, amount in shape.requests.items():
            if amount:
                left[name] = left.get(name, 0) - amount * count
        return Placed(node, pod, count)

    def apart_from(self, gone: Mapping[str, Collection[Placed]]) -> "RoomLeft":
        """Return room of its own, with these pods of each node gone.

        A node is read when it is asked for: nothing may be placed here until then.
        """

        def room(node: NodeInfo) -> Resources:
            left = dict(self.on(node))
            for each in gone.get(node.name, ()):
                add(left, each.amounts)
            return left

        def alone(name: str) -> Iterator[tuple[PodShape, int]]:
            placed = gone.get(name, ())
            return ((x.pod, x.count) for x in placed if x.pod.shape.one_per_node)

        return RoomLeft(room, self._conflicts.apart(alone))

    def put(self, placed: Collection[Placed]) -> None:
        """Place pods whether there is room or not."""
        for each in placed:
            self._change(each, each.count)

    def take_back(self, placed: Collection[Placed]) -> None:
        """Remove pods that were placed, or that were there to begin with."""
        for each in placed:
            self._change(each, -each.count)
        if any(most is not None for most in self._most.values()):
            top: Resources = {}
            for each in placed:
                raise_to(top, self._left[each.node.name])
            self._raise_most(top)

    def _change(self, placed: Placed, count: int) -> None:
        left = self.on(placed.node)
        for name, amount in placed.pod.shape.requests.items():
            if amount:
                left[name] = left.get(name, 0) - amount * count
        if placed.pod.shape.one_per_node:
            self._conflicts.put(placed.node.name, placed.pod, count)

    def look_at(self, node: NodeInfo) -> bool:
        """Read again how much a node has; what was placed on it stays there.

        Return whether it has less than before, and less than was placed on it.
        """
        before = self._read.get(node.name)
        if before is None:
            self.on(node)
            return False
        left, now = self._left[node.name], self._room(node)
        self._read[node.name] = now
        grown = overdrawn = False
        for name in {*before, *now}:
            more = now.get(name, 0) - before.get(name, 0)
            left[name] = left.get(name, 0) + more
            grown = grown or more > 0
            overdrawn = overdrawn or (more < 0 and left[name] < 0)
        if grown:
            self._raise_most(left)
        return overdrawn

    # -- what no node has

    def refuse(self, feasible: FeasibleNodes, shape: Shape) -> bool:
        """Return whether it is known that none of these nodes has room for a pod."""
        most = self._most.get(feasible)
        return most is not None and not slots(shape, most)

    def lacks(self, feasible: FeasibleNodes, resource: str, amount: int) -> bool:
        """Return whether it is known that none of these nodes has so much left of a resource."""
        most = self._most.get(feasible)
        return most is not None and most.get(resource, 0) < amount

    def learn(self, feasible: FeasibleNodes, resource: str, amount: int) -> None:
        """Remember that none of these nodes has so much left of a resource."""
        most = self._most.get(feasible)
        if most is not None:
            most[resource] = min(most.get(resource, 0), amount - 1)

    def refused(self, feasible: FeasibleNodes, candidates: Candidates) -> Iterator[None]:
        """Remember that a shape looked in vain; at the second one the most is looked for."""
        if feasible not in self._most:
            self._most[feasible] = None
        elif self._most[feasible] is None:
            most: Resources = {}
            for number, node in enumerate(list(candidates.nodes.values())):
                if number % PIECE == PIECE - 1:
                    yield
                if feasible.allows(node):
                    left = self._left.get(node.name)
                    raise_to(most, candidates.at_most(node) if left is None else left)
            self._most[feasible] = most

    def forget_refused(self) -> None:
        """Forget what no node has: there are other nodes."""
        self._most.clear()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Learn anew meanwhile what no node has."""
        known, self._most = self._most, WeakKeyDictionary()
        try:
            yield
        finally:
            self._most = known

    def _raise_most(self, left: Resources) -> None:
        for most in self._most.values():
            if most is not None:
                raise_to(most, left)


def slots(shape: Shape, left: Mapping[str, int]) -> int:
    """Return for how many pods of a shape there is room by amounts; any number if it asks for none.

    Of pods that go one to a node it is one at most.
    """
    most = 1 if shape.one_per_node else 1 << 30
    for name, amount in shape.requests.items():
        if amount:
            found = left.get(name, 0) // amount
            if found <= 0:
                return 0
            most = min(most, found)
    return most
