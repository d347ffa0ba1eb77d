"""One cycle of admission, piece by piece.

In each round every ClusterQueue sends its head. Each head is judged on the current usage. Then the
heads are served in order: preemptors that wait for their victims, then those within their quota
before those that borrow, then by priority and age. Quota that one head gets counts as used for the
next, which is judged again where that matters. A few rounds make a cycle, so a ClusterQueue needs
no cycle for each of its workloads. A head that borrows waits for a later round while a workload
behind another head may have its own quota to use: it would reclaim it in a moment. What waiting
heads keep is in `ProvisionalQuota`.

The state may change between two pieces. Each head is served on a judgement of the state as it is
then: what was judged before a change is judged again. A change of the structure ends the cycle.

A cycle changes only `pending`: an admitted workload is removed from it, and one that finds no quota
becomes inadmissible until something changes. Usage on the tree is tentative and undone at the end.

`AdmissionCore` begins the cycles. The reconciler's loop and the simulator drive it: they report
changes of the state, run the cycles and carry out the decisions. Nothing here does I/O, starts a
task or reads a clock.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.api.reasons import NotYetAdmitted, Preempted, Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.queueing import aging, checks
from extender.queueing.nominate import Nomination, Nominator
from extender.queueing.pending import Cause, PendingQueues, Provisional
from extender.queueing.preempt import Victim
from extender.queueing.provisioning import asks_for_nodes
from extender.queueing.quota import QuotaNode, QuotaTree
from extender.queueing.rules import AdmissionRules, Unready, provisions
from extender.room.nodes import NodeRoom
from extender.state.queue.records import (
    AdmissionInfo,
    Assignment,
    FlavorResource,
    Order,
    WorkloadInfo,
)
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps


@dataclass(frozen=True, slots=True)
class Admit:
    """A workload gets quota, or is admitted with the quota that it holds; it is to be written."""

    workload: str
    admission: AdmissionInfo
    borrows: bool


@dataclass(frozen=True, slots=True)
class Preempt:
    """A workload needs victims to be evicted, in addition to those that leave already."""

    workload: str
    victims: tuple[Victim, ...]
    message: str


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """A workload stays in its queue, and why."""

    workload: str
    reason: str
    message: str
    gated: bool = False
    """True if it would preempt others if its preemption gates were open."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An unexpected error while a workload was judged; the cycle goes on without it.

    The workload is in no queue until the admission loop requeues it.
    """

    workload: str
    error: Exception


Outcome = Admit | Preempt | NotAdmitted | Broken


@dataclass(frozen=True, slots=True)
class Result:
    """The outcomes of a cycle."""

    outcomes: tuple[Outcome, ...] = ()
    """The outcomes in the order of the decisions."""
    more: bool = False
    """True if heads are left for the next cycle."""
    held: bool = False
    """True if heads with quota wait for the pods of other workloads to be ready."""
    moved: bool = False
    """True if nodes changed while a head was judged that got no room: retry it soon."""
    freed: frozenset[str] = frozenset()
    """ClusterQueues that released provisional quota, and those that borrow since this cycle: what
    shares quota with them is to be tried again.

    Not at once: two workloads that take turns in keeping quota would cause cycles without end.
    """


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
    """The quota that waiting workloads keep from others in the tree of one cycle.

    A preemptor keeps what its victims release, and a workload that waits for the pods of others
    keeps its place. So does a head that blocks a strict queue and could not reclaim its quota
    later: it releases that before each round, because heads of the round may come before it.
    """

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
        if room is not None and not nomination.reserves_only:
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


ROUNDS: Final = 16
"""The largest number of rounds of a cycle, and so of workloads of one ClusterQueue."""


class Cycle:
    """One cycle over a state that may change between its pieces.

    The tree is of the view's structure (`QuotaTree.current`).
    """

    def __init__(
        self,
        view: QueueView,
        pending: PendingQueues,
        *,
        tree: QuotaTree,
        rules: AdmissionRules,
        now: float,
    ) -> None:
        assert tree.version == view.structure_version, "the tree is of another structure"
        self._view, self._pending, self._tree = view, pending, tree
        self._rules, self._room, self._now = rules, rules.room, now
        self._nominator = Nominator(view, pending, tree=tree, rules=rules, now=now)
        self._bases = Bases(view, pending, tree=tree, rules=rules)
        self._kept = ProvisionalQuota(pending, tree=tree, bases=self._bases, rules=rules)
        self._unready = Unready(view, rules.options)
        """The workloads whose pods block admission, with those admitted in this cycle."""
        self._version = view.version
        self._roots: set[QuotaNode] = set()
        """The roots of the trees in which workloads are tried."""
        self._tried: set[str] = set()
        self._behind: dict[QuotaNode, int] = {}
        """The level up to which the workloads that come next may borrow, by root, in this round."""
        self._deferred: dict[str, tuple[Nomination, Basis]] = {}
        """Heads of this round that would borrow from farther up than those that may come next."""
        self._await_pods: set[str] = set()
        """Workloads that wait for the pods of others with provisional quota: judged once."""
        self._admitted: list[tuple[QuotaNode, Mapping[FlavorResource, int]]] = []
        """Usage of admissions that the state does not show yet."""
        self._outcomes: dict[str, Outcome] = {}
        self._cut = False
        self._moved = False
        """See `Result.moved`."""
        self._freed: set[str] = set()
        """See `Result.freed`."""

    def pieces(self) -> Generator[Outcome | None]:
        """Run the cycle; yield each outcome as it is decided, and None after other pieces of work.

        The state may change after each piece, if the caller has applied all admissions so far. A
        caller that applies none of them before the end is fine, too.
        """
        self._pending.end_backoffs(self._now)
        self._tree.begin()
        if self._room is not None:
            self._room.begin()
        rounds = self._rounds()
        try:
            for piece in rounds:
                if piece is not None:
                    self._outcomes.pop(piece.workload, None)
                    self._outcomes[piece.workload] = piece
                yield piece
                if self._view.structure_version != self._tree.version:
                    self._cut = True
                    return
                if self._room is None or not self._room.asking:
                    self._look_again()
            self._freed.update(self._kept.end_untried(self._tried, self._roots))
        finally:
            rounds.close()
            self._tree.undo(0)

    def result(self) -> Result:
        """Return the outcomes."""
        return Result(
            tuple(self._outcomes.values()),
            more=self._cut or bool(self._heads()),
            held=bool(self._await_pods),
            moved=self._moved,
            freed=frozenset(self._freed),
        )

    def _look_again(self) -> None:
        """Read what has changed since the last piece."""
        if self._room is not None and self._room.look_again():
            self._bases.node_changes += 1
        version = self._view.version
        if version == self._version:
            return
        self._tree.look_again()
        own, self._admitted = self._admitted, []
        for node, usage in own:  # the state shows it now, unless it has finished already
            self._tree.give(node, usage)
        self._kept.look_again()
        self._nominator.leaving.look_again()
        self._unready.look_again()
        if version - self._version > len(own):
            self._bases.state_changes += 1
        self._version = version

    # -- the rounds, and which workloads are in each

    def _rounds(self) -> Generator[Outcome | None, None, None]:
        # Workloads that have waited long for room have it kept first.
        yield from aging.keeping(
            self._view, self._pending, tree=self._tree, rules=self._rules, now=self._now
        )
        yield from self._second_passes()
        roots = self._roots = {self._tree.queue(name).root for name in self._ready()}
        if not roots:
            return
        yield from self._tree.holders.reading([*self._view.cluster_queues])
        waiting = [*self._in_flight(), *self._kept.heads(roots), *self._in_flight(chosen=False)]
        for _ in range(ROUNDS):
            heads = list(dict.fromkeys([*self._heads(), *waiting]))
            if not heads:
                break
            heads += (key for key in self._kept.withdraw(heads) if key not in heads)
            yield from self._round(heads, may_defer=True)
            waiting = [*self._deferred]
        if waiting:  # each cycle serves them, however many come before them
            yield from self._round([*waiting, *self._kept.withdraw(waiting)], may_defer=False)

    def _ready(self) -> list[str]:
        """Return the ClusterQueues with heads; a tree with heads since the start has to wait."""
        names = [name for name in self._pending.ready() if self._tree.has(name)]
        return [x for x in names if not self._roots or self._tree.queue(x).root in self._roots]

    def _heads(self) -> list[str]:
        found = [self._pending.queue(name).head() for name in self._ready()]
        return [key for key in found if key is not None and key not in self._await_pods]

    def _in_flight(self, *, chosen: bool = True) -> list[str]:
        """Return the preemptors that wait for victims, in the order in which those were chosen.

        They get what their victims release before any other workload, and in that order. Otherwise
        a preemptor that borrows less would take the quota for which an earlier one has victims.

        Not `chosen`: those that only hope for what victims of others leave. They have no claim to
        it, and are tried in the order of the cycle.
        """
        found = []
        for key in self._pending.preemptors:
            if self._pending.preemptors.has_chosen(key) is not chosen:
                continue
            name = self._pending.cluster_queue_of(key) or ""
            if not self._tree.has(name):
                continue
            by_room = self._rules.room_for(self._view.cluster_queues[name]) is not None
            if not by_room and self._tree.queue(name).root not in self._roots:
                continue  # nodes, unlike quota, are shared by all trees
            if self._stands(key):
                found.append(key)
        return found

    def _stands(self, key: str) -> bool:
        """Return whether a workload still waits, and in a strict queue as its head."""
        name = self._pending.cluster_queue_of(key)
        if name is None or self._pending.is_backing_off(key) or not self._tree.has(name):
            return False
        strict = self._view.cluster_queues[name].strategy == "StrictFIFO"
        return not strict or self._pending.queue(name).head(blocking=True) == key

    # -- workloads that hold quota already

    def _second_passes(self) -> Iterator[Outcome | None]:
        """Admit workloads that hold quota, first those that have held it longest."""
        found: list[tuple[float, str]] = []
        for number, key in enumerate([*self._view.passed], 1):
            workload = self._view.workloads.get(key)
            reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED) if workload else None
            found.append((reserved.transition if reserved is not None else self._now, key))
            if number % PIECE == 0:
                yield None
        for _, key in sorted(found):
            if self._view.is_assumed(key) or key in self._pending.aside:
                continue  # the reservation is being written, or the admission was refused
            if self._pending.lacking.get(key) is self._view.workloads.get(key):
                continue  # it lacked room when it was asked for last
            try:
                outcome = yield from self._second_pass(key)
            except Exception as error:  # noqa: BLE001 - one workload must not stop the others
                outcome = Broken(key, error)
            yield outcome

    def _second_pass(self, key: str) -> Steps[Outcome | None]:
        """Admit a workload that holds quota where its checks are Ready and its pods have room."""
        workload, held = self._view.workloads.get(key), self._view.admission(key)
        queue = self._view.cluster_queues.get(held.cluster_queue) if held is not None else None
        if workload is None or held is None or queue is None or _leaves(workload):
            return None
        if checks.synced(workload, self._view, self._now) is not workload:
            return None  # checks that it needs are not listed yet
        room, given = self._rules.room_for(queue), held.assignments
        lack = (yield from _lack(room, workload, given)) if room is not None else None
        if self._view.workloads.get(key) is not workload or self._view.is_assumed(key):
            return None  # it has changed meanwhile, which causes another cycle
        if lack is not None:
            self._pending.lacking[key] = workload
            waits = NotYetAdmitted.WAITING_FOR_ROOM
            asked = asks_for_nodes(workload, self._view)  # those come, or it is tried again
            if provisions(queue, self._rules.options) and not asked:
                waits = NotYetAdmitted.WAITING_FOR_NODES
            return NotAdmitted(key, waits, f"quota yes; {lack}")
        others = self._unready.holds(workload)
        if others:
            self._await_pods.add(key)
            return NotAdmitted(key, NotYetAdmitted.WAITING_FOR_PODS_READY, others)
        self._unready.admit(workload)
        if room is not None:
            given = room.located(workload, given)
            room.take(workload, given)
        return Admit(key, AdmissionInfo(held.cluster_queue, given), borrows=False)

    # -- one round: judge all heads, then serve each of them

    def _round(self, keys: Collection[str], *, may_defer: bool) -> Iterator[Outcome | None]:
        """Judge workloads and serve them in the order of the cycle.

        With `may_defer` some of those that borrow are left for the next round.
        """
        judged: list[tuple[Nomination, Basis]] = []
        yield from self._judge_all(keys, judged)
        in_flight = {key: place for place, key in enumerate(self._in_flight())}

        def turn(each: tuple[Nomination, Basis]) -> tuple[int, bool, int, Order]:
            found, key = each[0], each[0].key
            # One that is not hopeful may make way for the next head, or preempt in a strict queue.
            takes = _is_hopeful(found) or (
                found.queue.strategy == "StrictFIFO" and found.could_preempt
            )
            place = in_flight.get(key, len(in_flight))
            return place, takes, found.borrow, self._pending.order(key)

        judged = [each for each in judged if self._stands(each[0].key)]
        judged.sort(key=turn)
        self._behind, self._deferred = {}, {}
        for nomination, seen in judged:
            key = nomination.key
            if not self._stands(key):
                continue
            if may_defer and key not in in_flight and self._has_to_wait(nomination):
                self._deferred[key] = nomination, seen
                continue
            outcome = yield from self._serve_again(nomination, seen)
            if outcome is not None:
                yield outcome

    def _has_to_wait(self, nomination: Nomination) -> bool:
        """Return whether a head borrows from farther up than workloads that may come next."""
        behind = self._behind.get(nomination.node.root)
        return _is_hopeful(nomination) and behind is not None and nomination.borrow > behind

    def _make_way(self, nomination: Nomination) -> None:
        """Note that the workload behind a head is the next of its ClusterQueue."""
        following = self._pending.queue(nomination.queue.name).head()
        if following is None or following in self._await_pods:
            return
        root, borrow = nomination.node.root, nomination.borrow if _is_hopeful(nomination) else 0
        self._behind[root] = min(borrow, self._behind.get(root, borrow))

    def _judge_all(
        self, keys: Collection[str], judged: list[tuple[Nomination, Basis]]
    ) -> Iterator[Outcome | None]:
        """Append the judgement of each of these heads, and what it is based on."""
        for key in keys:
            if not self._stands(key):
                continue
            self._kept.release(key)
            before = self._deferred.get(key)
            if before is not None and before[1][-1] == self._bases.seen(key)[-1]:
                judged.append(before)  # it is judged again if it is served and quota has changed
                continue
            try:
                found = yield from self._judge(key)
            except Exception as error:  # noqa: BLE001 - one workload must not stop the others
                yield self._set_aside(key, error, self._mark())
                continue
            if found is not None:
                judged.append((found, self._bases.seen(key)))
            yield None

    def _judge(self, key: str) -> Steps[Nomination | None]:
        """Judge a head on the state at the end of the judgement; None where that keeps changing."""
        began = self._bases.state_changes, self._bases.node_changes
        found = yield from self._nominator.judging(key, state=lambda: self._bases.seen(key))
        changed = began != (self._bases.state_changes, self._bases.node_changes)
        self._moved = self._moved or (changed and found is not None and not found.fits)
        if found is None:
            self._freed.update(filter(None, [self._pending.cluster_queue_of(key)]))
        return found

    def _serve_again(self, nomination: Nomination, seen: Basis) -> Steps[Outcome | None]:
        """Serve a head, judged again where its judgement is outdated; None where it is gone."""
        key, mark = nomination.key, self._mark()
        try:
            if not self._is_valid(nomination, seen):
                found = yield from self._judge(key)
                if found is None or not self._stands(key):
                    return None
                nomination, mark = found, self._mark()
            return self._serve(nomination)
        except Exception as error:  # noqa: BLE001 - as above
            return self._set_aside(key, error, mark)

    def _is_valid(self, nomination: Nomination, seen: Basis) -> bool:
        """Return whether a judgement still holds.

        Usage only grows while heads are served: a head that found nothing before finds nothing
        now, unless the state has changed.
        """
        now = self._bases.seen(nomination.key)
        return seen == now or (not _is_hopeful(nomination) and seen[-1] == now[-1])

    def _mark(self) -> tuple[int, int]:
        """Return a mark to go back to."""
        return self._tree.mark(), len(self._admitted)

    def _set_aside(self, key: str, error: Exception, mark: tuple[int, int]) -> Broken:
        """Undo what was done for a workload that causes an error, and remove it from its queue."""
        steps, admitted = mark
        self._tree.undo(steps)
        del self._admitted[admitted:]
        self._kept.forget(key)
        self._tried.add(key)
        self._pending.remove(key)
        return Broken(key, error)

    # -- serve one head

    def _serve(self, nomination: Nomination) -> Outcome:
        key = nomination.key
        self._tried.add(key)
        before = self._pending.provisional.pop(key, None)
        outcome = self._outcome(nomination)
        admitted = isinstance(outcome, Admit)
        if before and not admitted and before.exceeds(self._pending.provisional.get(key)):
            self._freed.add(before.cluster_queue)
        self._make_way(nomination)
        return outcome

    def _outcome(self, nomination: Nomination) -> Outcome:
        workload = self._view.workloads[nomination.key]
        if nomination.fits:
            waits = self._unready.holds(workload)
            return self._wait(nomination, waits) if waits else self._admit(nomination, workload)
        blocks = (
            nomination.queue.strategy == "StrictFIFO"
            and nomination.cause is not Cause.NAMESPACE_MISMATCH
        )
        self._pending.mark_inadmissible(nomination.key, nomination.cause, blocks=blocks)
        if nomination.plan is not None:
            return self._preempt(nomination, workload)
        self._kept.keep_while_blocking(nomination)
        self._pending.preemptors.expect(nomination.key, ())
        reason, gated = nomination.proposal.reason, nomination.gated
        return NotAdmitted(nomination.key, reason, nomination.message, gated=gated)

    def _admit(self, nomination: Nomination, workload: WorkloadInfo) -> Admit:
        key, usage = nomination.key, nomination.proposal.usage
        self._pending.remove(key)
        self._pending.preemptors.readmit(key)
        self._nominator.admit(nomination)
        borrowed = _borrows(nomination)
        self._tree.take(nomination.node, usage)
        if not borrowed and _borrows(nomination):
            # Workloads with quota there may be victims now, for preemptors that found none.
            self._freed.add(nomination.queue.name)
        self._admitted.append((nomination.node, usage))
        self._bases.count(nomination.node)
        given, waits = nomination.proposal.assignments, nomination.reserves_only
        if not waits:
            self._unready.admit(workload)
        if self._room is not None and not waits:
            self._room.take(workload, given)
        admission = AdmissionInfo(nomination.queue.name, given, reserved_only=waits)
        return Admit(key, admission, borrows=nomination.borrow > 0)

    def _wait(self, nomination: Nomination, waits: str) -> NotAdmitted:
        """Keep a head in place: it is next as soon as the pods of those before it are ready."""
        key = nomination.key
        self._kept.keep(nomination)
        self._pending.preemptors.expect(key, ())
        self._pending.requeue(key)
        self._await_pods.add(key)
        return NotAdmitted(key, Unadmitted.WAITING_FOR_PODS_READY, waits)

    def _preempt(self, nomination: Nomination, workload: WorkloadInfo) -> Preempt | NotAdmitted:
        key, victims = nomination.key, nomination.plan.victims if nomination.plan else ()
        self._kept.keep(nomination)
        self._kept.keep_room(nomination, workload)
        self._nominator.choose([victim.workload for victim in victims])
        self._pending.preemptors.expect(key, nomination.victims, chosen=bool(victims))
        if any(victim.reason == Preempted.FOR_ROOM for victim in victims):
            self._pending.preemptors.count_for_room(key, self._now)
        if victims:
            given = {each.name: each.count for each in nomination.proposal.assignments}
            self._pending.preemptors.chose(key, given)
            return Preempt(key, victims, nomination.message)
        return NotAdmitted(key, Unadmitted.WAITING_FOR_PREEMPTED, nomination.message)


def _lack(room: NodeRoom, workload: WorkloadInfo, given: Sequence[Assignment]) -> Steps[str | None]:
    """Return what the pods of a workload lack now: not before a pause in which that was found."""
    room.judge()
    while True:
        version = room.version
        lack = yield from room.lack(workload, given)
        if version == room.version:
            return lack


def _leaves(workload: WorkloadInfo) -> bool:
    """Return whether a workload that holds quota gives it back soon."""
    return workload.evicted or not workload.active or workload.meta.terminating


def _is_hopeful(nomination: Nomination) -> bool:
    """Return whether a head fits, or will once its victims are gone."""
    return nomination.fits or nomination.plan is not None


def _borrows(nomination: Nomination) -> bool:
    return any(nomination.node.borrows(what) for what in nomination.proposal.usage)


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


RELEASE_DELAY: Final = 0.5
"""Seconds before ClusterQueues are tried again whose provisional quota was released."""
ROOM_PERIOD: Final = 10.0
"""Seconds after which workloads that lack room on nodes are tried in any case."""


class AdmissionCore:
    """The pending workloads and the quota tree of one process.

    `now` returns seconds since the epoch, `after` calls a function after so many seconds, and
    `wake` asks for another cycle.
    """

    def __init__(
        self,
        view: QueueView,
        rules: AdmissionRules,
        *,
        now: Callable[[], float],
        after: Callable[[float, Callable[[], None]], object],
        wake: Callable[[], object],
    ) -> None:
        self.view, self.rules = view, rules
        self.pending = PendingQueues(rules.options)
        self.tree = QuotaTree(view)
        self._now, self._after, self._wake = now, after, wake
        self._freed: set[str] = set()
        """ClusterQueues whose provisional quota was released, until their workloads are tried."""

    def place(self, key: str) -> None:
        """Place a workload in its queue, or remove it where it waits no more."""
        self.pending.update(key, self.view, self._now())

    def retry_sharing(self, cluster_queues: Iterable[str]) -> None:
        """Try all workloads that share quota with these ClusterQueues."""
        self.pending.requeue_sharing(cluster_queues, self.view, self._now())
        self._wake()

    def cycle(self) -> Cycle:
        """Return a cycle on the state as it is now."""
        self.tree = QuotaTree.current(self.view, self.tree)
        return Cycle(self.view, self.pending, tree=self.tree, rules=self.rules, now=self._now())

    def end(self, result: Result) -> None:
        """Arrange what has to follow a cycle."""
        if result.freed and not self._freed:
            self._after(RELEASE_DELAY, self._retry_freed)
        self._freed |= result.freed
        if result.more:
            self._wake()

    def _retry_freed(self) -> None:
        freed, self._freed = self._freed, set()
        self.retry_sharing(freed)

    def still_evicts(self, victim: str, *, preemptor: str) -> WorkloadInfo | None:
        """Return a victim as it is now, or None where it is not to be evicted any more.

        Later in the cycle the preemptor may have got quota without this victim, may have been
        deleted, or may have given up. Other preemptors that still count on it choose again.
        """
        before = self.view.workloads.get(victim)
        if before is None or self.view.admission(victim) is None:
            return None
        if before.evicted and not self.view.is_assumed(victim):  # else it is being admitted again
            return None
        if victim in self.pending.preemptors.victims(preemptor):
            return before
        self.pending.drop_victim(victim)
        self._wake()
        return None
