"""Room for a group: what counts as free, which pods may take kept room, what a failed plan lacked.

Three kinds of room are asked for: what is free, what would be without others' reservations, and
empty nodes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Final

from extender.fit.candidates import is_feasible
from extender.fit.room_left import slots
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.records import NodeInfo, PodInfo, Shape
from extender.state.cluster.reservations import SYSTEM_CRITICAL
from extender.state.cluster.view import ClusterView

SYSTEM_NAMESPACE: Final = "kube-system"
SHARE: Final = 10
"""Per cent of a node that DaemonSets of another namespace may take from what is kept there."""
MOST_NODES: Final = 128
MOST_SHAPES: Final = 16
"""With more of either the lack of a group is not counted: it is planned again, in slices."""


class Room(Enum):
    """The three questions that are asked of a gang that does not fit."""

    FREE = "free"
    """What no pod takes, and no plan of another group keeps."""
    UNKEPT = "unkept"
    """What no pod takes and the group does not keep already: are others' plans and claims in the
    way?"""
    EMPTY = "empty"
    """Everything there is: could it ever fit?"""


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
    """Yield the nodes on which a pod has no room as far as we know, whatever plans keep.

    A group that is denied is asked about often, and hundreds of nodes may be sent each time.
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
# Those are pods of a system priority, and pods of DaemonSets: each of these has one node to go to,
# and a node without its agents is of no use to a gang either. But a user who may make pods in one
# namespace may also make DaemonSets there, or pods that look like theirs. So outside of kube-system
# the pods of one namespace that are made that way take a small share of a node from others, and not
# more, however many DaemonSets they name.


def is_exempt(pod: PodInfo, node: NodeInfo, *, view: ClusterView) -> bool:
    """Return whether a pod of no gang may use room on a node that is kept for gangs."""
    if pod.priority >= SYSTEM_CRITICAL:
        return True
    if pod.only_node != node.name:
        return False
    if pod.namespace == SYSTEM_NAMESPACE:
        return True
    # What made room for a gang may not take it again, or it would be evicted without end.
    return not view.is_nominated(node.name) and _is_small(pod, node, view)


def is_of_system(pod: PodInfo) -> bool:
    """Return whether no gang may take the room of a pod: the cluster itself runs it on its node."""
    return pod.mirror or (pod.only_node is not None and pod.namespace == SYSTEM_NAMESPACE)


def _is_small(pod: PodInfo, node: NodeInfo, view: ClusterView) -> bool:
    """Return whether the pods of its kind and namespace have no more than their share of a node."""
    together = Resources(pod.shape.requests)
    for uid in chain(view.pods_on(node.name), view.coming_to(node.name)):
        other = view.pods.get(uid)
        if other is not None and other.uid != pod.uid and _is_alike(other, pod):
            add(together, other.shape.requests)
    whole = node.allocatable
    return all(value * 100 <= whole.get(name, 0) * SHARE for name, value in together.items())


def _is_alike(other: PodInfo, pod: PodInfo) -> bool:
    return other.only_node is not None and other.namespace == pod.namespace


# --- what a group that did not fit lacked ----------------------------------------------------
#
# Only nodes that gained room are read again: others have lost room or are as they were. So a gang
# of equal pods of which `missing` found no room does not fit before the nodes that gained can take
# that many. A gang of unequal pods is planned again as soon as such a node can take one of them.


@dataclass(frozen=True, slots=True)
class Lack:
    """So many pods of these shapes found no room of a kind."""

    group: str
    priority: int
    shapes: tuple[Shape, ...]
    missing: int
    room: Room

    def is_filled(self, gained: dict[str, int], since: tuple[int, int], view: ClusterView) -> bool:
        """Return whether the nodes that gained room since two versions may make up for it.

        The versions are those of room and of nodes. `gained` has how many pods each node can take,
        from one call to the next. After a node went the group may never fit: that is found out.
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
            if number == MOST_NODES or len(self.shapes) > MOST_SHAPES:
                return True
            total -= gained.pop(name, 0)
            gained[name] = self._slots(name, view)
            total += gained[name]
            if total >= self.missing:
                return True
        return False

    def _slots(self, name: str, view: ClusterView) -> int:
        """Return how many of the pods a node could take, at most; one is enough of unequal ones."""
        node = view.nodes.get(name)
        if node is None:
            return 0
        free = room_on(node, self.room, view=view, priority=self.priority, group=self.group)
        # kube-scheduler may read affinity in another way, and is asked first.
        open_to = (s for s in self.shapes if s.affinity is not None or is_feasible(s, node))
        return max((_count(shape, free) for shape in open_to), default=0)


def lack_of(
    pods: Iterable[PodInfo], missing: int, *, group: str, room: Room, view: ClusterView
) -> Lack:
    """Return what a gang lacks of which so many pods did not fit."""
    shapes = tuple(dict.fromkeys(pod.shape for pod in pods))
    return Lack(group, view.tally(group).priority, shapes, missing if len(shapes) == 1 else 1, room)


def _count(shape: Shape, free: Mapping[str, int]) -> int:
    return min(slots(shape, free), 1) if shape.one_per_node else slots(shape, free)
