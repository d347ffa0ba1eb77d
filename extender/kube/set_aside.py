"""Objects that cannot be read: each is set aside alone, and everything else goes on.

What is believed of such an object is what its last readable version said, until it is deleted or
can be read again. So a pod that has a node keeps its room there.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import structlog

from extender.kube.identity import Identity

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Aside:
    """One object that cannot be read, or not decided about, and why."""

    kind: str
    """What its reflector is called, such as `pods`."""
    object: Identity
    why: str


class ObjectsSetAside:
    """The objects that are set aside now. Listeners get each version once; it is logged once."""

    def __init__(self) -> None:
        self._there: dict[tuple[str, str], Aside] = {}
        self._listeners: list[Callable[[Aside], None]] = []

    def __iter__(self) -> Iterator[Aside]:
        """Return all objects that are set aside."""
        return iter(list(self._there.values()))

    def subscribe(self, listener: Callable[[Aside], None]) -> None:
        """Call a function for each object that is set aside from now on."""
        self._listeners.append(listener)

    def counts(self) -> Counter[str]:
        """Return how many objects are set aside, by kind."""
        return Counter(kind for kind, _ in self._there)

    def has(self, kind: str) -> bool:
        """Return whether objects of a kind are set aside."""
        return bool(self._there) and any(of == kind for of, _ in self._there)

    def put(self, kind: str, which: Identity, why: str) -> None:
        """Set a version of an object aside."""
        before = self._there.get((kind, which.key))
        now = self._there[kind, which.key] = Aside(kind, which, why)
        if before is not None and before.object == which and before.why == why:
            return
        _log.warning(
            "object set aside", kind=kind, object=which.key, version=which.version, error=why
        )
        for listener in self._listeners:
            listener(now)

    def drop(self, kind: str, key: str) -> None:
        """Forget an object that can be read again, or is gone."""
        self._there.pop((kind, key), None)

    def keep(self, kind: str, keys: Collection[str]) -> None:
        """Forget those of a kind that a list does not have any more."""
        for known in [key for of, key in self._there if of == kind and key not in keys]:
            self.drop(kind, known)
