"""What a gang that did not fit lacked, so that only nodes that gained room are read again.

Other nodes have lost room or are as they were. So a gang of equal pods of which `missing` found no
room does not fit before the nodes that gained can take that many. A gang of unequal pods is planned
again as soon as such a node can take one of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.fit.feasibility import is_feasible
from extender.fit.room_left import slots
from extender.gang.room import Room, room_on
from extender.state.cluster.records import PodInfo, Shape
from extender.state.cluster.view import ClusterView

MOST_NODES: Final = 128
MOST_SHAPES: Final = 16
"""With more of either nothing is counted here: the gang is planned again, in slices."""


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
