"""What a gang that did not fit would need more, so that few nodes have to be looked at again.

Room on the other nodes only shrinks. So a gang of equal pods that had room for all but `missing`
does not fit before the nodes that have gained room since could take that many. For unequal pods
one that a node could take now is reason enough for another look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from extender.gang.feasibility import is_feasible
from extender.gang.room import Room, room_on
from extender.state.pods import Shape
from extender.state.snapshot import Snapshot

MOST_NODES: Final = 128
MOST_SHAPES: Final = 16
"""More is not counted here: another look, which goes in slices, is due then."""


@dataclass(frozen=True, slots=True)
class Lack:
    """So many pods of these shapes found no room of a kind."""

    group: str
    priority: int
    shapes: tuple[Shape, ...]
    missing: int
    room: Room

    def is_filled(self, gained: dict[str, int], since: tuple[int, int], snapshot: Snapshot) -> bool:
        """Return whether the nodes that gained since two versions may make up for it.

        The versions are those of room and of nodes. `gained` remembers, from one call to the next,
        how many pods each of them could take. With a node that went the group may never fit.
        """
        room, changed = since
        if self.room is Room.EMPTY:
            nodes = snapshot.changed_since(changed)
        elif any(name not in snapshot.nodes for name in snapshot.changed_since(changed)):
            return True
        else:
            nodes = snapshot.gained_since(room)
        total = sum(gained.values())
        for number, name in enumerate(nodes):
            if number == MOST_NODES or len(self.shapes) > MOST_SHAPES:
                return True
            total -= gained.pop(name, 0)
            gained[name] = self._slots(name, snapshot)
            total += gained[name]
            if total >= self.missing:
                return True
        return False

    def _slots(self, name: str, snapshot: Snapshot) -> int:
        """Return how many of the pods a node could take, at most; one is enough of unequal ones."""
        node = snapshot.nodes.get(name)
        if node is None:
            return 0
        free = room_on(node, self.room, snapshot=snapshot, priority=self.priority, group=self.group)
        # Affinity may be read otherwise by kube-scheduler, which is asked first where it is.
        open_to = (s for s in self.shapes if s.affinity is not None or is_feasible(s, node))
        return max((_count(shape, free) for shape in open_to), default=0)


def _count(shape: Shape, free: Mapping[str, int]) -> int:
    found = (free.get(name, 0) // value for name, value in shape.requests.items() if value)
    most = max(0, min(found, default=1))
    return min(most, 1) if shape.one_per_node else most
