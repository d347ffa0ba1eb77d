"""Which pods came, went or changed, and when: what readers that keep results must look at again."""

from collections import deque
from collections.abc import Collection
from itertools import islice
from typing import Final

from extender.state.cluster.records import PodInfo

_KEPT: Final = 20_000


class PodLog:
    """The latest pods that were counted or taken off; each entry has a number, its version."""

    __slots__ = ("_pods", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of the latest entry; 0 before the first one."""
        self._pods: deque[PodInfo] = deque(maxlen=_KEPT)

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
