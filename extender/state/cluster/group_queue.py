"""The groups that could start if there were room for them, in the order of their turns."""

from bisect import bisect_left, insort
from collections.abc import Iterator

Turn = tuple[int, float, int, str]
"""What groups are ordered by, lowest first: priority negated, time, arrival, `namespace/name`."""


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
