"""The workloads that are about to give quota back."""

from collections.abc import Collection, Iterable, Iterator

from extender.queueing.holders import Holder, Holders
from extender.queueing.quota import Node
from extender.state.queues.snapshot import QueueSnapshot

_Under = dict[str, tuple[Node, list[Holder]]]


class Leaving:
    """In one cycle: what leaves, by its conditions or because that was just decided."""

    def __init__(self, snapshot: QueueSnapshot, holders: Holders) -> None:
        self._snapshot, self._holders = snapshot, holders
        self._chosen: dict[str, set[str]] = {}
        self._under: dict[Node, _Under] = {}
        """By root, then by ClusterQueue: looked up once, because each head of a tree asks."""

    def choose(self, victims: Iterable[str]) -> None:
        """Count these among those that leave."""
        for key in victims:
            held = self._snapshot.admission(key)
            if held is not None:
                self._chosen.setdefault(held.cluster_queue, set()).add(key)
                self._under.clear()

    def look_again(self) -> None:
        """Forget what was looked up: the state has changed."""
        self._under.clear()

    def of(self, cluster_queue: str) -> Collection[str]:
        """Return the workloads that leave a ClusterQueue."""
        held = self._holders.of(cluster_queue)
        chosen = self._chosen.get(cluster_queue)
        return held.leaving.union(chosen & held.holders.keys()) if chosen else held.leaving

    def under(self, root: Node) -> Iterator[tuple[Node, Holder]]:
        """Yield the workloads that leave a tree, each with the ClusterQueue that it leaves."""
        known = self._under.get(root)
        if known is None:
            known = self._under[root] = {}
            for node in root.queues:
                keys = self.of(node.name)
                if keys:
                    holders = self._holders.of(node.name).holders
                    known[node.name] = node, [holders[key] for key in sorted(keys)]
        for node, found in known.values():
            yield from ((node, holder) for holder in found)
