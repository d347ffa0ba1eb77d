"""What counts as room: what is free, what would be without others' reservations, or empty nodes."""

from collections.abc import Iterable, Iterator
from enum import Enum

from extender.resources.quantity import Resources, subtract
from extender.state.nodes import NodeInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot


class Room(Enum):
    """The three questions that are asked of a gang that does not fit."""

    FREE = "free"
    """What nobody takes and nobody else has kept for it."""
    UNKEPT = "unkept"
    """What nobody takes and the group keeps not already: is it others' plans and claims that are in
    the way?"""
    EMPTY = "empty"
    """Everything there is: could it ever fit?"""


def room_on(
    node: NodeInfo, room: Room, *, snapshot: Snapshot, priority: int, group: str
) -> Resources:
    """Return the amounts that a node has for a group of that priority; may be negative."""
    match room:
        case Room.FREE:
            return snapshot.free(node, priority=priority, group=group)
        case Room.UNKEPT:
            left = dict(node.allocatable)
            subtract(left, snapshot.used(node.name))
            for assumption in snapshot.reserved(node.name).values():
                if assumption.pod.group == group:
                    subtract(left, assumption.pod.shape.requests)
            return left
        case Room.EMPTY:
            return dict(node.allocatable)


def without_room(pod: PodInfo, names: Iterable[str], snapshot: Snapshot) -> Iterator[str]:
    """Yield the nodes on which the pod has no room as far as we know, whatever plans keep.

    A group that is denied is asked about often, and hundreds of nodes may be sent each time.
    """
    nodes, used_on = snapshot.nodes, snapshot.used
    asked = [(resource, amount) for resource, amount in pod.shape.requests.items() if amount]
    for name in names:
        node = nodes.get(name)
        if node is None:
            yield name
            continue
        used, whole = used_on(name), node.allocatable
        for resource, amount in asked:
            if used.get(resource, 0) + amount > whole.get(resource, 0):
                yield name
                break
