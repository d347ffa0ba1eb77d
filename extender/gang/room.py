"""What counts as room: what is free, what would be without others' reservations, or empty nodes."""

from enum import Enum

from extender.resources.quantity import Resources
from extender.state.nodes import NodeInfo
from extender.state.snapshot import Snapshot


class Room(Enum):
    """The three questions that are asked of a gang that does not fit."""

    FREE = "free"
    """What nobody takes and nobody else has kept for it."""
    UNKEPT = "unkept"
    """What nobody takes: is it the plans and claims of others that are in the way?"""
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
            used = snapshot.used(node.name)
            names = {*node.allocatable, *used}
            return {name: node.allocatable.get(name, 0) - used.get(name, 0) for name in names}
        case Room.EMPTY:
            return dict(node.allocatable)
