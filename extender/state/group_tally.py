"""How far the pods of one group have come."""

from dataclasses import dataclass, field

from extender.state.assumed import Stage
from extender.state.pods import PodInfo


@dataclass(slots=True)
class GroupTally:
    """The pods of one group by how far they have come, as UIDs in order of arrival.

    Each member is in exactly one of `bound`, `binding`, `waiting`, `planned` or in none of them;
    `gated`, `held_back` and `leaving` only count members in none.
    """

    members: dict[str, None] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    binding: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    """By gates of others, whatever ours does."""
    leaving: set[str] = field(default_factory=set)
    """Being deleted, with a node or without."""
    held_back: set[str] = field(default_factory=set)
    """By our own gate alone, which we take away when it is time."""
    behind_ours: dict[str, None] = field(default_factory=dict, compare=False)
    """By our own gate alone, whether or not room is kept for them, in order of arrival."""
    priorities: dict[int, int] = field(default_factory=dict)
    """How many members have each priority."""

    @property
    def priority(self) -> int:
        """The lowest priority among the members: a gang is worth what its least member is."""
        return min(self.priorities, default=0)

    @property
    def assigned(self) -> int:
        """Members that have a node or wait for quorum with one: what Permit counts."""
        return len(self.bound) + len(self.binding) + len(self.waiting)

    @property
    def committed(self) -> int:
        """Members that room is taken or kept for."""
        return self.assigned + len(self.planned)

    def waits_for_room(self, quorum: int) -> bool:
        """Return whether there are enough members free of gates, and too few of them have room."""
        able = len(self.members) - len(self.gated) - len(self.leaving)
        return able >= quorum > self.committed

    def add(self, pod: PodInfo) -> None:
        """Count a member by what the API shows of it."""
        self.members.setdefault(pod.uid)
        self.priorities[pod.priority] = self.priorities.get(pod.priority, 0) + 1
        if pod.is_held_back:
            self.behind_ours[pod.uid] = None
        if pod.terminating:
            # It does not help those who start now, though it takes its room.
            self.leaving.add(pod.uid)
        elif pod.node is not None:
            self.bound.add(pod.uid)
        elif pod.gates:
            self._behind_gates(pod).add(pod.uid)

    def remove(self, pod: PodInfo) -> None:
        """Take back what `add` has counted; the member keeps its place in `members`."""
        self.bound.discard(pod.uid)
        self.leaving.discard(pod.uid)
        self.behind_ours.pop(pod.uid, None)
        if pod.gates:
            self._behind_gates(pod).discard(pod.uid)
        self.priorities[pod.priority] -= 1
        if not self.priorities[pod.priority]:
            del self.priorities[pod.priority]

    def assume(self, pod: PodInfo, stage: Stage) -> None:
        """Count a member without a node as one that room is taken or kept for."""
        self._at(stage).add(pod.uid)
        if pod.gates:
            self._behind_gates(pod).discard(pod.uid)

    def drop_assumption(self, pod: PodInfo, stage: Stage) -> None:
        """Take back what `assume` has counted."""
        self._at(stage).discard(pod.uid)
        if pod.gates:
            self._behind_gates(pod).add(pod.uid)

    def _behind_gates(self, pod: PodInfo) -> set[str]:
        return self.held_back if pod.is_held_back else self.gated

    def _at(self, stage: Stage) -> set[str]:
        match stage:
            case Stage.PLANNED:
                return self.planned
            case Stage.WAITING:
                return self.waiting
            case Stage.BINDING:
                return self.binding
