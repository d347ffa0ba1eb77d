"""Which nodes changed for the better, and when: what a decision that failed must look at again."""

from collections.abc import Iterable, Iterator


class Gains:
    """Nodes in the order in which they were noted last; each note has a number, its version.

    A reader that keeps the version of its last look walks only over the nodes noted since then.
    """

    __slots__ = ("_at", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of the latest note; 0 before the first one."""
        self._at: dict[str, int] = {}

    def note(self, nodes: Iterable[str]) -> bool:
        """Note nodes under one new version; return whether there were any."""
        found = list(nodes)
        if not found:
            return False
        self.version += 1
        for node in found:
            self._at.pop(node, None)
            self._at[node] = self.version
        return True

    def forget(self, node: str) -> None:
        """Forget a node that went, once every reader has looked since."""
        self._at.pop(node, None)

    def since(self, version: int) -> Iterator[str]:
        """Yield the nodes noted after a version, the latest first; not to be kept over a note."""
        for node, at in reversed(self._at.items()):
            if at <= version:
                return
            yield node
