"""Decides what room a group has, which pods may take kept room, and what a failed plan lacked.

There are three kinds of room: free room, room without the reservations of other groups, and empty
nodes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Final

from extender.fit.candidates import is_feasible, slots
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.records import NodeInfo, PodInfo, Shape
from extender.state.cluster.reservations import SYSTEM_CRITICAL
from extender.state.cluster.view import ClusterView

SYSTEM_NAMESPACE: Final = "kube-system"
SHARE: Final = 10
"""The per cent of a node that DaemonSets of another namespace may take from room kept there."""
MOST_LOOKS: Final = 2048
"""The lack of a group is computed only if this many shapes or fewer have to be compared, over all
nodes. Above that, the group is planned again instead."""


class Room(Enum):
    """The kinds of room that are tried for a gang that does not fit."""

    FREE = "free"
    """The room that no pod takes, and no plan of another group keeps."""
    UNKEPT = "unkept"
    """The room that no pod takes and no plan of this group keeps. It ignores other groups, and so
    shows whether their plans and claims are in the way."""
    EMPTY = "empty"
    """The whole nodes. They show whether the gang could ever fit."""


def room_on(
    node: NodeInfo, room: Room, *, view: ClusterView, priority: int, group: str
) -> Resources:
    """Return the amounts that a node has for a group of that priority; may be negative."""
    match room:
        case Room.FREE:
            return view.free(node, priority=priority, group=group)
        case Room.UNKEPT:
            left = dict(node.allocatable)
            subtract(left, view.used(node.name))
            for uid, kept in view.planned_on(node.name).items():
                if view.pods[uid].group == group:
                    subtract(left, kept.amounts[node.name])
            return left
        case Room.EMPTY:
            return dict(node.allocatable)


def without_room(shape: Shape, names: Iterable[str], view: ClusterView) -> Iterator[str]:
    """Yield the nodes on which a pod has no room as far as we know, apart from planned room.

    This is called often for a group that is denied, each time with hundreds of nodes.
    """
    left = view.left.all()
    asked = [(resource, amount) for resource, amount in shape.requests.items() if amount]
    for name in names:
        there = left.get(name)
        if there is None:
            yield name
            continue
        for resource, amount in asked:
            if there.get(resource, 0) < amount:
                yield name
                break


# --- pods of the cluster itself, which use room whatever plans and claims keep ---------------
#
# They are pods of a system priority, and pods of DaemonSets. A pod of a DaemonSet can go to one
# node only, and a node without its agents is of no use to a gang either. But a user of a namespace
# may create DaemonSets there, or pods that look like theirs. Outside of kube-system, all DaemonSet
# pods of one namespace may therefore take only a small share of a node from kept room.


def is_exempt(pod: PodInfo, node: NodeInfo, *, view: ClusterView) -> bool:
    """Return whether a pod of no gang may use room on a node that is kept for gangs."""
    if pod.priority >= SYSTEM_CRITICAL:
        return True
    if pod.only_node != node.name:
        return False
    if pod.namespace == SYSTEM_NAMESPACE:
        return True
    # A pod that was evicted for a gang may not take the room again: it would be evicted endlessly.
    return not view.is_nominated(node.name) and _is_small(pod, node, view)


def is_of_system(pod: PodInfo) -> bool:
    """Return whether a pod is run by the cluster itself, so that no gang may take its room."""
    return pod.mirror or (pod.only_node is not None and pod.namespace == SYSTEM_NAMESPACE)


def _is_small(pod: PodInfo, node: NodeInfo, view: ClusterView) -> bool:
    """Return whether the DaemonSet pods of a pod's namespace stay within their share of a node."""
    together = Resources(pod.shape.requests)
    for uid in chain(view.pods_on(node.name), view.coming_to(node.name)):
        other = view.pods.get(uid)
        if other is not None and other.uid != pod.uid and _is_alike(other, pod):
            add(together, other.shape.requests)
    whole = node.allocatable
    return all(value * 100 <= whole.get(name, 0) * SHARE for name, value in together.items())


def _is_alike(other: PodInfo, pod: PodInfo) -> bool:
    return other.only_node is not None and other.namespace == pod.namespace


# --- the lack of a group that did not fit ----------------------------------------------------
#
# Only nodes that gained room are read again: the others are unchanged or have less. If `missing`
# equal pods of a gang found no room, the gang does not fit before the nodes that gained room can
# take that many. A gang of unequal pods is planned again as soon as such a node can take one pod.


@dataclass(frozen=True, slots=True)
class Lack:
    """The number of pods of these shapes that found no room of a kind."""

    group: str
    priority: int
    shapes: tuple[Shape, ...]
    missing: int
    room: Room

    def is_filled(self, gained: dict[str, int], since: tuple[int, int], view: ClusterView) -> bool:
        """Return whether the nodes that gained room may take the missing pods.

        `since` are the versions of room and of nodes to start from. `gained` maps nodes to the pods
        that they can take, from one call to the next. If a node went away, the answer is yes: the
        group may never fit any more, which only a plan finds out.
        """
        room, changed = since
        if self.room is Room.EMPTY:
            nodes = view.changed_since(changed)
        elif any(name not in view.nodes for name in view.changed_since(changed)):
            return True
        else:
            nodes = view.gained_since(room)
        total = sum(gained.values())
        for number, name in enumerate(nodes):
            if (number + 1) * len(self.shapes) > MOST_LOOKS:
                return True
            total -= gained.pop(name, 0)
            gained[name] = self._slots(name, view)
            total += gained[name]
            if total >= self.missing:
                return True
        return False

    def _slots(self, name: str, view: ClusterView) -> int:
        """Return the largest number of the pods of one shape that a node could take."""
        node = view.nodes.get(name)
        if node is None:
            return 0
        free = room_on(node, self.room, view=view, priority=self.priority, group=self.group)
        # kube-scheduler may judge node affinity differently, so a shape with affinity counts.
        open_to = (s for s in self.shapes if s.affinity is not None or is_feasible(s, node))
        return max((_count(shape, free) for shape in open_to), default=0)


def lack_of(
    pods: Iterable[PodInfo], missing: int, *, group: str, room: Room, view: ClusterView
) -> Lack:
    """Return the lack of a gang of which `missing` pods did not fit."""
    shapes = tuple(dict.fromkeys(pod.shape for pod in pods))
    return Lack(group, view.tally(group).priority, shapes, missing if len(shapes) == 1 else 1, room)


def _count(shape: Shape, free: Mapping[str, int]) -> int:
    return min(slots(shape, free), 1) if shape.one_per_node else slots(shape, free)
