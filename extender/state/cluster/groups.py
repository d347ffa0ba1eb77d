"""The progress of the pods of one group, and the queue of groups that could start."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from extender.state.cluster.records import PodInfo
from extender.state.cluster.reservations import ReservationKind

Turn = tuple[int, float, int, str]
"""The order of groups, lowest first: priority negated, time, arrival, `namespace/name`."""


@dataclass(slots=True)
class GroupTally:
    """The pods of one group by how far they have come, as UIDs in order of arrival.

    Each member is in exactly one of `bound`, `binding`, `waiting`, `planned` or in none of them;
    `gated`, `gated_by_us` and `leaving` only count members in none.
    """

    members: dict[str, None] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    binding: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    """Members behind gates of others, with or without our own gate."""
    leaving: set[str] = field(default_factory=set)
    """Members that are being deleted, with a node or without."""
    gated_by_us: set[str] = field(default_factory=set)
    """Members behind our own gate alone, which we remove when it is time."""
    all_gated_by_us: dict[str, None] = field(default_factory=dict, compare=False)
    """All members behind our own gate alone in order of arrival, with kept room or without."""
    priorities: dict[int, int] = field(default_factory=dict)
    """The number of members with each priority."""
    able: Counter[int] = field(default_factory=Counter, compare=False)
    """The number of members with each priority that run or could: no gate of others keeps them from
    a node, and kube-scheduler has not found them unschedulable."""

    @property
    def priority(self) -> int:
        """The lowest priority among the members: a gang is worth what its least member is."""
        return min(self.priorities, default=0)

    @property
    def worth(self) -> int | None:
        """The highest priority among members that run or could: that of a gang that makes room."""
        return max(self.able, default=None)

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
        if _is_able(pod):
            self.able[pod.priority] += 1
        if pod.is_gated_by_us:
            self.all_gated_by_us[pod.uid] = None
        if pod.terminating:
            # It does not help members that start now, though it takes its room.
            self.leaving.add(pod.uid)
        elif pod.node is not None:
            self.bound.add(pod.uid)
        elif pod.gates:
            self._behind_gates(pod).add(pod.uid)

    def remove(self, pod: PodInfo) -> None:
        """Undo `add`; the member keeps its place in `members`."""
        self.bound.discard(pod.uid)
        self.leaving.discard(pod.uid)
        self.all_gated_by_us.pop(pod.uid, None)
        if pod.gates:
            self._behind_gates(pod).discard(pod.uid)
        self.priorities[pod.priority] -= 1
        if not self.priorities[pod.priority]:
            del self.priorities[pod.priority]
        if _is_able(pod):
            self.able[pod.priority] -= 1
            if not self.able[pod.priority]:
                del self.able[pod.priority]

    def reserve(self, pod: PodInfo, kind: ReservationKind) -> None:
        """Count a member without a node as one that has a reservation of a kind."""
        self._at(kind).add(pod.uid)
        if pod.gates:
            self._behind_gates(pod).discard(pod.uid)

    def release(self, pod: PodInfo, kind: ReservationKind) -> None:
        """Undo `reserve`."""
        self._at(kind).discard(pod.uid)
        if pod.gates:
            self._behind_gates(pod).add(pod.uid)

    def _behind_gates(self, pod: PodInfo) -> set[str]:
        return self.gated_by_us if pod.is_gated_by_us else self.gated

    def _at(self, kind: ReservationKind) -> set[str]:
        match kind:
            case ReservationKind.PLANNED:
                return self.planned
            case ReservationKind.WAITING:
                return self.waiting
            case _:
                return self.binding


def _is_able(pod: PodInfo) -> bool:
    return pod.node is not None or (
        pod.unschedulable is None and (not pod.gates or pod.is_gated_by_us)
    )


class GroupQueue:
    """Groups in order; moving one costs a search and a shift, whatever their number."""

    __slots__ = ("_line", "_turns")

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._line: list[Turn] = []

    def __len__(self) -> int:
        return len(self._line)

    def __contains__(self, group: str) -> bool:
        return group in self._turns

    def __iter__(self) -> Iterator[str]:
        """Yield the groups, first to be served first."""
        return (turn[-1] for turn in self._line)

    def put(self, turn: Turn) -> None:
        """Give the group at the end of `turn` its place, whether or not it had another one."""
        group = turn[-1]
        if self._turns.get(group) != turn:
            self.drop(group)
            self._turns[group] = turn
            insort(self._line, turn)

    def drop(self, group: str) -> bool:
        """Remove a group; return whether it was in."""
        turn = self._turns.pop(group, None)
        if turn is None:
            return False
        del self._line[bisect_left(self._line, turn)]
        return True

    def position(self, turn: Turn) -> int:
        """Return how many groups come before a turn."""
        return bisect_left(self._line, turn)

    def ahead_of(self, turn: Turn) -> Iterator[str]:
        """Yield the groups that come before a turn, first to be served first."""
        for other in self._line:
            if other >= turn:
                return
            yield other[-1]
