"""What is in doubt for a time: state has no clock, so the time begins with the next one given."""

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

_MOST: Final = 10_000
"""Where no time is ever given, so many are kept."""

T = TypeVar("T", bound=Hashable)


class Doubts(Generic[T]):
    """Things in doubt, each for so many seconds from the first time that is given after it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._new: dict[T, None] = {}
        self._until: dict[T, float] = {}
        """The first to end first."""

    def __contains__(self, what: object) -> bool:
        return what in self._new or what in self._until

    def add(self, what: T) -> T | None:
        """Doubt something from now on; return what is in doubt no more instead, if there is."""
        self._until.pop(what, None)
        self._new[what] = None
        if len(self._new) <= _MOST:
            return None
        oldest = next(iter(self._new))
        del self._new[oldest]
        return oldest

    def pass_time(self, now: float) -> Iterator[T]:
        """Yield what is in doubt no more by `now`, in seconds."""
        new, self._new = self._new, {}
        self._until.update(dict.fromkeys(new, now + self._seconds))
        while self._until:
            what, until = next(iter(self._until.items()))
            if until > now:
                return
            del self._until[what]
            yield what
