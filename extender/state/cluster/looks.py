"""What kube-scheduler said of nodes for pods of a pattern, as long as it is worth something.

Each filter request names nodes on which an equal pod has passed its filters. That says nothing of
the other nodes: it may be a sample. Samples add up, until a node changes.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from extender.state.cluster.doubts import Doubts
from extender.state.cluster.records import Pattern

MOST: Final = 64
"""Patterns; of more the first ones are forgotten."""
SECONDS: Final = 60.0
"""How long a look counts: a kube-scheduler that was started with other settings looks anew."""
_FEATURES_SECONDS: Final = 5.0
"""How far kube-scheduler's watch may be behind ours where our own reading sees no difference."""
_NOWHERE: Final[frozenset[str]] = frozenset()


class Look:
    """The nodes that were good for a pattern and have not changed since."""

    __slots__ = ("agrees", "began", "nodes")

    def __init__(self, began: float) -> None:
        self.nodes: set[str] = set()
        self.began = began
        """Of the first request, in seconds."""
        self.agrees = True
        """Whether our books agreed with the last request: none counts until they do again."""


class Looks:
    """The looks by pattern."""

    def __init__(self) -> None:
        self._of: dict[Pattern, Look] = {}
        """The one first that began first."""
        self._doubted = Doubts[str](_FEATURES_SECONDS)
        """Nodes that declare other features than before. kube-scheduler may ask for one that is
        unknown here, and its answer may be about the node as it was."""

    def __iter__(self) -> Iterator[Look]:
        return iter(self._of.values())

    def of(self, pattern: Pattern) -> Look | None:
        """Return what was seen of a pattern."""
        return self._of.get(pattern)

    def good(self, pattern: Pattern) -> Collection[str]:
        """Return the nodes that are good for a pattern, room aside; the live set."""
        look = self._of.get(pattern)
        return look.nodes if look is not None and look.agrees else _NOWHERE

    def add(self, pattern: Pattern, names: Iterable[str], *, at: float, agrees: bool) -> None:
        """Add what a request said, at a time in seconds."""
        for _ in self._doubted.pass_time(at):
            pass
        self._drop_old(at)
        look = self._of.get(pattern)
        if look is None:
            look = self._of[pattern] = Look(at)
            if len(self._of) > MOST:
                del self._of[next(iter(self._of))]
        look.agrees = agrees
        if agrees:
            look.nodes.update(name for name in names if name not in self._doubted)

    def forget(self, node: str, *, doubted: bool = False) -> None:
        """Forget what was said of a node: it came, went or changed."""
        if doubted:
            self._doubted.add(node)
        for look in self._of.values():
            look.nodes.discard(node)

    def _drop_old(self, now: float) -> None:
        for pattern, look in [*self._of.items()]:
            if now - look.began <= SECONDS:
                return
            del self._of[pattern]
