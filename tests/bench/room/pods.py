"""The pods of one Job as they are after each event."""

from collections.abc import Callable, Collection

from tests.bench.room.history import PodSeen


class Pods:
    """Those that are there; one that has ended well keeps its place among them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pods: dict[str, PodSeen] = {}

    def take(self, seen: PodSeen) -> None:
        """Take in an event."""
        if seen.gone:
            self._pods.pop(seen.uid, None)
        else:
            self._pods[seen.uid] = seen

    @property
    def all_exist(self) -> bool:
        """Whether all its pods are made."""
        return len(self._pods) >= self._size

    @property
    def all_bound(self) -> bool:
        """Whether all its pods have, or had, a node."""
        return self._count(lambda pod: pod.bound) >= self._size

    @property
    def all_running(self) -> bool:
        """Whether all its pods run at once."""
        return self._count(lambda pod: pod.running) >= self._size

    @property
    def on_nodes(self) -> int:
        """How many of them use a node."""
        return self._count(lambda pod: pod.bound and not pod.ended)

    @property
    def names(self) -> Collection[str]:
        """Their names."""
        return [pod.name for pod in self._pods.values()]

    def _count(self, which: Callable[[PodSeen], bool]) -> int:
        return sum(map(which, self._pods.values()))
