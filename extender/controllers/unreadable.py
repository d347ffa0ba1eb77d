"""Tells once, of each object, which of its settings cannot be read."""

from collections.abc import Hashable

from extender.queueing.readiness import unreadable
from extender.state.queues.records import Meta


class Unreadable:
    """What was told, by object; a new process tells it anew."""

    def __init__(self) -> None:
        self._told: dict[Hashable, str] = {}

    def news(self, key: Hashable, meta: Meta) -> str:
        """Return what is to be told of an object; nothing where that was, or all can be read."""
        found = ", ".join(unreadable(meta))
        if not found:
            self._told.pop(key, None)
            return ""
        if self._told.get(key) == found:
            return ""
        self._told[key] = found
        return f"This cannot be read, and says nothing: {found}"

    def forget(self, key: Hashable) -> None:
        """Forget an object that is gone."""
        self._told.pop(key, None)
