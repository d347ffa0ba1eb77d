"""One cycle of admission over a snapshot.

In each round every ClusterQueue sends its head. Each is given flavors on the usage as it is, then
they are served in order: who stays within its quota before who borrows, then by priority and age.
What one was given counts for the next; who was judged before that is judged again. A few rounds
make a cycle, so that a queue needs no cycle for each of its workloads while the order among the
queues stays that of one head at a time.

Nothing is written here but in `pending`: who was admitted is not in it any more, who found nothing
is not tried again before something changes. Usage is tried on the tree and undone at the end.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.api.queue_reasons import Unadmitted
from extender.queueing.nomination import Nomination, Nominator
from extender.queueing.options import Options
from extender.queueing.order import cycle_order
from extender.queueing.pending import PendingQueues
from extender.queueing.preemption import Victim
from extender.queueing.quota import Node, QuotaTree
from extender.queueing.readiness import Unready
from extender.queueing.room import Room, requires_room
from extender.state.queues.records import Admission, FlavorResource
from extender.state.queues.snapshot import QueueSnapshot


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


Outcome = Admit | Preempt | Wait


@dataclass(frozen=True, slots=True)
class Result:
    """What became of those that were tried."""

    outcomes: tuple[Outcome, ...] = ()
    """In the order of the decisions."""
    more: bool = False
    """Whether there are heads that were not tried, and may be in the next cycle."""
    held: bool = False
    """Whether there are heads with quota that wait for the pods of others."""
    freed: frozenset[str] = frozenset()
    """ClusterQueues of which somebody kept more from others than now: these are to be tried again.

    Not at once: two who take turns in keeping it would have cycles follow each other for ever.
    """


def run(
    snapshot: QueueSnapshot,
    pending: PendingQueues,
    *,
    tree: QuotaTree,
    options: Options,
    now: float,
    room: Room | None = None,
) -> Result:
    """Return what becomes of the heads of all ClusterQueues.

    The tree is of the snapshot's structure (`QuotaTree.of`). Without `room` quota is all it takes.
    """
    assert tree.version == snapshot.structure_version, "the tree is of another structure"
    pending.due(now)
    tree.begin()
    if room is not None:
        room.begin()
    try:
        cycle = _Cycle(snapshot, pending, tree=tree, options=options, room=room)
        outcomes = tuple(cycle.outcomes())
        freed = frozenset(cycle.freed())
        return Result(outcomes, more=cycle.more(), held=cycle.held, freed=freed)
    finally:
        tree.undo(0)


class _Cycle:
    def __init__(
        self,
        snapshot: QueueSnapshot,
        pending: PendingQueues,
        *,
        tree: QuotaTree,
        options: Options,
        room: Room | None,
    ) -> None:
        self._snapshot, self._pending, self._tree = snapshot, pending, tree
        self._options, self._room = options, room
        self._nominator = Nominator(snapshot, pending, tree=tree, options=options, room=room)
        self._served: dict[Node, int] = {}
        """How many got quota on trial in each tree."""
        self._unready = Unready(snapshot, options)
        """For whose pods others wait, with those that are admitted here."""
        self._held: set[str] = set()
        """Who waits for them: their quota is taken on trial, so they are not judged again."""
        self._tried: set[str] = set()
        self._roots: set[Node] = set()
        """The trees in which somebody is tried."""
        self._freed: set[str] = set()
        """ClusterQueues of those who kept more from others before than they do now."""

    def outcomes(self) -> Iterator[Outcome]:
        """Yield what is decided, one workload after the other."""
        roots = self._roots = {self._tree.queue(name).root for name in self._ready()}
        if not roots:
            return
        barring = self._barring(roots)
        yield from self._round(self._in_flight(roots))
        for _ in range(self._options.heads_per_queue):
            heads = [*barring, *self._heads()]
            if not heads:
                return
            yield from self._round(heads)
            barring = []

    def freed(self) -> set[str]:
        """Return the ClusterQueues where quota is not kept from others any more that was before.

        Nobody else tells: those who found none for that reason are tried again.
        """
        for key, trial in list(self._pending.trials().items()):
            name = trial.cluster_queue
            there = self._tree.has(name) and self._tree.queue(name).root in self._roots
            if there and key not in self._tried:  # others came before it
                self._pending.end_trial(key)
                self._freed.add(name)
        return self._freed

    def more(self) -> bool:
        """Return whether there are heads that were not tried."""
        return bool(self._heads())

    @property
    def held(self) -> bool:
        """Whether anybody waits for the pods of others."""
        return bool(self._held)

    def _heads(self) -> list[str]:
        found = map(self._pending.head, self._ready())
        return [key for key in found if key is not None and key not in self._held]

    def _ready(self) -> list[str]:
        return [name for name in self._pending.ready() if self._tree.has(name)]

    def _in_flight(self, roots: set[Node]) -> list[str]:
        """Return who waits for victims: what these leave is theirs before anybody else's."""
        found = []
        for key in list(self._pending.preempting()):
            name = self._pending.cluster_queue_of(key) or ""
            if not self._tree.has(name):
                continue
            queue = self._snapshot.cluster_queues[name]
            by_room = self._room is not None and requires_room(queue, self._options)
            if not by_room and self._tree.queue(name).root not in roots:
                continue  # nodes are shared by all trees
            strict = queue.strategy == "StrictFIFO"
            if not strict or self._pending.head(name, blocked=True) == key:
                found.append(key)
        return found

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

    def _round(self, keys: Iterable[str]) -> Iterator[Outcome]:
        judged = [(self._nominator.nominate(key), self._seen(key)) for key in keys]
        judged.sort(key=lambda each: cycle_order(each[0].borrow, self._pending.order(each[0].key)))
        for nomination, seen in judged:
            current = nomination
            # Usage only grows in a cycle: who found nothing before finds nothing now.
            hopeful = nomination.fits or nomination.plan is not None
            if hopeful and seen != self._seen(nomination.key):
                current = self._nominator.nominate(nomination.key)
            yield self._serve(current)

    def _seen(self, key: str) -> tuple[int, int]:
        """Return what a judgement was based on, of quota in its tree and of room anywhere."""
        name = self._pending.cluster_queue_of(key) or ""
        root = self._tree.queue(name).root if self._tree.has(name) else None
        served = self._served.get(root, 0) if root else 0
        queue = self._snapshot.cluster_queues.get(name)
        if self._room is None or queue is None or not requires_room(queue, self._options):
            return served, 0
        return served, self._room.version

    def _serve(self, nomination: Nomination) -> Outcome:
        key = nomination.key
        self._tried.add(key)
        before = self._pending.end_trial(key)
        outcome = self._outcome(nomination)
        admitted = isinstance(outcome, Admit)
        if before and not admitted and before.exceeds(self._pending.trials().get(key)):
            self._freed.add(before.cluster_queue)
        return outcome

    def _outcome(self, nomination: Nomination) -> Outcome:
        key = nomination.key
        if nomination.fits:
            waits = self._unready.holds(self._snapshot.workloads[key])
            self._take(nomination, nomination.proposal.usage, on_trial=bool(waits))
            return self._hold(key, waits) if waits else self._admit(nomination)
        self._leave_alone(nomination)
        plan = nomination.plan
        if plan is None:
            self._reserve(nomination)
            self._pending.preempts(key, ())
            return Wait(key, nomination.reason, nomination.message)
        self._take(nomination, nomination.proposal.usage, on_trial=True)
        self._keep_room(nomination)
        self._nominator.leaving.choose(victim.workload for victim in plan.victims)
        self._pending.preempts(key, nomination.making_way)
        if plan.victims:
            return Preempt(key, plan.victims, nomination.message)
        return Wait(key, Unadmitted.WAITING_FOR_PREEMPTED, nomination.message)

    def _admit(self, nomination: Nomination) -> Admit:
        key = nomination.key
        workload = self._snapshot.workloads[key]
        self._unready.admit(workload)
        self._pending.remove(key)
        self._pending.stays(key)
        self._nominator.victims.discard(key)
        if self._room is not None:
            self._room.take(workload, nomination.proposal.assignments)
        admission = Admission(nomination.queue.name, nomination.proposal.assignments)
        return Admit(key, admission, borrows=nomination.borrow > 0)

    def _hold(self, key: str, waits: str) -> Wait:
        """Leave a head where it is: it is the next one as soon as those before it are ready."""
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

    def _reserve(self, nomination: Nomination) -> None:
        """Keep quota for a head that bars the way and could not take it back from others."""
        queue = nomination.queue
        sure = queue.preemption.reclaim_within_cohort == "Any"
        if queue.strategy == "StrictFIFO" and nomination.could_preempt and not sure:
            self._take(nomination, dict(_within_reach(nomination)), on_trial=True)

    def _keep_room(self, nomination: Nomination) -> None:
        """Give nobody else the room of who waits for victims, where its queue asks for room."""
        if self._room is not None and requires_room(nomination.queue, self._options):
            workload = self._snapshot.workloads[nomination.key]
            given = nomination.proposal.assignments
            self._room.take(workload, given, without=nomination.making_way)

    def _take(
        self, nomination: Nomination, usage: Mapping[FlavorResource, int], *, on_trial: bool = False
    ) -> None:
        if on_trial:
            self._pending.take_on_trial(nomination.key, usage)
        root = nomination.node.root
        self._served[root] = self._served.get(root, 0) + 1
        self._tree.take(nomination.node, usage)


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
