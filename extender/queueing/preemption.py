"""Who has to give quota back so that a workload gets some.

Who leaves already is counted on first. Then others go before the queue's own, the lowest priority
first, and of equals the one that got its quota last; in the end whoever can stay after all does.
Quota is taken back from queues that borrow, and no further than what they borrow.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from extender.api.queue_reasons import Preempted
from extender.queueing.holders import Holder
from extender.queueing.leaving import Leaving
from extender.queueing.options import Options
from extender.queueing.order import queue_time
from extender.queueing.quota import Node, QuotaTree, level
from extender.state.queues.records import ClusterQueueInfo, FlavorResource, WorkloadInfo


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload that has to give its quota back, and why."""

    workload: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Who has to go, besides those that leave already and are counted on."""

    victims: tuple[Victim, ...] = ()
    leaving: tuple[str, ...] = ()
    borrow: int = 0
    """How far up the tree the preemptor has to borrow once they are gone."""

    @property
    def only_others(self) -> bool:
        """Whether nobody of the queue itself has to go."""
        return all(victim.reason != Preempted.IN_CLUSTER_QUEUE for victim in self.victims)


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A workload that needs quota, and its ClusterQueue."""

    workload: WorkloadInfo
    queue: ClusterQueueInfo
    node: Node
    options: Options


def find(
    preemptor: Preemptor,
    request: Mapping[FlavorResource, int],
    short: Collection[FlavorResource],
    *,
    tree: QuotaTree,
    leaving: Leaving,
    spared: Collection[str] = (),
) -> Plan | None:
    """Return whom it takes to make room, as few as possible; None if nobody can be made to go.

    Nobody of the `spared` has to.
    """
    search = _Search(
        preemptor, request, frozenset(short), tree=tree, leaving=leaving, spared=spared
    )
    mark = tree.mark()
    try:
        return search.plan()
    finally:
        tree.undo(mark)


class _Claim(Enum):
    """By what right somebody may be made to go."""

    OWN = Preempted.IN_CLUSTER_QUEUE
    RECLAIM = Preempted.RECLAMATION
    """A part of the tree takes back what is its own."""
    PRIORITY = Preempted.RECLAIM_WHILE_BORROWING
    """It is less important, and the preemptor may borrow in its stead."""
    NOMINAL = "nominal"
    """Only if the preemptor does not borrow in the end."""


_WHY: Final = {
    Preempted.IN_CLUSTER_QUEUE: "prioritized in its ClusterQueue",
    Preempted.RECLAMATION: "whose queue takes back what it lends in the cohort",
    Preempted.RECLAIM_WHILE_BORROWING: "which borrows in the cohort with a higher priority",
}


@dataclass(frozen=True, slots=True)
class _Candidate:
    holder: Holder
    node: Node
    claim: _Claim

    @property
    def rank(self) -> tuple[bool, int, float, str]:
        """Lowest first to go."""
        workload = self.holder.workload
        own = self.claim is _Claim.OWN
        return own, workload.priority, -self.holder.since, workload.meta.uid


class _Search:
    """One question; it tries on the tree, and whoever asked takes it back."""

    def __init__(
        self,
        preemptor: Preemptor,
        request: Mapping[FlavorResource, int],
        short: frozenset[FlavorResource],
        *,
        tree: QuotaTree,
        leaving: Leaving,
        spared: Collection[str],
    ) -> None:
        self._preemptor, self._request, self._short = preemptor, request, short
        self._tree, self._leaving, self._spared = tree, leaving, spared
        self._node = preemptor.node
        self._above = frozenset(_above(preemptor.node))
        self._all_borrowers: dict[Node, Sequence[tuple[Node, Node]]] = {}

    def plan(self) -> Plan | None:
        if self._preemptor.queue.preemption.reclaim_within_cohort != "Never":
            # What borrows when all are gone that leave has borrowed before.
            for cohort in self._above:
                self._all_borrowers[cohort] = self._tree.borrowers(cohort, self._short)
        leaving = tuple(self._without_leaving())
        if self._fits(borrowing=True):
            return Plan((), leaving, self._level())
        candidates = sorted([*self._own(), *self._others()], key=lambda each: each.rank)
        if not candidates:
            return None
        for borrowing in self._attempts(candidates):
            chosen = self._remove(candidates, borrowing=borrowing)
            if chosen:
                for each in chosen:
                    self._tree.give(each.node, each.holder.usage)
                victims = tuple(self._victim(each) for each in chosen)
                return Plan(victims, leaving, self._level())
        return None

    def _level(self) -> int:
        levels = (level(self._node, what, amount)[0] for what, amount in self._request.items())
        return max(levels, default=0)

    def _without_leaving(self) -> Iterator[str]:
        for queue, holder in self._leaving.under(self._node.root):
            if self._concerns(holder):
                self._tree.give(queue, holder.usage)
                yield holder.workload.key

    def _concerns(self, holder: Holder) -> bool:
        return not self._short.isdisjoint(holder.usage)

    def _fits(self, *, borrowing: bool) -> bool:
        node = self._node
        return all(
            not amount
            or (node.available(what) >= amount and (borrowing or not node.borrows(what, amount)))
            for what, amount in self._request.items()
        )

    # -- candidates

    def _own(self) -> Iterator[_Candidate]:
        policy = self._preemptor.queue.preemption.within_cluster_queue
        if policy == "Never":
            return
        equals = policy == "LowerOrNewerEqualPriority"
        for holder in self._able(self._node, lower=not equals):
            if self._is_lower(holder) or (equals and self._is_newer_equal(holder)):
                yield _Candidate(holder, self._node, _Claim.OWN)

    def _others(self) -> Iterator[_Candidate]:
        policy = self._preemptor.queue.preemption.reclaim_within_cohort
        if policy == "Never":
            return
        for node, entitled in self._borrowing():
            for holder in self._able(node, lower=policy != "Any"):
                if policy == "Any" or self._is_lower(holder):
                    yield _Candidate(holder, node, self._claim(holder, entitled=entitled))

    def _claim(self, holder: Holder, *, entitled: bool) -> _Claim:
        if entitled:
            return _Claim.RECLAIM
        policy = self._preemptor.queue.preemption
        most = policy.borrow_max_priority
        below = most is None or holder.workload.priority <= most
        if policy.borrow_within_cohort == "LowerPriority" and self._is_lower(holder) and below:
            return _Claim.PRIORITY
        return _Claim.NOMINAL

    def _able(self, node: Node, *, lower: bool) -> Iterator[Holder]:
        """Yield who uses what is short and does not leave anyway, if any priority is low enough."""
        held = self._tree.holders.of(node.name)
        if lower and held.lowest >= self._preemptor.workload.priority:
            return
        leaving = self._leaving.of(node.name)
        for key, holder in held.holders.items():
            if self._concerns(holder) and key not in leaving and key not in self._spared:
                yield holder

    def _is_lower(self, holder: Holder) -> bool:
        return holder.workload.priority < self._preemptor.workload.priority

    def _is_newer_equal(self, holder: Holder) -> bool:
        mine = self._preemptor.workload
        same = holder.workload.priority == mine.priority
        options = self._preemptor.options
        return same and queue_time(holder.workload, options) > queue_time(mine, options)

    def _borrowing(self) -> Iterator[tuple[Node, bool]]:
        """Yield the queues that borrow, and whether our part of the tree is entitled to that.

        It is, if it has quota for the request.
        """
        request = dict(self._request)
        child = self._node
        while child.parent is not None:
            entitled = not any(child.borrows(what, request[what]) for what in self._short)
            for sibling, node in self._all_borrowers[child.parent]:
                if sibling is not child and self._still_borrows(node):
                    yield node, entitled
            for what in request:
                own = max(0, child.kept.get(what, 0) - child.usage.get(what, 0))
                request[what] = max(0, request[what] - own)
            child = child.parent

    def _borrows(self, node: Node) -> bool:
        return any(node.borrows(what) for what in self._short)

    # -- victims

    def _attempts(self, candidates: list[_Candidate]) -> list[bool]:
        """Return whether to borrow, and what to try next."""
        claims = {each.claim for each in candidates}
        if not claims - {_Claim.OWN}:
            return [True]
        entitled = bool(claims & {_Claim.RECLAIM, _Claim.PRIORITY})
        under = all(
            self._node.usage.get(what, 0) < self._node.quota(what).nominal for what in self._short
        )
        if not under:
            return [True]
        return [True, False] if entitled else [False, True]

    def _remove(self, candidates: list[_Candidate], *, borrowing: bool) -> list[_Candidate]:
        """Return who has to go so that it fits; nobody if it does not fit without all of them."""
        mark = self._tree.mark()
        try:
            chosen = self._enough(candidates, borrowing=borrowing)
            return self._spare(chosen, borrowing=borrowing) if chosen else []
        finally:
            self._tree.undo(mark)

    def _enough(self, candidates: list[_Candidate], *, borrowing: bool) -> list[_Candidate]:
        chosen: list[_Candidate] = []
        for each in candidates:
            if borrowing and each.claim is _Claim.NOMINAL:
                continue
            if each.claim is not _Claim.OWN and not self._still_borrows(each.node):
                continue
            self._tree.give(each.node, each.holder.usage)
            chosen.append(each)
            if self._fits(borrowing=borrowing):
                return chosen
        return []

    def _still_borrows(self, node: Node) -> bool:
        at: Node | None = node
        while at is not None and at not in self._above:
            if not self._borrows(at):
                return False
            at = at.parent
        return True

    def _spare(self, chosen: list[_Candidate], *, borrowing: bool) -> list[_Candidate]:
        needed = [chosen[-1]]
        for each in reversed(chosen[:-1]):
            self._tree.take(each.node, each.holder.usage)
            if not self._fits(borrowing=borrowing):
                self._tree.give(each.node, each.holder.usage)
                needed.append(each)
        return needed[::-1]

    def _victim(self, candidate: _Candidate) -> Victim:
        claim = candidate.claim
        reason = Preempted.RECLAMATION if claim is _Claim.NOMINAL else Preempted(claim.value)
        mine = self._preemptor.workload
        job = mine.owner.uid if mine.owner else "UNKNOWN"
        text = (
            f"Its quota goes to workload {mine.key} (UID: {mine.meta.uid}, JobUID: {job}), "
            f"{_WHY[reason]}; preemptor path: {_path(self._node)}; "
            f"preemptee path: {_path(candidate.node)}"
        )
        return Victim(candidate.holder.workload.key, reason, text)


def _above(node: Node) -> Iterator[Node]:
    at = node.parent
    while at is not None:
        yield at
        at = at.parent


def _path(node: Node) -> str:
    return "/" + "/".join(reversed([node.name, *(each.name for each in _above(node))]))
