"""Logs of changes with version numbers: nodes that changed for the better, and pods that changed.

A reader that keeps results asks for what was noted since its last version.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from extender.state.cluster.records import PodInfo

REMEMBERED: Final = 20_000
"""The number of changed pods, and of deleted pods and nodes, that are remembered."""


class Gains:
    """Nodes in the order in which they were noted last; each note has a number, its version.

    A reader that keeps the version of its last look walks only over the nodes noted since then.
    """

    __slots__ = ("_at", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of the latest note; 0 before the first one."""
        self._at: dict[str, int] = {}

    def note(self, nodes: Iterable[str]) -> None:
        """Note nodes, if there are any, under one new version."""
        found = list(nodes)
        if found:
            self.version += 1
        for node in found:
            self._at.pop(node, None)
            self._at[node] = self.version

    def forget(self, node: str) -> None:
        """Forget a node that went, once every reader has looked since."""
        self._at.pop(node, None)

    def since(self, version: int) -> Iterator[str]:
        """Yield the nodes noted after a version, the latest first; not to be kept over a note."""
        for node, at in reversed(self._at.items()):
            if at <= version:
                return
            yield node


class PodLog:
    """The latest pods that were counted or taken off; each entry has a number, its version."""

    __slots__ = ("_pods", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of the latest entry; 0 before the first one."""
        self._pods: deque[PodInfo] = deque(maxlen=REMEMBERED)

    def note(self, pod: PodInfo) -> None:
        """Add an entry."""
        self.version += 1
        self._pods.append(pod)

    def since(self, version: int) -> Collection[PodInfo] | None:
        """Return the pods noted after a version; None where they are too many to be known."""
        number = self.version - version
        if number > len(self._pods):
            return None
        return list(islice(reversed(self._pods), number))
