"""Lines that take turns: one that is long delays only itself."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Turns(Generic[Key, Item]):
    """What waits, in lines by a key, at most so many in all, and which of it is next."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0
        self._lines: OrderedDict[Key, deque[Item]] = OrderedDict()
        """The one whose turn it is comes first. None of them is empty."""

    def __len__(self) -> int:
        return self._waiting

    def add(self, key: Key, item: Item) -> Item | None:
        """Let an item wait; where too many do, return the last one of the longest line instead."""
        self._lines.setdefault(key, deque()).append(item)
        self._waiting += 1
        if self._waiting <= self._most:
            return None
        longest = max(self._lines, key=lambda each: len(self._lines[each]))
        return self._take(longest, last=True)

    def next(self) -> Item:
        """Return what `take` would. Raises StopIteration where nothing waits."""
        return next(iter(self._lines.values()))[0]

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
        self._waiting -= 1
        return found
