"""What judgements of heads are based on: a judgement is outdated once that has changed."""

from collections.abc import Mapping

from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaNode, QuotaTree
from extender.queueing.room import AdmissionRules
from extender.state.queue.view import QueueView

Basis = tuple[int, int, int]
"""Changes of tentative usage in a tree, the version of room on nodes, and changes of the state."""


class Bases:
    """Counts what changes in one cycle."""

    def __init__(
        self, view: QueueView, pending: PendingQueues, *, tree: QuotaTree, rules: AdmissionRules
    ) -> None:
        self._view, self._pending, self._tree, self._rules = view, pending, tree, rules
        self._usage: dict[QuotaNode, int] = {}
        """By root: how often tentative usage has changed."""
        self._standing: dict[QuotaNode, int] = {}
        """The same without provisional quota of heads that block a strict queue."""
        self.state_changes = 0
        self.node_changes = 0

    def count(self, node: QuotaNode, *, standing: bool) -> None:
        """Count a change of usage; not `standing` where the usage may be released in the cycle."""
        for counts in (self._usage, self._standing) if standing else (self._usage,):
            counts[node.root] = counts.get(node.root, 0) + 1

    def root(self, key: str) -> QuotaNode | None:
        """Return the root of the tree in which a workload waits."""
        name = self._pending.cluster_queue_of(key)
        return self._tree.queue(name).root if name and self._tree.has(name) else None

    def seen(self, key: str) -> Basis:
        """Return what a judgement of a workload is based on now."""
        return self._basis(key, self._usage)

    def standing(self, key: str) -> Basis:
        """Return the same without provisional quota of heads that block a strict queue."""
        return self._basis(key, self._standing)

    def _basis(self, key: str, counts: Mapping[QuotaNode, int]) -> Basis:
        name = self._pending.cluster_queue_of(key) or ""
        usage = counts.get(self._tree.queue(name).root, 0) if self._tree.has(name) else 0
        room = self._rules.room_for(self._view.cluster_queues.get(name))
        if room is None:
            return usage, 0, self.state_changes
        return usage, room.version, self.state_changes + self.node_changes
