"""Which pods without a group are worth another try when room was given back: those that have some.

kube-scheduler tries each of them against all nodes, so thousands are not woken for the room of one.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from extender.gang.feasibility import is_feasible
from extender.gang.fit import fits
from extender.resources.quantity import Resources, add, subtract
from extender.state.nodes import NodeInfo
from extender.state.pods import PodInfo, Shape
from extender.state.snapshot import Snapshot

MOST_LOOKS: Final = 10_000
"""Nodes that one decision looks at, for all pods together: some milliseconds."""


def with_room(pods: Iterable[PodInfo], *, snapshot: Snapshot) -> list[PodInfo]:
    """Return the pods that find room beside each other, by priority and age.

    Room is judged by amounts, selectors and taints, as far as we read them: a pod that is woken in
    vain costs one try, and kube-scheduler judges the rest.
    """
    rooms = _Rooms(snapshot)
    order = sorted(pods, key=lambda pod: (-pod.priority, pod.created))
    return [pod for pod in order if rooms.take(pod)]


class _Rooms:
    """What is left on each node, and how far each kind of pods has looked: rooms only shrink."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._taken: dict[str, Resources] = {}
        self._looks = MOST_LOOKS
        self._cursors: dict[tuple[Shape, int], tuple[Iterator[NodeInfo], NodeInfo | None]] = {}

    def take(self, pod: PodInfo) -> bool:
        """Return whether a node has room for a pod, and take that room."""
        kind = (pod.shape, pod.priority)
        nodes, node = self._cursors.get(kind) or (iter(self._snapshot.nodes.values()), None)
        node = next(nodes, None) if node is None else node
        while node is not None and self._looks > 0 and not self._has_room(pod, node):
            node = next(nodes, None)
        self._cursors[kind] = nodes, node
        if node is None or self._looks <= 0:
            return False
        add(self._taken.setdefault(node.name, {}), pod.shape.requests)
        return True

    def _has_room(self, pod: PodInfo, node: NodeInfo) -> bool:
        self._looks -= 1
        used = self._snapshot.used(node.name)
        asked = pod.shape.requests
        if any(used.get(r, 0) + n > node.allocatable.get(r, 0) for r, n in asked.items() if n):
            return False
        if not is_feasible(pod.shape, node):
            return False
        self._looks -= 3  # adding up costs more than a look
        free = self._snapshot.free(node, priority=pod.priority)
        subtract(free, self._taken.get(node.name, {}))
        return fits(asked, free)
