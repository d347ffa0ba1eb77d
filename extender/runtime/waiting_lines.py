"""Lines that take turns: one that is long delays only itself."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class WaitingLines(Generic[Key, Item]):
    """Items that wait in lines by key, at most `most` in all. The lines take turns."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0
        self._lines: OrderedDict[Key, deque[Item]] = OrderedDict()
        """The lines, the one whose turn it is first. No line is empty."""
        self._of_length: dict[int, dict[Key, None]] = {}
        """The keys of the lines by the length of the line."""
        self._longest = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, key: Key, item: Item) -> Item | None:
        """Let an item wait; where too many do, return the last one of a longest line instead."""
        line = self._lines.setdefault(key, deque())
        line.append(item)
        self._changed(key, len(line) - 1, len(line))
        if self._waiting <= self._most:
            return None
        return self._take(next(reversed(self._of_length[self._longest])), last=True)

    def heads(self) -> Iterator[Item]:
        """Yield the first item of each line, the next one first."""
        return (line[0] for line in self._lines.values())

    def take(self) -> Item:
        """Return the first item of the next line, whose turn has been. Raises StopIteration."""
        key = next(iter(self._lines))
        self._lines.move_to_end(key)
        return self._take(key, last=False)

    def _take(self, key: Key, *, last: bool) -> Item:
        line = self._lines[key]
        found = line.pop() if last else line.popleft()
        if not line:
            del self._lines[key]
        self._changed(key, len(line) + 1, len(line))
        return found

    def _changed(self, key: Key, before: int, after: int) -> None:
        self._waiting += after - before
        if after:
            self._of_length.setdefault(after, {})[key] = None
        if before:
            del self._of_length[before][key]
            if not self._of_length[before]:
                del self._of_length[before]
        self._longest = max(self._longest, after)
        while self._longest and self._longest not in self._of_length:
            self._longest -= 1
