"""The workloads that are about to release quota."""

from collections.abc import Collection, Iterable, Iterator

from extender.queueing.holders import Holders, QuotaHolder
from extender.queueing.quota import QuotaNode
from extender.state.queue.view import QueueView

_Under = dict[str, tuple[QuotaNode, list[QuotaHolder]]]


class Leaving:
    """In one cycle: the evicted workloads, and those chosen as victims in this cycle."""

    def __init__(self, view: QueueView, holders: Holders) -> None:
        self._view, self._holders = view, holders
        self._chosen: dict[str, set[str]] = {}
        self._under: dict[QuotaNode, _Under] = {}
        """By root, then by ClusterQueue: cached, because each head of a tree asks."""

    def choose(self, victims: Iterable[str]) -> None:
        """Count victims as leaving."""
        for key in victims:
            held = self._view.admission(key)
            if held is not None:
                self._chosen.setdefault(held.cluster_queue, set()).add(key)
                self._under.clear()

    def look_again(self) -> None:
        """Drop the cache: the state has changed."""
        self._under.clear()

    def of(self, cluster_queue: str) -> Collection[str]:
        """Return the workloads that leave a ClusterQueue."""
        held = self._holders.of(cluster_queue)
        chosen = self._chosen.get(cluster_queue)
        return held.leaving.union(chosen & held.holders.keys()) if chosen else held.leaving

    def under(self, root: QuotaNode) -> Iterator[tuple[QuotaNode, QuotaHolder]]:
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
