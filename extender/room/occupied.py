"""Which nodes are closed to pods that do not share one: host ports, and those that shun equals."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from extender.state.pods import HostPort, Shape

Alone = tuple[str, Shape]
"""Pods with the same one never share a node: whose they are, and what they are made from."""


@dataclass(frozen=True, slots=True)
class Like:
    """What equal pods are to a node."""

    shape: Shape
    alone: Alone | None = None


class Occupied:
    """The pods of that kind on each node; those that run are looked for when somebody asks."""

    def __init__(self, there: Callable[[], Iterable[tuple[str, Like]]] = tuple) -> None:
        self._there: Callable[[], Iterable[tuple[str, Like]]] | None = there
        self._alone: Counter[tuple[str, Alone]] = Counter()
        self._ports: defaultdict[str, Counter[HostPort]] = defaultdict(Counter)

    def bars(self, node: str, like: Like) -> bool:
        """Return whether a pod on a node bars one like this."""
        if not like.shape.one_per_node:
            return False
        self._look()
        if like.alone is not None and self._alone[node, like.alone] > 0:
            return True
        ports = [port for port, count in self._ports[node].items() if count > 0]
        return any(_clash(port, wanted) for port in ports for wanted in like.shape.host_ports)

    def put(self, node: str, like: Like, count: int) -> None:
        """Count so many pods on a node; fewer than none for those that go."""
        if like.shape.one_per_node:
            self._look()
            self._count(node, like, count)

    def _look(self) -> None:
        if self._there is not None:
            there, self._there = self._there, None
            for node, like in there():
                self._count(node, like, 1)

    def _count(self, node: str, like: Like, count: int) -> None:
        if like.alone is not None:
            self._alone[node, like.alone] += count
        for port in like.shape.host_ports:
            self._ports[node][port] += count


def _clash(one: HostPort, other: HostPort) -> bool:
    """Return whether two pods cannot have these on one node; no address is every address."""
    addresses = {one[2], other[2]}
    return one[:2] == other[:2] and (len(addresses) == 1 or "" in addresses)
