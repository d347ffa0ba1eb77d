"""The schedulers that place pods on a node, while such pods are there and a minute more."""

from collections.abc import Collection, Container
from typing import Final

from extender.state.cluster.expiring_set import ExpiringSet

SECONDS: Final = 60.0
"""The time that a scheduler may soon place another pod on a node."""


class SchedulersOnNodes:
    """Counts of pods on nodes, by the scheduler that they name."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, int]] = {}
        """By scheduler and node; 0 for a while after the last pod went."""
        self._gone = ExpiringSet[tuple[str, str]](SECONDS)

    def count(self, scheduler: str, node: str) -> None:
        """Count a pod on a node."""
        there = self._pods.setdefault(scheduler, {})
        there[node] = there.get(node, 0) + 1

    def uncount(self, scheduler: str, node: str) -> None:
        """Undo `count`: a pod has gone."""
        there = self._pods[scheduler]
        there[node] -= 1
        if not there[node]:
            ended = self._gone.add((scheduler, node))
            if ended is not None:
                self._forget(*ended)

    def pass_time(self, now: float) -> None:
        """Forget the nodes whose last pod of a scheduler went too long before `now`, in seconds."""
        for ended in self._gone.pass_time(now):
            self._forget(*ended)

    def nodes_of_others(self, but: Container[str]) -> list[Collection[str]]:
        """Return the nodes of each scheduler that is not one of these; live."""
        return [there.keys() for name, there in self._pods.items() if name not in but]

    def as_counted(self) -> dict[tuple[str, str], int]:
        """Return how many pods there are, by scheduler and node."""
        found = self._pods.items()
        return {(name, node): n for name, there in found for node, n in there.items() if n}

    def _forget(self, scheduler: str, node: str) -> None:
        there = self._pods.get(scheduler, {})
        if there.get(node) == 0:
            del there[node]
            if not there:
                del self._pods[scheduler]
