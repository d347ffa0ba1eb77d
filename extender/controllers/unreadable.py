"""Tells once, of each object, which of its settings cannot be read, or do not count."""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from extender.state.queues.records import Meta

Reader = Callable[[Meta], Iterable[str]]
"""Returns what is to be told of each value that it cannot read."""


class Once:
    """What was told, by object; a new process tells it anew."""

    def __init__(self) -> None:
        self._told: dict[Hashable, str] = {}

    def only_new(self, key: Hashable, texts: Iterable[str]) -> str:
        """Return what is to be told of an object; nothing where that was, or there is nothing."""
        found = "; ".join(texts)
        if not found:
            self._told.pop(key, None)
            return ""
        if self._told.get(key) == found:
            return ""
        self._told[key] = found
        return found

    def forget(self, key: Hashable) -> None:
        """Forget an object that is gone."""
        self._told.pop(key, None)


class Unreadable(Once):
    """What was told of settings that cannot be read."""

    def __init__(self, *readers: Reader) -> None:
        super().__init__()
        self._readers: Final = readers

    def news(self, key: Hashable, meta: Meta) -> str:
        """Return what is to be told of an object; nothing where that was, or all can be read."""
        return self.only_new(key, (each for read in self._readers for each in read(meta)))
