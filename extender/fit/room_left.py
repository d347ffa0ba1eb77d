"""The room that is left on each node while a packer places pods and takes them back."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from extender.fit.candidates import Candidates, Conflicts, FeasibleNodes, PodShape
from extender.resources.quantity import Resources, add, raise_to
from extender.state.cluster.records import NodeInfo, Shape
from extender.steps import PIECE


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
        if not there or not pod.shape.one_per_node:
            return there
        return 0 if self._conflicts.exclude(node.name, pod) else 1

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
            count = 1
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
    """Return for how many pods there is room by amounts; any number where they ask for nothing."""
    most = 1 << 30
    for name, amount in shape.requests.items():
        if amount:
            found = left.get(name, 0) // amount
            if found <= 0:
                return 0
            most = min(most, found)
    return most
