"""Whether the nodes that a group could use have its minResources free, taken together."""

from collections.abc import Iterable, Mapping
from typing import Final

from extender.gang.feasibility import is_feasible
from extender.gang.room import Room, room_on
from extender.resources.quantity import PODS, Resources, add, show
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import Shape
from extender.state.snapshot import Snapshot
from extender.steps import PIECE, Steps

MOST: Final = 64
"""How many resources minResources may name; a node has fewer than that."""


def shortage(
    pod_group: PodGroupInfo, *, snapshot: Snapshot, room: Room = Room.FREE
) -> Steps[Resources]:
    """Return, by name, how much is missing; nothing where minResources are met or not given.

    What the group's own pods take already counts as there. Nodes that none of them may use, because
    they are cordoned, not ready or tainted, do not count; an overcommitted node counts as full, not
    as a debt.
    """
    wanted = {name: n for name, n in pod_group.min_resources.items() if name != PODS}
    if not wanted:
        return {}
    group, there = pod_group.key, Resources()
    priority = snapshot.tally(group).priority
    shapes = {member.shape for member in snapshot.members(group)}
    for number, name in enumerate(list(snapshot.nodes)):
        if number % PIECE == PIECE - 1:
            yield
        node = snapshot.nodes.get(name)
        if node is not None and (yield from _is_usable(shapes, node)):
            free = room_on(node, room, snapshot=snapshot, priority=priority, group=group)
            add(there, {name: max(0, free.get(name, 0)) for name in wanted})
    if room is not Room.EMPTY:
        for member in snapshot.members(group):
            if member.node is not None or snapshot.assumption(member.uid) is not None:
                add(there, {name: member.shape.requests.get(name, 0) for name in wanted})
    return {name: n - there.get(name, 0) for name, n in wanted.items() if n > there.get(name, 0)}


def _is_usable(shapes: Iterable[Shape], node: NodeInfo) -> Steps[bool]:
    for number, shape in enumerate(shapes):
        if is_feasible(shape, node):
            return True
        if number % PIECE == PIECE - 1:
            yield
    return False


def sentence(short: Mapping[str, int]) -> str:
    """Return a shortage as a person reads it."""
    return ", ".join(f"{name} {show(name, value)}" for name, value in sorted(short.items()))
