"""The nodes that kube-scheduler found feasible for pods of a pattern, until they change.

Each filter request names nodes on which an equal pod has passed its filters. That says nothing of
the other nodes: it may be a sample. Samples add up, until a node changes.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from extender.state.cluster.expiring_set import ExpiringSet
from extender.state.cluster.records import Pattern

MOST: Final = 64
"""Patterns; of more the first ones are forgotten."""
SECONDS: Final = 60.0
"""The time that an answer counts: kube-scheduler may restart with other settings."""
_FEATURES_SECONDS: Final = 5.0
"""The lag of kube-scheduler's watch behind ours that a change unknown to us may have."""
_NOWHERE: Final[frozenset[str]] = frozenset()


class PatternNodes:
    """The nodes that were good for a pattern and have not changed since."""

    __slots__ = ("agrees", "began", "nodes")

    def __init__(self, began: float) -> None:
        self.nodes: set[str] = set()
        self.began = began
        """The time of the first request, in seconds."""
        self.agrees = True
        """True if our books agreed with the last request: no node counts until they do again."""


class FeasibleByPattern:
    """The feasible nodes by pattern."""

    def __init__(self) -> None:
        self._of: dict[Pattern, PatternNodes] = {}
        """The one first that began first."""
        self._doubted = ExpiringSet[str](_FEATURES_SECONDS)
        """Nodes that declare other features than before. kube-scheduler may ask for one that is
        unknown here, and its answer may be about the node as it was."""

    def __iter__(self) -> Iterator[PatternNodes]:
        return iter(self._of.values())

    def of(self, pattern: Pattern) -> PatternNodes | None:
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
            look = self._of[pattern] = PatternNodes(at)
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
