"""The tree of quota: ClusterQueues in cohorts, cohorts in cohorts, and the workloads with quota.

Each node has nominal quota. What a lending limit does not keep for the node is lent to its parent,
and usage beyond the kept part counts as usage of the parent. So a node may use the unused rest of
what it keeps, and of what its parent may use as much as its borrowing limit allows.

A tree is valid as long as the structure is. Usage is read from the view when a cohort is first
used, and tentative usage is undone at the end, so that a cycle costs what its heads cost and not
what all ClusterQueues would.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from extender.api.wellknown import WorkloadCondition
from extender.state.cluster.records import Shape
from extender.state.queue.records import (
    AdmissionInfo,
    CohortInfo,
    FlavorResource,
    Quota,
    Usage,
    WorkloadInfo,
    quotas_of,
    usage,
)
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps


def cohort_path(cohort: str | None, cohorts: Mapping[str, CohortInfo]) -> tuple[str, ...] | None:
    """Return a cohort and its ancestors, the root last; None where the parents form a circle.

    A cohort without an object is a root. Without a cohort the path is empty.
    """
    found: dict[str, None] = {}
    name = cohort
    while name:
        if name in found:
            return None
        found[name] = None
        known = cohorts.get(name)
        name = known.parent if known else None
    return tuple(found)


_ASSUMED: Final = float("inf")
"""A workload that is being admitted counts as the latest."""


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """A workload that has quota; `since` in seconds since the epoch."""

    workload: WorkloadInfo
    admission: AdmissionInfo
    usage: Usage
    since: float
    leaves: bool
    """True if it was evicted, and has not released its quota yet."""
    rank: tuple[int, float, str]
    """The sort key of possible victims, most worth keeping first."""


@dataclass(slots=True)
class Held:
    """The workloads that have quota in one ClusterQueue."""

    holders: dict[str, QuotaHolder] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    """Evicted workloads that have not released their quota yet."""
    lowest: int = 0
    """The lowest priority among them."""
    version: int = -1


class Holders:
    """The workloads with quota by ClusterQueue, read again only as far as they have changed."""

    def __init__(self, view: QueueView) -> None:
        self._view = view
        self._known: dict[str, Held] = {}

    def held_in(self, cluster_queue: str) -> Held:
        """Return the workloads with quota in a ClusterQueue."""
        version = self._view.usage_version(cluster_queue)
        known = self._known.get(cluster_queue)
        if known is None or known.version != version:
            known = self._known[cluster_queue] = self._read(cluster_queue, known)
            known.version = version
        return known

    def reading(self, cluster_queues: Iterable[str]) -> Steps[None]:
        """Read ClusterQueues in steps, so that what is asked of them next is answered at once."""
        for name in cluster_queues:
            version, found = self._view.usage_version(name), dict[str, QuotaHolder]()
            if name in self._known or not version:
                continue
            for number, key in enumerate(sorted(self._view.reserving(name)), 1):
                if number % PIECE == 0:
                    yield
                found.update(self._found(name, (key,), {}))
            self._known[name] = _held(found, version)

    def _read(self, cluster_queue: str, before: Held | None) -> Held:
        view = self._view
        known = before.holders if before else {}
        moved = view.usage_since(cluster_queue, before.version) if before else None
        if moved is None:
            return _held(self._found(cluster_queue, sorted(view.reserving(cluster_queue)), known))
        holders = dict(known)
        for key in moved:
            holders.pop(key, None)
        there = view.reserving(cluster_queue)
        holders |= self._found(cluster_queue, sorted(moved.intersection(there)), known)
        return _held(holders)

    def _found(
        self, cluster_queue: str, keys: Iterable[str], known: Mapping[str, QuotaHolder]
    ) -> dict[str, QuotaHolder]:
        """Return those of these workloads that have quota there."""
        found: dict[str, QuotaHolder] = {}
        for key in keys:
            before, held = known.get(key), self._view.admission(key)
            workload = self._view.workloads.get(key)
            if held is None or workload is None or held.cluster_queue != cluster_queue:
                continue  # it was changed while others were read
            if before is None or before.workload is not workload or before.admission is not held:
                before = _holder(workload, held)
            found[key] = before
        return found


def _held(holders: dict[str, QuotaHolder], version: int = -1) -> Held:
    if not holders:
        return Held(version=version)
    leaving = frozenset(key for key, each in holders.items() if each.leaves)
    lowest = min(each.workload.priority for each in holders.values())
    return Held(holders, leaving, lowest, version)


def _holder(workload: WorkloadInfo, held: AdmissionInfo) -> QuotaHolder:
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    since = reserved.transition if reserved and reserved.status == "True" else _ASSUMED
    rank = (-workload.priority, since, workload.meta.uid)
    return QuotaHolder(workload, held, usage(held, workload), since, workload.leaves, rank)


_NO_QUOTA = Quota()


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort."""

    name: str
    is_queue: bool
    quotas: Mapping[FlavorResource, Quota]
    parent: "QuotaNode | None" = None
    children: list["QuotaNode"] = field(default_factory=list)
    height: int = 0
    """Steps down to the farthest ClusterQueue."""
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    """Its nominal quota, and what its children lend."""
    kept: dict[FlavorResource, int] = field(default_factory=dict)
    """The part of that which it does not lend; none without a lending limit."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    """Usage; of a cohort: what its children use beyond what they keep."""
    queues: "list[QuotaNode]" = field(default_factory=list)
    """The ClusterQueues at and under it."""
    reclaims_any: bool = False
    """True if one of these takes its quota back from workloads of any priority."""
    version: int = -1
    """The version of the usage that was read; for ClusterQueues only."""
    read: Mapping[FlavorResource, int] = field(default_factory=dict)
    """The usage that was read, without tentative changes; for ClusterQueues only."""

    @property
    def root(self) -> "QuotaNode":
        """The node without a parent at the top."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def quota(self, what: FlavorResource) -> Quota:
        """Return its own quota."""
        return self.quotas.get(what, _NO_QUOTA)

    def available(self, what: FlavorResource) -> int:
        """Return how much more may be used; negative where quota was reduced below the usage."""
        used = self.usage.get(what, 0)
        if self.parent is None:
            return self.subtree.get(what, 0) - used
        kept, above = self.kept.get(what, 0), self.parent.available(what)
        limit = self.quota(what).borrowing_limit
        if limit is not None:
            lent = self.subtree.get(what, 0) - kept
            above = min(above, lent - max(0, used - kept) + limit)
        return max(0, kept - used) + above

    def potential(self, what: FlavorResource) -> int:
        """Return how much it could use if no other node used anything."""
        quota = self.subtree.get(what, 0)
        if self.parent is None:
            return quota
        most = self.kept.get(what, 0) + self.parent.potential(what)
        limit = self.quota(what).borrowing_limit
        return most if limit is None else min(most, quota + limit)

    def borrows(self, what: FlavorResource, more: int = 0) -> bool:
        """Return whether its usage, with so much more, exceeds its quota."""
        return self.usage.get(what, 0) + more > self.subtree.get(what, 0)

    def use(self, what: FlavorResource, amount: int) -> None:
        """Add to the usage of this node, and of its ancestors beyond what it keeps."""
        node: QuotaNode | None = self
        while node is not None and amount:
            before = node.usage.get(what, 0)
            node.usage[what] = after = before + amount
            kept = node.kept.get(what, 0)
            amount = max(0, after - kept) - max(0, before - kept)
            node = node.parent


def level(node: QuotaNode, what: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the height of the smallest subtree that has quota for so much more.

    Zero for a queue within its nominal quota; the root's where no subtree has enough.
    The second value is whether that subtree has siblings that it could reclaim quota from.
    """
    left, at = amount, node
    while at.parent is not None and at.borrows(what, left):
        left -= max(0, at.kept.get(what, 0) - at.usage.get(what, 0))
        at = at.parent
    return at.height, at.parent is not None


_Step = tuple[QuotaNode, FlavorResource, int]


_Borrowers = Sequence[tuple[QuotaNode, QuotaNode]]
"""The ClusterQueues that borrow, each with the child of the cohort that it is under."""


class QuotaTree:
    """All ClusterQueues and cohorts of one structure."""

    def __init__(self, view: QueueView) -> None:
        self.version = view.structure_version
        self.holders = Holders(view)
        self.unfit: WeakKeyDictionary[Shape, dict[tuple[str, int], tuple[str | None, ...]]]
        """Cache: why pods of a shape may not use the flavors of a group (by its number)."""
        self.unfit = WeakKeyDictionary()
        self._view = view
        self._read: set[QuotaNode] = set()
        self._reads = 0
        self._steps: list[_Step] = []
        self._cohorts: dict[str, QuotaNode] = {}
        self._queues: dict[str, QuotaNode] = {}
        self._borrowers: dict[
            tuple[QuotaNode, frozenset[FlavorResource]],
            tuple[tuple[int, int], _Step | None, _Borrowers],
        ] = {}
        """Cache: the reads and steps after which they borrowed, and the last of these steps."""
        for queue in view.cluster_queues.values():
            node = QuotaNode(queue.name, is_queue=True, quotas=quotas_of(queue.resource_groups))
            node.reclaims_any = queue.preemption.reclaim_within_cohort == "Any"
            self._queues[queue.name] = node
            # A ClusterQueue in a circle of cohorts is inactive, and shares quota with no other.
            if queue.cohort and cohort_path(queue.cohort, view.cohorts) is not None:
                self._join(node, queue.cohort)
        for cohort in view.cohorts.values():
            if cohort_path(cohort.name, view.cohorts) is not None:
                self._cohort(cohort.name)
        for node in (*self._cohorts.values(), *self._queues.values()):
            if node.parent is None:
                _sum_up(node)

    @classmethod
    def current(cls, view: QueueView, before: "QuotaTree | None" = None) -> "QuotaTree":
        """Return the tree of a view: the previous one, if only usage has changed."""
        return before if before and before.version == view.structure_version else cls(view)

    def begin(self) -> None:
        """Undo tentative usage, and read usage again from now on."""
        self.undo(0)
        self.look_again()

    def look_again(self) -> None:
        """Read changed usage again, and keep tentative usage."""
        self._read.clear()

    def queue(self, name: str) -> QuotaNode:
        """Return a ClusterQueue with the usage of its whole tree. Raises KeyError."""
        node = self._queues[name]
        root = node.root
        if root not in self._read:
            self._read.add(root)
            self._refresh(root)
        return node

    def cohort(self, name: str) -> QuotaNode | None:
        """Return a cohort with the usage of its whole tree, if it has members or an object."""
        node = self._cohorts.get(name)
        if node is not None and node.queues:
            self.queue(node.queues[0].name)
        return node

    def has(self, name: str) -> bool:
        """Return whether there is a ClusterQueue of that name."""
        return name in self._queues

    def sharing_with(self, name: str) -> Iterator[str]:
        """Yield the ClusterQueues that share quota with one, itself among them."""
        node = self._queues.get(name)
        if node is not None:
            yield from (queue.name for queue in node.root.queues)

    def take(self, node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
        """Add tentative usage."""
        for what, amount in usage.items():
            node.use(what, amount)
            self._steps.append((node, what, amount))

    def give(self, node: QuotaNode, usage: Mapping[FlavorResource, int]) -> None:
        """Remove usage tentatively."""
        self.take(node, {what: -amount for what, amount in usage.items()})

    def mark(self) -> int:
        """Return a point to go back to."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Undo the tentative changes since a mark."""
        while len(self._steps) > mark:
            node, what, amount = self._steps.pop()
            node.use(what, -amount)

    def _refresh(self, root: QuotaNode) -> None:
        for node in root.queues:
            version = self._view.usage_version(node.name)
            if version != node.version:
                now = dict(self._view.usage(node.name))
                for what in {*now, *node.read}:
                    node.use(what, now.get(what, 0) - node.read.get(what, 0))
                node.version, node.read = version, now
                self._reads += 1

    def borrowers(self, cohort: QuotaNode, some: frozenset[FlavorResource]) -> _Borrowers:
        """Return the ClusterQueues of a cohort that borrow any of these resources, with its child.

        A child that does not borrow is skipped with its subtree. The answer is cached until usage
        changes, because many workloads ask the same question.
        """
        last = self._steps[-1] if self._steps else None
        basis = self._reads, len(self._steps)
        known = self._borrowers.get((cohort, some))
        if known is None or known[0] != basis or known[1] is not last:  # undone from the end only
            found = [(c, node) for c in cohort.children for node in _borrowing(c, some)]
            known = self._borrowers[cohort, some] = basis, last, found
        return known[2]

    def _join(self, node: QuotaNode, cohort: str) -> None:
        node.parent = self._cohort(cohort)
        node.parent.children.append(node)

    def _cohort(self, name: str) -> QuotaNode:
        found = self._cohorts.get(name)
        if found is None:
            info = self._view.cohorts.get(name)
            quotas = quotas_of(info.resource_groups) if info else {}
            found = self._cohorts[name] = QuotaNode(name, is_queue=False, quotas=quotas)
            if info and info.parent:
                self._join(found, info.parent)
        return found


def _borrowing(node: QuotaNode, some: frozenset[FlavorResource]) -> Iterator[QuotaNode]:
    if not any(node.borrows(what) for what in some):
        return
    if node.is_queue:
        yield node
    for child in node.children:
        yield from _borrowing(child, some)


def _sum_up(node: QuotaNode) -> None:
    """Compute subtree quotas, children first."""
    node.subtree = {what: quota.nominal for what, quota in node.quotas.items()}
    node.queues = [node] if node.is_queue else []
    for child in node.children:
        _sum_up(child)
        node.queues += child.queues
        node.height = max(node.height, child.height + 1)
        node.reclaims_any |= child.reclaims_any
        for what, amount in child.subtree.items():
            lent = amount - child.kept.get(what, 0)
            node.subtree[what] = node.subtree.get(what, 0) + lent
    if node.parent is not None:
        for what, quota in node.quotas.items():
            if quota.lending_limit is not None:
                node.kept[what] = max(0, node.subtree[what] - quota.lending_limit)
