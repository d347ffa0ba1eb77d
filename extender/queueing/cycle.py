"""One cycle of admission, piece by piece.

In each round every ClusterQueue sends its head. Each is given flavors on the usage as it is, then
they are served in order: who stays within its quota before who borrows, then by priority and age.
What one was given counts for the next; who was judged before that is judged again. A few rounds
make a cycle, so that a queue needs no cycle for each of its workloads while the order among the
queues stays that of one head at a time. So the quota that a strict queue's head keeps from others
is given back before each round, and the head gets it again at its place in that round.

The state may change between two pieces. Each head is served on a judgement of the state as it is
then: what was judged before a change is judged again. A change of the structure ends the cycle.

Nothing is written here but in `pending`: who was admitted is not in it any more, who found nothing
is not tried again before something changes. Usage is tried on the tree and undone at the end.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.api.queue_reasons import Unadmitted
from extender.queueing.nomination import Nomination, Nominator
from extender.queueing.options import Options
from extender.queueing.order import CycleOrder, cycle_order
from extender.queueing.pending import PendingQueues
from extender.queueing.preemption import Victim
from extender.queueing.quota import Node, QuotaTree
from extender.queueing.readiness import Unready
from extender.queueing.room import Room, requires_room
from extender.state.queues.records import Admission, FlavorResource
from extender.state.queues.snapshot import QueueSnapshot
from extender.steps import Steps


@dataclass(frozen=True, slots=True)
class Admit:
    """Quota for a workload, to be written."""

    workload: str
    admission: Admission
    borrows: bool


@dataclass(frozen=True, slots=True)
class Preempt:
    """Others have to go first: these, besides those that leave already."""

    workload: str
    victims: tuple[Victim, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Wait:
    """No quota, and why."""

    workload: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Broken:
    """An error that no code expects, while this one was judged: it is put aside, the cycle goes on.

    It is in no queue any more until the shell queues it again.
    """

    workload: str
    error: Exception


Outcome = Admit | Preempt | Wait | Broken


@dataclass(frozen=True, slots=True)
class Result:
    """What became of those that were tried."""

    outcomes: tuple[Outcome, ...] = ()
    """In the order of the decisions."""
    more: bool = False
    """Whether there are heads that were not tried, and may be in the next cycle."""
    held: bool = False
    """Whether there are heads with quota that wait for the pods of others."""
    moved: bool = False
    """Whether the state changed while a head was judged that got no room: it is to be asked for
    again soon."""
    freed: frozenset[str] = frozenset()
    """ClusterQueues of which somebody kept more from others than now, and those that borrow now and
    did not before: what shares quota with them is to be tried again.

    Not at once: two who take turns in keeping it would have cycles follow each other for ever.
    """


_Basis = tuple[int, int, int]
"""What a judgement was based on: steps in its tree, the version of room, changes of the state."""


_Judged = tuple[CycleOrder, Nomination, _Basis, _Basis]
"""A judgement with its place in the order, what it was based on, and the same without reserves."""


@dataclass(frozen=True, slots=True)
class _Reserve:
    """A head that bars the way of a strict queue and keeps quota from others meanwhile."""

    nomination: Nomination
    basis: _Basis | None
    """What it was judged on, before any head of its round was served; else None."""


def run(
    snapshot: QueueSnapshot,
    pending: PendingQueues,
    *,
    tree: QuotaTree,
    options: Options,
    now: float,
    room: Room | None = None,
) -> Result:
    """Return what becomes of the heads of all ClusterQueues, without a pause.

    The tree is of the snapshot's structure (`QuotaTree.of`). Without `room` quota is all it takes.
    """
    cycle = Cycle(snapshot, pending, tree=tree, options=options, now=now, room=room)
    for _ in cycle.pieces():
        pass
    return cycle.result()


class Cycle:
    """One cycle over a state that may change between its pieces."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        pending: PendingQueues,
        *,
        tree: QuotaTree,
        options: Options,
        now: float,
        room: Room | None = None,
    ) -> None:
        assert tree.version == snapshot.structure_version, "the tree is of another structure"
        self._snapshot, self._pending, self._tree = snapshot, pending, tree
        self._options, self._now, self._room = options, now, room
        self._nominator = Nominator(snapshot, pending, tree=tree, options=options, room=room)
        self._version = snapshot.version
        self._changes = 0
        """How often the state was found to be another one."""
        self._room_changes = 0
        """How often the nodes were."""
        self._served: dict[Node, int] = {}
        """How often quota was taken or given back on trial in each tree."""
        self._moves: dict[Node, int] = {}
        """How often it was given to a workload in each tree, or is to be when victims leave."""
        self._unready = Unready(snapshot, options)
        """For whose pods others wait, with those that are admitted here."""
        self._held: set[str] = set()
        """Who waits for them: their quota is taken on trial, so they are not judged again."""
        self._tried: set[str] = set()
        self._roots: set[Node] = set()
        """The trees in which somebody is tried."""
        self._freed: set[str] = set()
        """ClusterQueues of those who kept more from others before than they do now."""
        self._taken: dict[str, tuple[Node, Mapping[FlavorResource, int]]] = {}
        """What is taken on trial for workloads that wait."""
        self._admitted: list[tuple[Node, Mapping[FlavorResource, int]]] = []
        """What is taken for workloads that the state does not show with quota yet."""
        self._reserves: dict[str, _Reserve] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._cut = False
        self._moved = False
        """Whether nodes changed while a head was judged that was not admitted then."""

    def pieces(self) -> Generator[Outcome | None]:
        """Work; yield each decision as it is made, and None after each other piece of work.

        The caller may let the state change after each of them, once it has applied all admissions
        that it was given; or it applies none of them before the end.
        """
        self._pending.due(self._now)
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
                if self._snapshot.structure_version != self._tree.version:
                    self._cut = True
                    return
                if self._room is None or not self._room.asking:
                    self._look_again()
            self._end_trials()
        finally:
            rounds.close()
            self._tree.undo(0)

    def result(self) -> Result:
        """Return what became of those that were tried."""
        more = self._cut or bool(self._heads())
        outcomes = tuple(self._outcomes.values())
        return Result(
            outcomes,
            more=more,
            held=bool(self._held),
            moved=self._moved,
            freed=frozenset(self._freed),
        )

    def _rounds(self) -> Generator[Outcome | None, None, None]:
        ready = self._ready()
        roots = self._roots = {self._tree.queue(name).root for name in ready}
        if not roots:
            return
        barring = self._barring(roots)
        yield from self._round(self._in_flight(roots), as_given=True)
        for _ in range(self._options.heads_per_queue):
            heads = [*barring, *self._heads()]
            again = [key for key in self._in_flight(roots) if key in heads]
            if again:  # something has changed since they were tried at the beginning
                yield from self._round(again, as_given=True)
                continue
            if not heads:
                break
            yield from self._round([*heads, *self._withdrawn(heads)])
            barring = []
        for _ in range(self._options.heads_per_queue):
            late = self._outdated()
            if not late:
                break
            yield from self._round(self._withdrawn(late))

    def _end_trials(self) -> None:
        """End the trials of those that were not tried: others came before them."""
        for key, trial in list(self._pending.trials().items()):
            name = trial.cluster_queue
            there = self._tree.has(name) and self._tree.queue(name).root in self._roots
            if there and key not in self._tried:
                self._pending.end_trial(key)
                self._freed.add(name)

    # -- the state between two pieces

    def _look_again(self) -> None:
        """Take in what has changed since the last piece."""
        if self._room is not None and self._room.look_again():
            self._room_changes += 1
        version = self._snapshot.version
        if version == self._version:
            return
        self._tree.look_again()
        own, self._admitted = self._admitted, []
        for node, usage in own:  # it is in the usage now, unless it has ended already
            self._tree.give(node, usage)
        gone = [key for key in self._taken if key not in self._pending.trials()]
        for key in gone:
            self._give_up(key)
            self._reserves.pop(key, None)
        self._nominator.look_again()
        self._unready.look_again()
        if version - self._version > len(own):
            self._changes += 1
        self._version = version

    def _stands(self, key: str) -> bool:
        """Return whether a workload still waits, and in strict order before all others."""
        name = self._pending.cluster_queue_of(key)
        if name is None or self._pending.is_late(key) or not self._tree.has(name):
            return False
        strict = self._snapshot.cluster_queues[name].strategy == "StrictFIFO"
        return not strict or self._pending.head(name, blocked=True) == key

    # -- whose turn it is

    def _heads(self) -> list[str]:
        found = [self._pending.head(name) for name in self._ready()]
        return [key for key in found if key is not None and key not in self._held]

    def _ready(self) -> list[str]:
        """Return the ClusterQueues with heads; a tree that was not begun with waits its turn."""
        names = [name for name in self._pending.ready() if self._tree.has(name)]
        return [x for x in names if not self._roots or self._tree.queue(x).root in self._roots]

    def _in_flight(self, roots: set[Node]) -> list[str]:
        """Return the workloads that wait for victims, in the order in which these were chosen.

        What the victims leave is for these workloads before any other, and in that order: another
        one of them that borrows less would take the place for which the first one's victims leave.
        """
        found = []
        for key in list(self._pending.preempting()):
            name = self._pending.cluster_queue_of(key) or ""
            if not self._tree.has(name):
                continue
            queue = self._snapshot.cluster_queues[name]
            by_room = self._room is not None and requires_room(queue, self._options)
            if not by_room and self._tree.queue(name).root not in roots:
                continue  # nodes are shared by all trees
            if self._stands(key):
                found.append(key)
        return found

    def _ask_for_room(self, names: Iterable[str]) -> bool:
        queues = self._snapshot.cluster_queues
        return any(requires_room(queues[name], self._options) for name in names)

    def _barring(self, roots: set[Node]) -> list[str]:
        """Return the heads that bar the way in a strict queue: they may keep others out too."""
        found = sorted(self._pending.barring())
        return [
            key
            for name, key in found
            if self._tree.has(name)
            and self._tree.queue(name).root in roots
            and not self._pending.victims(key)
        ]

    def _withdrawn(self, heads: Iterable[str]) -> list[str]:
        """Give up what is kept for heads that bar the way, where others are to be served.

        Who is served now may come before them: both get their places in the same order.
        """
        roots = {root for root in map(self._root, heads) if root is not None}
        found = [key for key in self._reserves if self._root(key) in roots]
        for key in found:
            if key in self._taken:
                self._give_up(key)
        return found

    def _outdated(self) -> list[str]:
        """Return the heads that bar the way whose place others may have changed since."""
        found = []
        for key in filter(self._stands, self._reserves):
            basis = self._reserves[key].basis
            if basis is None or basis[0] != self._standing(key)[0]:
                found.append(key)
        return found

    def _root(self, key: str) -> Node | None:
        name = self._pending.cluster_queue_of(key)
        return self._tree.queue(name).root if name and self._tree.has(name) else None

    # -- rounds

    def _round(self, keys: Collection[str], *, as_given: bool = False) -> Iterator[Outcome | None]:
        """Judge workloads and serve them: the order is that of the cycle, or of the keys."""
        yield from self._look_at_nodes(keys)
        judged: list[_Judged] = []
        yield from self._judge_all(keys, judged)
        if not as_given:
            judged.sort(key=lambda each: each[0])
        for _, nomination, seen, standing in judged:
            key = nomination.key
            if not self._stands(key):
                continue
            outcome = yield from self._serve_again(nomination, seen, standing)
            if outcome is not None:
                yield outcome

    def _look_at_nodes(self, keys: Iterable[str]) -> Iterator[None]:
        """Look at the nodes piece by piece, where the judgement of a head asks for room on them."""
        names = {self._pending.cluster_queue_of(key) or "" for key in keys}
        if self._room is not None and self._ask_for_room(filter(self._tree.has, names)):
            yield from self._room.prepare()

    def _judge_all(self, keys: Collection[str], judged: list[_Judged]) -> Iterator[Outcome | None]:
        for key in keys:
            if not self._stands(key):
                continue
            if key in self._taken:
                self._give_up(key)
            try:
                found = yield from self._judge_again(key)
            except Exception as error:  # noqa: BLE001 - what one holds must not stop the others
                yield self._put_aside(key, error, self._mark())
                continue
            if found is not None:
                order = cycle_order(found.borrow, self._pending.order(key))
                judged.append((order, found, self._seen(key), self._standing(key)))
            yield None

    def _serve_again(
        self, nomination: Nomination, seen: _Basis, standing: _Basis
    ) -> Steps[Outcome | None]:
        """Serve a head, judged again where its judgement holds no more; None where it cannot be."""
        key = nomination.key
        basis: _Basis | None = standing
        try:
            if not self._is_valid(nomination, seen):
                found = yield from self._judging(key)
                if found is None or not self._stands(key):
                    return None
                nomination, basis = found, None
        except Exception as error:  # noqa: BLE001 - as above
            return self._put_aside(key, error, self._mark())
        mark = self._mark()
        try:
            return self._serve(nomination, basis)
        except Exception as error:  # noqa: BLE001 - as above
            return self._put_aside(key, error, mark)

    def _judging(self, key: str) -> Steps[Nomination | None]:
        """Judge a head on the state as it is at the end of that, where there is a judgement."""
        began = self._changes, self._room_changes
        found = yield from self._nominator.judging(key, state=lambda: self._seen(key))
        changed = began != (self._changes, self._room_changes)
        self._moved = self._moved or (changed and found is not None and not found.fits)
        if found is None:
            self._freed.update(filter(None, [self._pending.cluster_queue_of(key)]))
        return found

    def _mark(self) -> tuple[int, int]:
        """Return a point to go back to."""
        return self._tree.mark(), len(self._admitted)

    def _put_aside(self, key: str, error: Exception, mark: tuple[int, int]) -> Broken:
        """Take back what was done for a workload that cannot be judged; it is in no queue then."""
        steps, admitted = mark
        self._tree.undo(steps)
        del self._admitted[admitted:]
        if self._taken.pop(key, None) is not None and self._room is not None:
            self._room.let_go(key)
        self._reserves.pop(key, None)
        self._tried.add(key)
        self._pending.remove(key)
        return Broken(key, error)

    def _judge_again(self, key: str) -> Steps[Nomination | None]:
        """Judge a head; one that bars the way only where something was given to others since."""
        before = self._reserves.pop(key, None)
        if before is not None and before.basis == self._standing(key):
            return before.nomination
        return (yield from self._judging(key))

    def _is_valid(self, nomination: Nomination, seen: _Basis) -> bool:
        """Return whether a judgement still holds.

        Usage only grows while heads are served: who found nothing before finds nothing now, unless
        the state has changed.
        """
        now = self._seen(nomination.key)
        hopeful = nomination.fits or nomination.plan is not None
        return seen == now if hopeful else seen[-1] == now[-1]

    def _seen(self, key: str) -> _Basis:
        """Return what a judgement is based on, of quota in its tree and of room anywhere."""
        return self._basis(key, self._served)

    def _standing(self, key: str) -> _Basis:
        """Return the same without what is kept for heads that bar the way."""
        return self._basis(key, self._moves)

    def _basis(self, key: str, steps: Mapping[Node, int]) -> _Basis:
        root = self._root(key)
        number = steps.get(root, 0) if root else 0
        queue = self._snapshot.cluster_queues.get(self._pending.cluster_queue_of(key) or "")
        if self._room is None or queue is None or not requires_room(queue, self._options):
            return number, 0, self._changes
        return number, self._room.version, self._changes + self._room_changes

    def _serve(self, nomination: Nomination, basis: _Basis | None) -> Outcome:
        key = nomination.key
        self._tried.add(key)
        before = self._pending.end_trial(key)
        outcome = self._outcome(nomination, basis)
        admitted = isinstance(outcome, Admit)
        if before and not admitted and before.exceeds(self._pending.trials().get(key)):
            self._freed.add(before.cluster_queue)
        return outcome

    def _outcome(self, nomination: Nomination, basis: _Basis | None) -> Outcome:
        key = nomination.key
        if nomination.fits:
            waits = self._unready.holds(self._snapshot.workloads[key])
            return self._hold(nomination, waits) if waits else self._admit(nomination)
        self._leave_alone(nomination)
        plan = nomination.plan
        if plan is None:
            self._reserve(nomination, basis)
            self._pending.preempts(key, ())
            return Wait(key, nomination.reason, nomination.message)
        self._take_on_trial(nomination, nomination.proposal.usage)
        self._count(nomination.node, self._moves)
        self._keep_room(nomination)
        self._nominator.leaving.choose(victim.workload for victim in plan.victims)
        self._pending.preempts(key, nomination.making_way)
        if plan.victims:
            return Preempt(key, plan.victims, nomination.message)
        return Wait(key, Unadmitted.WAITING_FOR_PREEMPTED, nomination.message)

    def _admit(self, nomination: Nomination) -> Admit:
        key, usage = nomination.key, nomination.proposal.usage
        workload = self._snapshot.workloads[key]
        self._unready.admit(workload)
        self._pending.remove(key)
        self._pending.stays(key)
        self._nominator.admit(key)
        borrowed = self._borrows(nomination)
        self._tree.take(nomination.node, usage)
        if not borrowed and self._borrows(nomination):
            # What has quota there already may be made to leave now, by those that found no victims.
            self._freed.add(nomination.queue.name)
        self._admitted.append((nomination.node, usage))
        self._count(nomination.node, self._served, self._moves)
        if self._room is not None:
            self._room.take(workload, nomination.proposal.assignments)
        admission = Admission(nomination.queue.name, nomination.proposal.assignments)
        return Admit(key, admission, borrows=nomination.borrow > 0)

    @staticmethod
    def _borrows(nomination: Nomination) -> bool:
        return any(nomination.node.borrows(what) for what in nomination.proposal.usage)

    def _hold(self, nomination: Nomination, waits: str) -> Wait:
        """Leave a head where it is: it is the next one as soon as those before it are ready."""
        key = nomination.key
        self._take_on_trial(nomination, nomination.proposal.usage)
        self._count(nomination.node, self._moves)
        self._pending.preempts(key, ())
        self._pending.retry(key)
        self._held.add(key)
        return Wait(key, Unadmitted.WAITING_FOR_PODS_READY, waits)

    def _leave_alone(self, nomination: Nomination) -> None:
        roomless = nomination.proposal.lacks_room
        if nomination.unwelcome:
            self._pending.park(nomination.key, unwelcome=True)
        elif nomination.queue.strategy == "StrictFIFO":
            self._pending.block(nomination.key, roomless=roomless)
        else:
            self._pending.park(nomination.key, roomless=roomless)

    def _reserve(self, nomination: Nomination, basis: _Basis | None) -> None:
        """Keep quota for a head that bars the way and could not take it back from others."""
        queue = nomination.queue
        sure = queue.preemption.reclaim_within_cohort == "Any"
        if queue.strategy == "StrictFIFO" and nomination.could_preempt and not sure:
            self._take_on_trial(nomination, dict(_within_reach(nomination)), nomination.borrow)
            self._reserves[nomination.key] = _Reserve(nomination, basis)

    def _keep_room(self, nomination: Nomination) -> None:
        """Give nobody else the room of who waits for victims, where its queue asks for room."""
        if self._room is not None and requires_room(nomination.queue, self._options):
            workload = self._snapshot.workloads[nomination.key]
            given = nomination.proposal.assignments
            self._room.take(workload, given, without=nomination.making_way)

    def _take_on_trial(
        self, nomination: Nomination, usage: Mapping[FlavorResource, int], behind: int = 0
    ) -> None:
        self._pending.take_on_trial(nomination.key, usage, behind=behind)
        self._taken[nomination.key] = nomination.node, usage
        self._tree.take(nomination.node, usage)
        self._count(nomination.node, self._served)

    def _give_up(self, key: str) -> None:
        """Give back what is taken on trial for a workload."""
        node, usage = self._taken.pop(key)
        self._tree.give(node, usage)
        self._count(node, self._served)
        if self._room is not None:
            self._room.let_go(key)

    @staticmethod
    def _count(node: Node, *counts: dict[Node, int]) -> None:
        for each in counts:
            each[node.root] = each.get(node.root, 0) + 1


def _within_reach(nomination: Nomination) -> Iterator[tuple[FlavorResource, int]]:
    """Yield how much of what it asks for its queue may use, whoever uses it now."""
    node = nomination.node
    for what, amount in nomination.proposal.usage.items():
        quota, used = node.quota(what), node.usage.get(what, 0)
        most = quota.nominal
        if nomination.borrow:
            limit = quota.borrowing_limit
            most = used + amount if limit is None else quota.nominal + limit
        yield what, max(0, min(amount, most - used))
