"""Which pods without a group are worth another try when room was given back: those that have some.

kube-scheduler tries each of them against all nodes, so thousands are not woken for the room of one.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final

from extender.fit.candidates import is_feasible
from extender.gang.fit import fits
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.records import NodeInfo, PodInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

MOST_LOOKS: Final = 10_000
"""Nodes that one decision looks at, for all pods together: some milliseconds."""


MOST_OF_A_KIND: Final = MOST_LOOKS // 4
"""More pods of one kind never find room in one decision: each that does costs four looks."""
PodKind = tuple[Shape, int]
"""Pods of one shape and one priority: what has no room for one has none for the others."""


@dataclass(frozen=True, slots=True)
class PodsWithRoom:
    """Pods that find room; `looked` as the next decision is to be asked."""

    pods: tuple[PodInfo, ...]
    looked: frozenset[PodKind]


class UngroupedPods:
    """Pods without a group that lack room, by kind."""

    def __init__(self) -> None:
        self._kinds: dict[PodKind, list[PodInfo]] = {}

    def add(self, pod: PodInfo) -> None:
        """Add a pod; of a kind with very many pods only the oldest are kept."""
        there = self._kinds.setdefault((pod.shape, pod.priority), [])
        there.append(pod)
        if len(there) >= 2 * MOST_OF_A_KIND:
            there.sort(key=_age)
            del there[MOST_OF_A_KIND:]

    def with_room(
        self, view: ClusterView, *, looked: Collection[PodKind] = ()
    ) -> Steps[PodsWithRoom]:
        """Return the pods that find room beside each other, by priority and age.

        Kinds that earlier decisions have `looked` for come last, so that each has its turn, though
        those that never fit use up all looks. Room is judged by amounts, selectors and taints, as
        far as we read them: a pod that is woken in vain costs one try, and kube-scheduler judges
        the rest.
        """
        before = frozenset(looked)
        if before.issuperset(self._kinds):
            before = frozenset()
        order = []
        for number, (kind, pods) in enumerate(self._kinds.items()):
            pods.sort(key=_age)
            rest = iter(pods)
            order.append((_turn(kind in before, pods[0], number), next(rest), rest))
            yield
        heapify(order)
        found, begun, rooms = list[PodInfo](), set[PodKind](), _Rooms(view)
        while order and rooms.may_look:
            turn, pod, rest = order[0]
            begun.add((pod.shape, pod.priority))
            has_room = rooms.take(pod)
            following = next(rest, None) if has_room else None
            if has_room:
                found.append(pod)
            if following is None:
                heappop(order)
            else:
                heapreplace(order, (_turn(turn[0], following, turn[-1]), following, rest))
        return PodsWithRoom(tuple(found), frozenset() if rooms.may_look else before | begun)


def _age(pod: PodInfo) -> float:
    return pod.created


def _turn(looked_before: bool, pod: PodInfo, number: int) -> tuple[bool, int, float, int]:  # noqa: FBT001
    return looked_before, -pod.priority, pod.created, number


class _Rooms:
    """What is left on each node, and how far each kind of pods has looked: rooms only shrink."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._taken: dict[str, Resources] = {}
        self._looks = MOST_LOOKS
        self._cursors: dict[PodKind, tuple[Iterator[NodeInfo], NodeInfo | None]] = {}

    @property
    def may_look(self) -> bool:
        """Whether another node may be looked at."""
        return self._looks > 0

    def take(self, pod: PodInfo) -> bool:
        """Return whether a node has room for a pod, and take that room."""
        kind = (pod.shape, pod.priority)
        nodes, node = self._cursors.get(kind) or (iter(self._view.nodes.values()), None)
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
        used = self._view.used(node.name)
        asked = pod.shape.requests
        if any(used.get(r, 0) + n > node.allocatable.get(r, 0) for r, n in asked.items() if n):
            return False
        if not is_feasible(pod.shape, node):
            return False
        self._looks -= 3  # adding up costs more than a look
        free = self._view.free(node, priority=pod.priority)
        subtract(free, self._taken.get(node.name, {}))
        return fits(asked, free)
