"""A set whose entries expire. State has no clock: their time starts at the next `pass_time`."""

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

_MOST: Final = 10_000
"""The most entries that are kept if no time is ever given."""

T = TypeVar("T", bound=Hashable)


class ExpiringSet(Generic[T]):
    """Entries that stay for a number of seconds from the first time given after they were added."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._new: dict[T, None] = {}
        self._until: dict[T, float] = {}
        """The first to end first."""

    def __contains__(self, what: object) -> bool:
        return what in self._new or what in self._until

    def add(self, what: T) -> T | None:
        """Add an entry from now on; return the entry that had to go for it, if there is one."""
        self._until.pop(what, None)
        self._new[what] = None
        if len(self._new) <= _MOST:
            return None
        oldest = next(iter(self._new))
        del self._new[oldest]
        return oldest

    def pass_time(self, now: float) -> Iterator[T]:
        """Yield the entries that have expired by `now`, in seconds, and remove them."""
        new, self._new = self._new, {}
        self._until.update(dict.fromkeys(new, now + self._seconds))
        while self._until:
            what, until = next(iter(self._until.items()))
            if until > now:
                return
            del self._until[what]
            yield what
