"""What counts as room: what is free, what would be without others' reservations, or empty nodes."""

from collections.abc import Iterable, Iterator
from enum import Enum

from extender.resources.quantity import Resources, subtract
from extender.state.cluster.records import NodeInfo, Shape
from extender.state.cluster.view import ClusterView


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
