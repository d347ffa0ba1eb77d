"""What the usage as it is means for one head: it fits, others could go for it, or why not."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from extender.api.queue_reasons import Unadmitted
from extender.queueing import preemption
from extender.queueing.active import Activity, activity
from extender.queueing.flavors import Mode, Proposal, Quotas, assigning, counts
from extender.queueing.leaving import Leaving
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.preemption import Plan, Preemptor
from extender.queueing.quota import Node, QuotaTree, level
from extender.queueing.room import Room, requires_room
from extender.queueing.standing import is_welcome
from extender.state.queues.records import ClusterQueueInfo, FlavorResource
from extender.state.queues.snapshot import QueueSnapshot
from extender.steps import Steps, at_once

_TRIES: Final = 8
"""How many sets of victims are looked at because those before them give no room, at most."""
_MORE_TRIES: Final = 32
"""How many of these in a cycle: each asks all nodes."""
_BEGINNINGS: Final = 32
"""How often one judgement begins because the state changes in its pauses, at most."""
_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Nomination:
    """A head, and what can be done for it."""

    key: str
    queue: ClusterQueueInfo
    node: Node
    proposal: Proposal
    plan: Plan | None = None
    unwelcome: bool = False
    making_way: frozenset[str] = _NOBODY
    """Whose room it counts on: they have to go, leave already, or have pods that still end."""

    @property
    def fits(self) -> bool:
        """Whether it can have quota at once."""
        return self.proposal.mode is Mode.FIT

    @property
    def could_preempt(self) -> bool:
        """Whether it is within what its queue could have, and only others are in the way."""
        return Mode.NO_FIT < self.proposal.mode < Mode.FIT

    @property
    def borrow(self) -> int:
        """How far up the tree it has to borrow, once those are gone that have to go."""
        return self.proposal.borrow if self.plan is None else self.plan.borrow

    @property
    def reason(self) -> Unadmitted:
        """Why it has to wait."""
        return self.proposal.reason

    @property
    def message(self) -> str:
        """Say so."""
        plan = self.plan
        if plan is None:
            return self.proposal.message
        number = len(plan.victims) + len(plan.leaving)
        return f"{self.proposal.message}. Pending the preemption of {number} workload(s)"


class Nominator:
    """Judges heads; what it looks up once holds for the cycle."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        pending: PendingQueues,
        *,
        tree: QuotaTree,
        options: Options,
        room: Room | None = None,
    ) -> None:
        self._snapshot, self._pending, self._tree = snapshot, pending, tree
        self._options, self._room = options, room
        self.leaving = Leaving(snapshot, tree.holders)
        self._active: dict[str, Activity] = {}
        self._more_tries = _MORE_TRIES
        self.victims = {each for key in pending.preempting() for each in pending.victims(key)}
        """Whoever was made to go: one preemptor may have to do with what those of another leave."""
        self.leaving.choose(self.victims)
        self._admitted: set[str] = set()

    def look_again(self) -> None:
        """Take note that the state has changed."""
        self.leaving.look_again()

    def admit(self, key: str) -> None:
        """Take note that a workload was admitted: it makes way for none of the same cycle."""
        self.victims.discard(key)
        self._admitted.add(key)

    def nominate(self, key: str) -> Nomination:
        """Return what can be done for a workload that waits."""
        return at_once(self.nominating(key))

    def judging(self, key: str, *, state: Callable[[], object]) -> Steps[Nomination | None]:
        """Return what can be done for a workload that waits, with pauses where that takes long.

        It is judged on one state: where `state` is another one after a pause the judgement begins
        again, and what was asked of the room before is answered at once. None where it has begun
        too often, so that there is neither a yes nor a no, or where the workload waits no more.

        The caller looks at the state again in each pause, unless the room is `asking`.
        """
        if self._room is not None:
            self._room.judge()
        for _ in range(_BEGINNINGS):
            yield from self._prepare(key)
            name = self._pending.cluster_queue_of(key)
            if name is None or not self._tree.has(name):
                break
            found = yield from self._go_on(key, state)
            if found is not None:
                return found
        return None

    def _prepare(self, key: str) -> Steps[None]:
        queue = self._snapshot.cluster_queues.get(self._pending.cluster_queue_of(key) or "")
        if queue is not None and self._room is not None and requires_room(queue, self._options):
            yield from self._room.prepare()

    def _go_on(self, key: str, state: Callable[[], object]) -> Steps[Nomination | None]:
        """Judge as long as the state is the same; a question is answered to its end in any case."""
        before = state()
        with closing(self.nominating(key)) as steps:
            while (self._room is not None and self._room.asking) or state() == before:
                mark = self._tree.mark()
                try:
                    next(steps)
                except StopIteration as end:
                    found: Nomination = end.value
                    return found
                except Exception:
                    self._tree.undo(mark)
                    raise
                yield
        return None

    def nominating(self, key: str) -> Steps[Nomination]:
        """Do what `nominate` does, with a pause wherever a question for room has one."""
        workload = self._snapshot.workloads[key]
        name = self._pending.cluster_queue_of(key)
        assert name is not None
        queue, node = self._snapshot.cluster_queues[name], self._tree.queue(name)
        active = self._activity(queue)
        if not active.active:
            return Nomination(key, queue, node, _refused(Unadmitted.SUSPENDED, active.message))
        if not is_welcome(workload.meta.namespace, queue, self._snapshot):
            text = f"namespace {workload.meta.namespace} doesn't match ClusterQueue selector"
            proposal = _refused(Unadmitted.MISCONFIGURED, text)
            return Nomination(key, queue, node, proposal, unwelcome=True)
        for each in workload.pod_sets:
            if each.fault:
                text = f"no pod of pod set {each.name} could be made: {each.fault}"
                return Nomination(key, queue, node, _refused(Unadmitted.MISCONFIGURED, text))
        return (yield from self._judge(Preemptor(workload, queue, node, self._options)))

    def _activity(self, queue: ClusterQueueInfo) -> Activity:
        found = self._active.get(queue.name)
        if found is None:
            found = self._active[queue.name] = activity(queue, self._snapshot)
        return found

    def _judge(self, head: Preemptor) -> Steps[Nomination]:
        asked = counts(head.workload)
        full = yield from self._attempt(head, asked)
        if full.fits or full.plan is not None:
            return full
        return (yield from self._reduced(head, asked)) or full

    def _attempt(self, head: Preemptor, asked: Mapping[str, int]) -> Steps[Nomination]:
        found = yield from self._assigned(head, asked)
        if found.fits or found.plan is not None:
            return found
        return (yield from self._awaiting(head, asked, found.proposal)) or found

    def _assigned(self, head: Preemptor, asked: Mapping[str, int]) -> Steps[Nomination]:
        """Return the first flavors that do; some have no room even when others have left them."""
        quotas, refused = self._quotas(head), None
        while True:
            proposal = yield from assigning(head.workload, asked, queue=head.queue, quotas=quotas)
            found = Nomination(head.workload.key, head.queue, head.node, proposal)
            # Nobody has to go because another flavor, which has quota, has no room.
            passed_over = any(quotas.has_no_room(lack) for lack in proposal.lacks)
            if not Mode.NO_CANDIDATES < proposal.mode < Mode.FIT or passed_over:
                return found if found.fits else refused or found
            plan = yield from self._plan(head, proposal)
            if not isinstance(plan, str):
                away = self._away(head, plan) if plan is not None else _NOBODY
                found = replace(found, plan=plan, making_way=away)
                return found if plan is not None else refused or found
            text = f"quota if others go; {plan}"
            refused = refused or replace(found, proposal=proposal.roomless(text))
            quotas = quotas.besides({flavor for flavor, _ in proposal.short}, text)

    def _plan(self, head: Preemptor, proposal: Proposal) -> Steps[Plan | str | None]:
        """Return who has to go; None if nobody can be made to, a text if it would be for nothing.

        Quota says who is asked first. Where they give no room, others are: without those whose
        leaving does not help.
        """
        room, text = self._room_for(head), None
        spared: frozenset[str] = frozenset()
        for _ in range(_TRIES):
            plan = self._find(head, proposal.usage, proposal.short, spared=spared)
            if plan is None or room is None:
                return plan or text
            away = self._away(head, plan)
            lack = yield from room.lack(head.workload, proposal.assignments, without=away)
            if lack is None:
                return plan
            text = text or lack
            if not plan.victims or not self._more_tries:
                break
            self._more_tries -= 1
            gains = yield from room.gains(head.workload, proposal.assignments, without=away)
            spared |= _useless([victim.workload for victim in plan.victims], gains)
        return text

    def _away(self, head: Preemptor, plan: Plan | None) -> frozenset[str]:
        """Return whose pods are gone when a plan is carried out, earlier victims among them."""
        waits = bool(self._pending.victims(head.workload.key))
        victims = frozenset(self.victims if waits else ())
        if plan is None:
            return victims
        return victims.union(plan.leaving, (each.workload for each in plan.victims))

    def _awaiting(
        self, head: Preemptor, asked: Mapping[str, int], refused: Proposal
    ) -> Steps[Nomination | None]:
        """Return what it gets once the pods of victims have ended that have no quota any more."""
        away = self._away(head, None)
        if not away or not refused.lacks_room:
            return None
        quotas = self._quotas(head, without=away)
        proposal = yield from assigning(head.workload, asked, queue=head.queue, quotas=quotas)
        if proposal.mode is not Mode.FIT:
            return None
        key, plan = head.workload.key, Plan((), tuple(sorted(away)), proposal.borrow)
        proposal = proposal.roomless(refused.message)
        return Nomination(key, head.queue, head.node, proposal, plan, making_way=away)

    def _room_for(self, head: Preemptor) -> Room | None:
        return self._room if requires_room(head.queue, self._options) else None

    def _quotas(self, preemptor: Preemptor, *, without: Collection[str] = ()) -> Quotas:
        one = all(len(group.flavors) == 1 for group in preemptor.queue.resource_groups)

        def oracle(what: FlavorResource, amount: int) -> tuple[Mode, int] | None:
            # With one flavor there is nothing to choose: the question is asked for all at once.
            return None if one else self._possible(preemptor, what, amount)

        room = self._room_for(preemptor)
        lack = partial(room.lack, without=without) if room is not None else None
        return Quotas(self._tree, preemptor.node, self._snapshot, self._options, oracle, lack)

    def _possible(
        self, preemptor: Preemptor, what: FlavorResource, amount: int
    ) -> tuple[Mode, int]:
        plan = self._find(preemptor, {what: amount}, {what})
        if plan is None:
            return Mode.NO_CANDIDATES, level(preemptor.node, what, amount)[0]
        return Mode.RECLAIM if plan.only_others else Mode.PREEMPT, plan.borrow

    def _find(
        self,
        preemptor: Preemptor,
        request: Mapping[FlavorResource, int],
        short: Collection[FlavorResource],
        *,
        spared: frozenset[str] = _NOBODY,
    ) -> Plan | None:
        spared = spared | self._admitted
        return preemption.find(
            preemptor, request, short, tree=self._tree, leaving=self.leaving, spared=spared
        )

    def _reduced(self, head: Preemptor, asked: Mapping[str, int]) -> Steps[Nomination | None]:
        """Return the most pods that can be had, if fewer than all are welcome."""
        pod_sets = head.workload.pod_sets
        part = next((each for each in pod_sets if each.min_count is not None), None)
        if part is None or part.min_count is None or part.min_count >= asked[part.name]:
            return None
        best: Nomination | None = None
        low, high = part.min_count, asked[part.name] - 1
        while low <= high:
            middle = (low + high + 1) // 2
            found = yield from self._attempt(head, {**asked, part.name: middle})
            if found.fits or found.plan is not None:
                best, low = found, middle + 1
            else:
                high = middle - 1
        return best


def _useless(victims: Sequence[str], gains: Mapping[str, int]) -> frozenset[str]:
    """Return the victims that give no room, or else the one that gives least."""
    nothing = frozenset(victim for victim in victims if not gains.get(victim))
    return nothing or frozenset([min(victims, key=lambda victim: gains[victim])])


def _refused(reason: Unadmitted, message: str) -> Proposal:
    return Proposal(Mode.NO_FIT, reason=reason, message=message)
