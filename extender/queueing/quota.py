"""Quota as a tree: ClusterQueues in cohorts, cohorts in cohorts.

Each node has quota of its own. What it does not keep for itself (a lending limit) its parent has
too, and what it uses beyond what it keeps is used of its parent. So room is what a node keeps and
does not use, and of the parent's room as much as a borrowing limit lets it have.

The shape of a tree lasts as long as the structure does. Usage is read from the snapshot when a
cohort is first looked at, and a trial's usage is undone at the end, so that a cycle costs what its
heads cost and not what all queues do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final
from weakref import WeakKeyDictionary

from extender.queueing.cohorts import path
from extender.queueing.holders import Holders
from extender.state.pods import Shape
from extender.state.queues.records import FlavorResource, Quota, ResourceGroup
from extender.state.queues.snapshot import QueueSnapshot

_NO_QUOTA = Quota()
_AT_ONCE: Final = 16
"""ClusterQueues, or cohorts, that are one piece of building a tree."""


@dataclass(slots=True, eq=False)
class Node:
    """A ClusterQueue or a cohort."""

    name: str
    is_queue: bool
    quotas: Mapping[FlavorResource, Quota]
    parent: "Node | None" = None
    children: list["Node"] = field(default_factory=list)
    height: int = 0
    """Steps down to the farthest queue."""
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    """Quota of its own, and what its children lend."""
    kept: dict[FlavorResource, int] = field(default_factory=dict)
    """What of that nobody else may use; none of it where nothing is said."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    """Of a cohort: what its children use beyond what they keep."""
    queues: "list[Node]" = field(default_factory=list)
    """The ClusterQueues at and under it."""
    version: int = -1
    """Of a ClusterQueue: the usage that was read."""
    read: Mapping[FlavorResource, int] = field(default_factory=dict)
    """Of a ClusterQueue: that usage, without what is on trial."""

    @property
    def root(self) -> "Node":
        """The node without a parent at the top."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def quota(self, what: FlavorResource) -> Quota:
        """Return its own quota."""
        return self.quotas.get(what, _NO_QUOTA)

    def available(self, what: FlavorResource) -> int:
        """Return how much more may be used; below zero where quota was taken away."""
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
        """Return how much it could have if nobody else used anything."""
        quota = self.subtree.get(what, 0)
        if self.parent is None:
            return quota
        most = self.kept.get(what, 0) + self.parent.potential(what)
        limit = self.quota(what).borrowing_limit
        return most if limit is None else min(most, quota + limit)

    def borrows(self, what: FlavorResource, more: int = 0) -> bool:
        """Return whether it uses more than its quota, or would with so much more."""
        return self.usage.get(what, 0) + more > self.subtree.get(what, 0)

    def use(self, what: FlavorResource, amount: int) -> None:
        """Add to the usage, of the nodes above too as far as it concerns them."""
        node: Node | None = self
        while node is not None and amount:
            before = node.usage.get(what, 0)
            node.usage[what] = after = before + amount
            kept = node.kept.get(what, 0)
            amount = max(0, after - kept) - max(0, before - kept)
            node = node.parent


def level(node: Node, what: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the height of the smallest part of the tree that has quota for so much more.

    Zero for a queue that stays within its own, the root's where nothing has; and whether that part
    is one among others, which could take back what they borrow from it.
    """
    left, at = amount, node
    while at.parent is not None and at.borrows(what, left):
        left -= max(0, at.kept.get(what, 0) - at.usage.get(what, 0))
        at = at.parent
    return at.height, at.parent is not None


_Step = tuple[Node, FlavorResource, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Borrowers:
    """Which queues borrowed after so many steps, of which this was the last."""

    reads: int
    last: _Step | None
    steps: int
    found: Sequence[tuple[Node, Node]]

    def holds(self, reads: int, last: _Step | None, steps: int) -> bool:
        """Return whether it is still so: a step is undone only after all later ones."""
        return self.reads == reads and self.steps == steps and self.last is last


class QuotaTree:
    """All ClusterQueues and cohorts of one structure."""

    def __init__(self, snapshot: QueueSnapshot, *, whole: bool = True) -> None:
        """Take the structure of a snapshot; if not `whole`, go through `pieces` before use."""
        self.version = snapshot.structure_version
        self.holders = Holders(snapshot)
        self.unfit: WeakKeyDictionary[Shape, dict[tuple[str, int], tuple[str | None, ...]]]
        """Why pods of a shape may not use the flavors of a group (by its id): asked once."""
        self.unfit = WeakKeyDictionary()
        self._snapshot = snapshot
        self._read: set[Node] = set()
        self._reads = 0
        self._steps: list[_Step] = []
        self._cohorts: dict[str, Node] = {}
        self._queues: dict[str, Node] = {}
        self._borrowers: dict[tuple[Node, frozenset[FlavorResource]], _Borrowers] = {}
        self._rest = self._build()
        if whole:
            for _ in self._rest:
                pass

    def pieces(self) -> Iterator[None]:
        """Do what is left of the tree, a few ClusterQueues at a time.

        When the structure changes meanwhile, `version` is not the snapshot's and the tree is void.
        """
        yield from self._rest

    @classmethod
    def of(cls, snapshot: QueueSnapshot, before: "QuotaTree | None" = None) -> "QuotaTree":
        """Return the tree of a snapshot: the one before, if nothing but usage has changed."""
        return before if before and before.version == snapshot.structure_version else cls(snapshot)

    def begin(self) -> None:
        """Read usage anew from now on."""
        self.undo(0)
        self.look_again()

    def look_again(self) -> None:
        """Read usage anew where it has changed; what is on trial stays on trial."""
        self._read.clear()

    def queue(self, name: str) -> Node:
        """Return a ClusterQueue with the usage of its whole tree. Raises KeyError."""
        node = self._queues[name]
        root = node.root
        if root not in self._read:
            self._read.add(root)
            self._refresh(root)
        return node

    def cohort(self, name: str) -> Node | None:
        """Return a cohort with the usage of its whole tree, if it has members or an object."""
        node = self._cohorts.get(name)
        if node is not None and node.queues:
            self.queue(node.queues[0].name)
        return node

    def has(self, name: str) -> bool:
        """Return whether there is a ClusterQueue of that name."""
        return name in self._queues

    def together(self, name: str) -> Iterator[str]:
        """Yield the ClusterQueues that share quota with one, itself among them."""
        node = self._queues.get(name)
        if node is not None:
            yield from (queue.name for queue in node.root.queues)

    def take(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Use quota on trial."""
        for what, amount in usage.items():
            node.use(what, amount)
            self._steps.append((node, what, amount))

    def give(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Give quota back on trial."""
        self.take(node, {what: -amount for what, amount in usage.items()})

    def mark(self) -> int:
        """Return a point to go back to."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Take back what was tried since."""
        while len(self._steps) > mark:
            node, what, amount = self._steps.pop()
            node.use(what, -amount)

    def _refresh(self, root: Node) -> None:
        for node in root.queues:
            version = self._snapshot.usage_version(node.name)
            if version != node.version:
                now = dict(self._snapshot.usage(node.name))
                for what in {*now, *node.read}:
                    node.use(what, now.get(what, 0) - node.read.get(what, 0))
                node.version, node.read = version, now
                self._reads += 1

    def borrowers(
        self, cohort: Node, some: frozenset[FlavorResource]
    ) -> Sequence[tuple[Node, Node]]:
        """Return the ClusterQueues under a cohort that borrow some of this, each under its child.

        A child that does not borrow itself is passed over with all that is under it. The answer is
        kept while nothing is taken or given: many workloads ask the same.
        """
        last = self._steps[-1] if self._steps else None
        known = self._borrowers.get((cohort, some))
        if known is None or not known.holds(self._reads, last, len(self._steps)):
            found = [(c, node) for c in cohort.children for node in _borrowing(c, some)]
            known = _Borrowers(self._reads, last, len(self._steps), found)
            self._borrowers[cohort, some] = known
        return known.found

    def _build(self) -> Iterator[None]:
        snapshot = self._snapshot
        for number, queue in enumerate([*snapshot.cluster_queues.values()], 1):
            node = Node(queue.name, is_queue=True, quotas=_quotas(queue.resource_groups))
            self._queues[queue.name] = node
            # Whoever is in a circle is not active, and on its own.
            if queue.cohort and path(queue.cohort, snapshot.cohorts) is not None:
                self._join(node, queue.cohort)
            if number % _AT_ONCE == 0:
                yield
        for cohort in snapshot.cohorts.values():
            if path(cohort.name, snapshot.cohorts) is not None:
                self._cohort(cohort.name)
        yield
        roots = [x for x in (*self._cohorts.values(), *self._queues.values()) if x.parent is None]
        summed = chain.from_iterable(map(_sum_up, roots))
        yield from islice(summed, _AT_ONCE - 1, None, _AT_ONCE)

    def _join(self, node: Node, cohort: str) -> None:
        node.parent = self._cohort(cohort)
        node.parent.children.append(node)

    def _cohort(self, name: str) -> Node:
        found = self._cohorts.get(name)
        if found is None:
            info = self._snapshot.cohorts.get(name)
            quotas = _quotas(info.resource_groups) if info else {}
            found = self._cohorts[name] = Node(name, is_queue=False, quotas=quotas)
            if info and info.parent:
                self._join(found, info.parent)
        return found


def _borrowing(node: Node, some: frozenset[FlavorResource]) -> Iterator[Node]:
    if not any(node.borrows(what) for what in some):
        return
    if node.is_queue:
        yield node
    for child in node.children:
        yield from _borrowing(child, some)


def _quotas(groups: tuple[ResourceGroup, ...]) -> dict[FlavorResource, Quota]:
    return {
        (quotas.flavor, resource): quota
        for group in groups
        for quotas in group.flavors
        for resource, quota in quotas.resources.items()
    }


def _sum_up(node: Node) -> Iterator[None]:
    """Fill in what follows from quotas, children first; yield after each node."""
    node.subtree = {what: quota.nominal for what, quota in node.quotas.items()}
    node.queues = [node] if node.is_queue else []
    for child in node.children:
        yield from _sum_up(child)
        node.queues += child.queues
        node.height = max(node.height, child.height + 1)
        for what, amount in child.subtree.items():
            lent = amount - child.kept.get(what, 0)
            node.subtree[what] = node.subtree.get(what, 0) + lent
    if node.parent is not None:
        for what, quota in node.quotas.items():
            if quota.lending_limit is not None:
                node.kept[what] = max(0, node.subtree[what] - quota.lending_limit)
    yield
