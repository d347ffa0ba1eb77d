"""Provisional quota: what a waiting workload keeps from others, tentatively in each cycle.

A preemptor keeps what its victims release, and a workload that waits for the pods of others keeps
its place. So does a head that blocks a strict queue and could not reclaim its quota later: it
releases that before each round, because heads of the round may come before it.

A judgement is outdated once the basis on which it was made has changed: see `Bases`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from extender.queueing.nominate import Nomination
from extender.queueing.pending import PendingQueues, Provisional
from extender.queueing.quota import QuotaNode, QuotaTree
from extender.queueing.rules import AdmissionRules
from extender.state.queue.records import FlavorResource, WorkloadInfo
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
        """The number of changes of tentative usage, by root."""
        self.state_changes = 0
        self.node_changes = 0

    def count(self, node: QuotaNode) -> None:
        """Count a change of tentative usage."""
        self._usage[node.root] = self._usage.get(node.root, 0) + 1

    def root(self, key: str) -> QuotaNode | None:
        """Return the root of the tree in which a workload waits."""
        name = self._pending.cluster_queue_of(key)
        return self._tree.queue(name).root if name and self._tree.has(name) else None

    def seen(self, key: str) -> Basis:
        """Return what a judgement of a workload is based on now."""
        name = self._pending.cluster_queue_of(key) or ""
        usage = self._usage.get(self._tree.queue(name).root, 0) if self._tree.has(name) else 0
        room = self._rules.room_for(self._view.cluster_queues.get(name))
        if room is None:
            return usage, 0, self.state_changes
        return usage, room.version, self.state_changes + self.node_changes


class ProvisionalQuota:
    """The provisional quota that is in the tree of one cycle; `PendingQueues` keeps it after."""

    def __init__(
        self, pending: PendingQueues, *, tree: QuotaTree, bases: Bases, rules: AdmissionRules
    ) -> None:
        self._pending, self._tree, self._bases, self._rules = pending, tree, bases, rules
        self._in_tree: dict[str, tuple[QuotaNode, Mapping[FlavorResource, int]]] = {}
        self._blocking: dict[str, None] = {}
        """The heads that keep quota while they block a strict queue."""

    # -- workloads keep quota

    def keep(self, nomination: Nomination) -> None:
        """Keep all that a workload asks for."""
        self._keep(nomination, nomination.proposal.usage, 0)

    def keep_room(self, nomination: Nomination, workload: WorkloadInfo) -> None:
        """Keep room on nodes for a preemptor that waits for its victims, if it needs room."""
        room = self._rules.room_for(nomination.queue)
        if room is not None:
            room.take(workload, nomination.proposal.assignments, without=nomination.victims)

    def keep_while_blocking(self, nomination: Nomination) -> None:
        """Keep quota for a head that blocks a strict queue, unless it can surely reclaim it."""
        queue = nomination.queue
        sure = queue.preemption.reclaim_within_cohort == "Any"
        if queue.strategy == "StrictFIFO" and nomination.could_preempt and not sure:
            usage = dict(_within_reach(nomination))
            self._keep(nomination, usage, nomination.borrow)
            self._blocking[nomination.key] = None

    def _keep(
        self, nomination: Nomination, usage: Mapping[FlavorResource, int], borrow: int
    ) -> None:
        key, node = nomination.key, nomination.node
        self._pending.provisional[key] = Provisional(nomination.queue.name, dict(usage), borrow)
        self._in_tree[key] = node, usage
        self._tree.take(node, usage)
        self._bases.count(node)

    # -- workloads release it

    def release(self, key: str) -> None:
        """Release what a workload keeps in the tree, if anything."""
        self._blocking.pop(key, None)
        if key in self._in_tree:
            node, usage = self._in_tree.pop(key)
            self._tree.give(node, usage)
            self._bases.count(node)
            self._let_go(key)

    def forget(self, key: str) -> None:
        """Forget a workload whose changes of the tree were undone."""
        self._blocking.pop(key, None)
        if self._in_tree.pop(key, None) is not None:
            self._let_go(key)

    def look_again(self) -> None:
        """Release what is kept no more, because the state has changed."""
        for key in [key for key in self._in_tree if key not in self._pending.provisional]:
            self.release(key)

    def end_untried(self, tried: Collection[str], roots: Collection[QuotaNode]) -> Iterator[str]:
        """Release what untried workloads keep in these trees; yield their ClusterQueues.

        Other workloads came before them.
        """
        for key, kept in list(self._pending.provisional.items()):
            if key not in tried and self._is_in(kept.cluster_queue, roots):
                del self._pending.provisional[key]
                yield kept.cluster_queue

    def _let_go(self, key: str) -> None:
        if self._rules.room is not None:
            self._rules.room.let_go(key)

    # -- heads that block a strict queue

    def heads(self, roots: Collection[QuotaNode]) -> list[str]:
        """Return the heads of these trees that block strict queues and are no preemptors."""
        return [
            key
            for name, key in sorted(self._pending.blocking_heads())
            if self._is_in(name, roots) and not self._pending.preemptors.victims(key)
        ]

    def withdraw(self, heads: Iterable[str]) -> list[str]:
        """Release and return the blocking heads that share quota with heads to be served.

        A head that is served now may come before them, so all of them are served in one order.
        """
        roots = {root for root in map(self._bases.root, heads) if root is not None}
        found = [key for key in self._blocking if self._bases.root(key) in roots]
        for key in found:
            self.release(key)
        return found

    def _is_in(self, cluster_queue: str, roots: Collection[QuotaNode]) -> bool:
        tree = self._tree
        return tree.has(cluster_queue) and tree.queue(cluster_queue).root in roots


def _within_reach(nomination: Nomination) -> Iterator[tuple[FlavorResource, int]]:
    """Yield how much of its request its ClusterQueue may use once usage by others has ended."""
    node = nomination.node
    for what, amount in nomination.proposal.usage.items():
        quota, used = node.quota(what), node.usage.get(what, 0)
        most = quota.nominal
        if nomination.borrow:
            limit = quota.borrowing_limit
            most = used + amount if limit is None else quota.nominal + limit
        yield what, max(0, min(amount, most - used))
