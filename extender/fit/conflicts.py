"""Which nodes are closed to pods that must not share one: host ports and required anti-affinity."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from extender.state.cluster.records import EVERY_PORT, HostPort, Shape

AntiAffinityKey = tuple[str, Shape]
"""Pods with an equal key never share a node: group or namespace, and the shape of a template."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """What equal pods are to a node."""

    shape: Shape
    anti_affinity: AntiAffinityKey | None = None


@dataclass(slots=True)
class _OnNode:
    """How many pods on a node have each anti-affinity key and each host port."""

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
