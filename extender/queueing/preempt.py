"""Chooses the workloads to evict so that another one gets quota, or room on nodes (`ForRoom`).

Workloads that leave anyway are counted first. Then come workloads of other ClusterQueues before
those of the preemptor's own, the lowest priority first, and of equal ones the latest admitted. In
the end each victim that turns out not to be needed keeps its quota. Quota is reclaimed from
ClusterQueues that borrow, up to what they borrow.

Two policies can work against each other: a workload evicts others in order to borrow, and a
ClusterQueue takes its quota back from any priority. The same workloads could evict each other
without end. So a workload that was preempted before spares those whose ClusterQueue could take back
at once what they release (docs/decisions/0095).
"""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from extender.api.reasons import Preempted
from extender.queueing.quota import Holders, QuotaHolder, QuotaNode, QuotaTree, level
from extender.queueing.rules import AdmissionOptions, queue_time, requires_room
from extender.room.nodes import NodeRoom
from extender.state.queue.records import (
    AdmissionInfo,
    Assignment,
    ClusterQueueInfo,
    FlavorResource,
    WorkloadInfo,
    usage,
)
from extender.state.queue.view import QueueView
from extender.steps import Steps

_Under = dict[str, tuple[QuotaNode, list[QuotaHolder]]]


class Leaving:
    """The workloads that leave in one cycle: the evicted ones, and victims chosen in the cycle."""

    def __init__(self, view: QueueView, holders: Holders) -> None:
        self._view, self._holders = view, holders
        self._chosen: dict[str, set[str]] = {}
        self._under: dict[QuotaNode, _Under] = {}
        """A cache by root and ClusterQueue, because each head of a tree asks."""

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

    def leaving_from(self, cluster_queue: str) -> Collection[str]:
        """Return the workloads that leave a ClusterQueue."""
        held = self._holders.held_in(cluster_queue)
        chosen = self._chosen.get(cluster_queue)
        return held.leaving.union(chosen & held.holders.keys()) if chosen else held.leaving

    def under(self, root: QuotaNode) -> Iterator[tuple[QuotaNode, QuotaHolder]]:
        """Yield the workloads that leave a tree, each with the ClusterQueue that it leaves."""
        known = self._under.get(root)
        if known is None:
            known = self._under[root] = {}
            for node in root.queues:
                keys = self.leaving_from(node.name)
                if keys:
                    holders = self._holders.held_in(node.name).holders
                    known[node.name] = node, [holders[key] for key in sorted(keys)]
        for node, found in known.values():
            yield from ((node, holder) for holder in found)


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload to evict, and why."""

    workload: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The victims of a preemption, and the workloads that leave anyway and free quota for it."""

    victims: tuple[Victim, ...] = ()
    leaving: tuple[str, ...] = ()
    borrow: int = 0
    """The cohort level up to which the preemptor borrows once they are gone."""

    @property
    def only_others(self) -> bool:
        """Return whether all victims are in other ClusterQueues."""
        return all(victim.reason != Preempted.IN_CLUSTER_QUEUE for victim in self.victims)


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A workload that needs quota, and its ClusterQueue."""

    workload: WorkloadInfo
    queue: ClusterQueueInfo
    node: QuotaNode
    options: AdmissionOptions
    by_room: bool = True
    """False if it needs quota alone: room is asked for later."""


class Spared:
    """The outcome of a search in which victims would be enough, and are spared."""

    text: Final = (
        "it was preempted before, and spares workloads whose ClusterQueues would take back at once "
        "what they release"
    )


SPARED: Final = Spared()


def find(
    preemptor: Preemptor,
    request: Mapping[FlavorResource, int],
    short: Collection[FlavorResource],
    *,
    tree: QuotaTree,
    leaving: Leaving,
    protected: Collection[str] = (),
) -> Plan | Spared | None:
    """Return a plan with as few victims as possible; None where no victims would be enough.

    SPARED where they would be, and a preemptor that was preempted before spares them. Workloads in
    `protected` are never victims.
    """
    search = _VictimSearch(
        preemptor, request, frozenset(short), tree=tree, leaving=leaving, protected=protected
    )
    mark = tree.mark()
    try:
        return search.plan()
    finally:
        tree.undo(mark)


class _Claim(Enum):
    """The grounds on which a workload may be a victim."""

    OWN = Preempted.IN_CLUSTER_QUEUE
    RECLAIM = Preempted.RECLAMATION
    """Its ClusterQueue borrows what belongs to a subtree with the preemptor."""
    PRIORITY = Preempted.RECLAIM_WHILE_BORROWING
    """Its priority is lower, and the preemptor may borrow in its place."""
    NOMINAL = "nominal"
    """It may go only if the preemptor ends up without borrowing."""


_WHY: Final = {
    Preempted.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    Preempted.RECLAMATION: "reclamation within the cohort",
    Preempted.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    Preempted.FOR_ROOM: "room on nodes",
}

_MOST_SPARED: Final = 1000
"""The most workloads that one attempt spares, because a search has no pause."""

_NAMED: Final = re.compile(r"Preempted to accommodate workload (\S+) \(UID: ([^,\s]+),")
"""The beginning of the message of a victim."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    holder: QuotaHolder
    node: QuotaNode
    claim: _Claim

    @property
    def rank(self) -> tuple[bool, int, float, str]:
        """Return the sort key of a candidate; the lowest is evicted first."""
        workload = self.holder.workload
        own = self.claim is _Claim.OWN
        return own, workload.priority, -self.holder.since, workload.meta.uid


class _VictimSearch:
    """One search; it changes the tree tentatively, and the caller undoes that."""

    def __init__(
        self,
        preemptor: Preemptor,
        request: Mapping[FlavorResource, int],
        short: frozenset[FlavorResource],
        *,
        tree: QuotaTree,
        leaving: Leaving,
        protected: Collection[str],
    ) -> None:
        self._preemptor, self._request, self._short = preemptor, request, short
        self._tree, self._leaving, self._protected = tree, leaving, protected
        self._node = preemptor.node
        self._above = frozenset(_above(preemptor.node))
        self._spares = False
        """True if victims that would be enough are spared."""
        self._all_borrowers: dict[QuotaNode, Sequence[tuple[QuotaNode, QuotaNode]]] = {}

    def plan(self) -> Plan | Spared | None:
        if self._preemptor.queue.preemption.reclaim_within_cohort != "Never":
            # What borrows once all leaving workloads are gone borrows now, too.
            for cohort in self._above:
                self._all_borrowers[cohort] = self._tree.borrowers(cohort, self._short)
        gone = [
            (queue, holder)
            for queue, holder in self._leaving.under(self._node.root)
            if self._concerns(holder)
        ]
        for queue, holder in gone:
            self._tree.give(queue, holder.usage)
        leaving = tuple(holder.workload.key for _, holder in gone)
        if self._fits(borrowing=True):
            return Plan((), leaving, self._level())
        candidates = sorted([*self._own(), *self._others()], key=lambda each: each.rank)
        if not candidates:
            return None
        for borrowing in self._attempts(candidates):
            chosen = self._victims(candidates, borrowing=borrowing)
            if chosen:
                for each in chosen:
                    self._tree.give(each.node, each.holder.usage)
                victims = tuple(self._victim(each) for each in chosen)
                return Plan(victims, leaving, self._level())
        return SPARED if self._spares else None

    def _level(self) -> int:
        levels = (level(self._node, what, amount)[0] for what, amount in self._request.items())
        return max(levels, default=0)

    def _concerns(self, holder: QuotaHolder) -> bool:
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
        equals, mine = policy == "LowerOrNewerEqualPriority", self._preemptor.workload
        options = self._preemptor.options
        for holder in self._candidates_of(self._node, lower=not equals):
            newer_equal = (
                equals
                and holder.workload.priority == mine.priority
                and queue_time(holder.workload, options) > queue_time(mine, options)
            )
            if newer_equal or self._is_lower(holder):
                yield _Candidate(holder, self._node, _Claim.OWN)

    def _others(self) -> Iterator[_Candidate]:
        policy = self._preemptor.queue.preemption.reclaim_within_cohort
        if policy == "Never":
            return
        for node, entitled in self._borrowing():
            for holder in self._candidates_of(node, lower=policy != "Any"):
                if policy == "Any" or self._is_lower(holder):
                    yield _Candidate(holder, node, self._claim(holder, entitled=entitled))

    def _claim(self, holder: QuotaHolder, *, entitled: bool) -> _Claim:
        if entitled:
            return _Claim.RECLAIM
        policy = self._preemptor.queue.preemption
        most = policy.borrow_max_priority
        below = most is None or holder.workload.priority <= most
        if policy.borrow_within_cohort == "LowerPriority" and self._is_lower(holder) and below:
            return _Claim.PRIORITY
        return _Claim.NOMINAL

    def _candidates_of(self, node: QuotaNode, *, lower: bool) -> Iterator[QuotaHolder]:
        """Yield possible victims that use what is short; none where no priority is low enough."""
        held = self._tree.holders.held_in(node.name)
        if lower and held.lowest >= self._preemptor.workload.priority:
            return
        leaving = self._leaving.leaving_from(node.name)
        for key, holder in held.holders.items():
            if self._concerns(holder) and key not in leaving and key not in self._protected:
                yield holder

    def _is_lower(self, holder: QuotaHolder) -> bool:
        return holder.workload.priority < self._preemptor.workload.priority

    def _borrowing(self) -> Iterator[tuple[QuotaNode, bool]]:
        """Yield the ClusterQueues that borrow, and whether the preemptor's subtree may reclaim.

        It may if it has quota of its own for the request.
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

    # -- victims

    def _attempts(self, candidates: list[_Candidate]) -> list[bool]:
        """Return in which order to try with borrowing and without."""
        claims = {each.claim for each in candidates}
        if not claims - {_Claim.OWN}:
            return [True]
        entitled = bool(claims & {_Claim.RECLAIM, _Claim.PRIORITY})
        under = all(
            self._node.usage.get(what, 0) < self._node.quota(what).nominal for what in self._short
        )
        if not under:
            # One that was preempted may find victims where it does not borrow in the end.
            return [True, False] if self._preemptor.workload.was_preempted else [True]
        return [True, False] if entitled else [False, True]

    def _victims(self, candidates: list[_Candidate], *, borrowing: bool) -> list[_Candidate]:
        """Return victims that are enough; none where all candidates are not enough."""
        mark = self._tree.mark()
        try:
            found = self._needed(candidates, borrowing=borrowing)
            if not self._preemptor.workload.was_preempted or not self._is_any_owed(found):
                return found
            self._tree.undo(mark)
            found = self._needed(candidates, borrowing=borrowing, sparing=True)
            if found and not self._is_any_owed(found):
                return found
            self._spares = True
            return []
        finally:
            self._tree.undo(mark)

    def _needed(
        self, candidates: list[_Candidate], *, borrowing: bool, sparing: bool = False
    ) -> list[_Candidate]:
        """Return victims that are enough, removed from the tree; none that is owed if `sparing`."""
        chosen, looks = list[_Candidate](), _MOST_SPARED
        for each in candidates:
            if borrowing and each.claim is _Claim.NOMINAL:
                continue
            if each.claim is not _Claim.OWN and not self._still_borrows(each.node):
                continue
            mark = self._tree.mark()
            self._tree.give(each.node, each.holder.usage)
            if sparing and self._is_owed(each):
                self._tree.undo(mark)
                looks -= 1
                if not looks:
                    return []
                continue
            chosen.append(each)
            if self._fits(borrowing=borrowing):
                return self._fill_back(chosen, borrowing=borrowing)
        return []

    def _is_any_owed(self, gone: Iterable[_Candidate]) -> bool:
        """Return whether any of these is owed.

        Two workloads of one ClusterQueue that use the same resources have the same answer.
        """
        apart = {(each.node, frozenset(each.holder.usage)): each for each in gone}
        return any(map(self._is_owed, apart.values()))

    def _is_owed(self, gone: _Candidate) -> bool:
        """Return whether a victim's ClusterQueue or cohort could take back what it released.

        That is so where a ClusterQueue there reclaims from any priority, and the preemptor would
        borrow what is missing there of its quota.
        """
        path = [*_until(gone.node, self._above)]
        owners = [each for each in path if each.reclaims_any]
        if not owners:
            return False
        common = path[-1].parent
        mine = [*_until(self._node, {common} if common is not None else ())]
        mark = self._tree.mark()
        self._tree.take(self._node, self._request)
        try:
            return any(
                at.available(what) < at.subtree.get(what, 0) - at.usage.get(what, 0)
                for what in self._request.keys() & gone.holder.usage.keys()
                if self._request[what] and all(node.borrows(what) for node in mine)
                for at in owners
                if at.usage.get(what, 0) < at.subtree.get(what, 0)
            )
        finally:
            self._tree.undo(mark)

    def _still_borrows(self, node: QuotaNode) -> bool:
        return all(
            any(each.borrows(what) for what in self._short) for each in _until(node, self._above)
        )

    def _fill_back(self, chosen: list[_Candidate], *, borrowing: bool) -> list[_Candidate]:
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
        return victim(candidate.holder, candidate.node, of=self._preemptor, reason=reason)


def victim(holder: QuotaHolder, node: QuotaNode, *, of: Preemptor, reason: Preempted) -> Victim:
    """Return a workload as the victim `of` another one; `node` is that of its ClusterQueue."""
    mine = of.workload
    job = mine.owner.uid if mine.owner else "UNKNOWN"
    text = (
        f"Preempted to accommodate workload {mine.key} (UID: {mine.meta.uid}, JobUID: {job}) "
        f"due to {_WHY[reason]}; preemptor path: {_path(of.node)}; "
        f"preemptee path: {_path(node)}"
    )
    return Victim(holder.workload.key, reason, text)


def preemptor_named_in(message: str) -> tuple[str, str] | None:
    """Return the key and UID of the preemptor that the message of a victim names."""
    found = _NAMED.match(message)
    return (found[1], found[2]) if found else None


def _above(node: QuotaNode) -> Iterator[QuotaNode]:
    at = node.parent
    while at is not None:
        yield at
        at = at.parent


def _until(node: QuotaNode, others: Container[QuotaNode]) -> Iterator[QuotaNode]:
    """Yield a node and its ancestors, up to the first of some others."""
    at: QuotaNode | None = node
    while at is not None and at not in others:
        yield at
        at = at.parent


def _path(node: QuotaNode) -> str:
    return "/" + "/".join(reversed([node.name, *(each.name for each in _above(node))]))


# -- room on nodes

_Held = tuple[QuotaNode, QuotaHolder]
_Rank = tuple[int, float, str]
_EVEN_THEN = "no room even without all workloads of lower priority"


@dataclass(slots=True)
class ForRoom:
    """The search for the workloads to evict so that the pods of another one fit on nodes.

    They are of lower priority, and of the preemptor's ClusterQueue or its cohort. A ClusterQueue
    that asks for no room has no victims: its workloads would be admitted again at once, and their
    pods would take the nodes that they left. Nor has another ClusterQueue that may reclaim quota
    from any priority: a workload of it would come back in place of what is more important than
    itself, and that would have victims, too. A preemptor that borrows has victims in its own
    ClusterQueue only: others could reclaim its quota and come back, and it would evict them again.

    All workloads that leave anyway count as gone. Then all possible victims do, and stay one after
    the other where the pods still fit: the highest priority first, and of equal ones the oldest.
    """

    preemptor: Preemptor
    room: NodeRoom
    view: QueueView
    tree: QuotaTree
    leaving: Leaving
    away: frozenset[str]
    """Victims whose pods still end, and from the beginning of the search all that leave."""
    protected: Collection[str]
    """Never victims."""
    may_choose: bool = True
    """True if victims may be chosen; if not, it can only wait for workloads that leave anyway."""
    candidates: dict[str, _Held] = field(default_factory=dict)
    """The possible victims, those first that are to stay most."""

    def begin(self) -> Steps[None]:
        """Find out what may go, before anything else."""
        self.away |= {
            key for name in self.view.cluster_queues for key in self.leaving.leaving_from(name)
        }
        found = [*self._lower()] if self.may_choose else []
        yield
        found.sort()  # no two have the same UID and key
        yield
        self.candidates = {key: (node, holder) for _, key, node, holder in found}
        yield

    def _lower(self) -> Iterator[tuple[_Rank, str, QuotaNode, QuotaHolder]]:
        priority, options = self.preemptor.workload.priority, self.preemptor.options
        for node in self.preemptor.node.root.queues:
            queue, held = self.view.cluster_queues[node.name], self.tree.holders.held_in(node.name)
            if held.lowest >= priority or not requires_room(queue, options, self.view.flavors):
                continue
            if node is not self.preemptor.node and queue.preemption.reclaim_within_cohort == "Any":
                continue
            for key, each in held.holders.items():
                is_lower = each.workload.priority < priority
                if is_lower and key not in self.away and key not in self.protected:
                    yield each.rank, key, node, each

    @property
    def is_hopeless(self) -> bool:
        """Return whether there is no workload that could leave."""
        return not (self.candidates or self.away)

    def lack(self, workload: WorkloadInfo, assignments: Sequence[Assignment]) -> Steps[str | None]:
        """Return what pods lack without all of them; None where they would fit."""
        asked = usage(AdmissionInfo(self.preemptor.queue.name, tuple(assignments)), workload)
        node = self.preemptor.node
        borrows = any(level(node, what, amount)[0] for what, amount in asked.items())
        keys = self._possible(borrows=borrows)
        going = yield from self.room.needed(workload, assignments, keys, without=self.away)
        return _EVEN_THEN if going is None else None

    def plan(self, assignments: Sequence[Assignment], borrow: int) -> Steps[Plan | None]:
        """Return a plan for a preemptor that has quota; None where it would not fit."""
        return (yield from self._with_more(assignments, Plan(borrow=borrow)))

    def plan_with_quota(
        self,
        assignments: Sequence[Assignment],
        request: Mapping[FlavorResource, int],
        plan: Plan,
    ) -> Steps[Plan | None]:
        """Return a plan for quota with the victims for room that it needs more.

        A victim for quota stays where the others turn out to be enough. Those for room count for
        quota only in the preemptor's own ClusterQueue: others might take it back.
        """
        found = yield from self._with_more(assignments, plan)
        if found is None or found == plan:
            return None
        for each in sorted(plan.victims, key=lambda each: self._held(each)[1].rank):
            fewer = replace(found, victims=tuple(x for x in found.victims if x != each))
            if not self._has_quota(request, fewer):
                continue
            lack = yield from self.room.lack(
                self.preemptor.workload, assignments, without=self._gone(fewer)
            )
            found = found if lack else fewer
        return found

    def _with_more(self, assignments: Sequence[Assignment], plan: Plan) -> Steps[Plan | None]:
        needed, workload = self.room.needed, self.preemptor.workload
        chosen = self._gone(plan)
        more = [key for key in self._possible(borrows=plan.borrow > 0) if key not in chosen]
        going = yield from needed(workload, assignments, more, without=self.away | chosen)
        if going is None:
            return None
        gone = chosen.union(going)
        waits = yield from needed(workload, assignments, sorted(self.away - gone), without=gone)
        if waits is None or not (going or waits or plan.victims):
            return None  # nodes have changed meanwhile: it is tried again
        victims = (
            victim(holder, node, of=self.preemptor, reason=Preempted.FOR_ROOM)
            for node, holder in (self.candidates[key] for key in going)
        )
        leaving = tuple(dict.fromkeys([*plan.leaving, *waits]))
        return replace(plan, victims=(*plan.victims, *victims), leaving=leaving)

    def _possible(self, *, borrows: bool) -> tuple[str, ...]:
        """Return the possible victims; one that borrows has those of its own ClusterQueue."""
        own = self.preemptor.node
        return tuple(
            key for key, (node, _) in self.candidates.items() if not borrows or node is own
        )

    def _gone(self, plan: Plan) -> frozenset[str]:
        return frozenset([*plan.leaving, *(each.workload for each in plan.victims)])

    def _has_quota(self, request: Mapping[FlavorResource, int], plan: Plan) -> bool:
        """Return whether there is quota after a plan, borrowing from no farther up than it says."""
        mine = self.preemptor.node
        gone = [*self.leaving.under(mine.root)]
        for each in plan.victims:
            node, holder = self._held(each)
            if node is mine or each.reason != Preempted.FOR_ROOM:
                gone.append((node, holder))
        mark = self.tree.mark()
        try:
            for node, holder in gone:
                self.tree.give(node, holder.usage)
            return all(
                not amount
                or (mine.available(what) >= amount and level(mine, what, amount)[0] <= plan.borrow)
                for what, amount in request.items()
            )
        finally:
            self.tree.undo(mark)

    def _held(self, victim: Victim) -> _Held:
        held = self.view.admission(victim.workload)
        assert held is not None
        holders = self.tree.holders.held_in(held.cluster_queue).holders
        return self.tree.queue(held.cluster_queue), holders[victim.workload]
