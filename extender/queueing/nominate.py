"""Judges one head on the current usage: it fits, victims could make it fit, or why not."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from extender.api.reasons import Unadmitted
from extender.queueing import preempt
from extender.queueing.flavors import Mode, Proposal, Quotas, assigning, counts
from extender.queueing.pending import Cause, PendingQueues
from extender.queueing.preempt import ForRoom, Leaving, Plan, Preemptor, Spared
from extender.queueing.quota import QuotaNode, QuotaTree, level
from extender.queueing.rules import AdmissionRules, preempts_for_room, provisions
from extender.queueing.status import (
    Activity,
    activity,
    namespace_mismatch,
    pod_set_fault,
    selects_namespace,
)
from extender.room.nodes import NodeRoom
from extender.state.queue.records import ClusterQueueInfo, FlavorResource
from extender.state.queue.view import QueueView
from extender.steps import Steps

_TRIES: Final = 32
"""If the first victims give no room, a cycle tries at most this many other sets, and at most a
quarter of them for one head. Also the most times that a judgement is begun, because the state may
change in its pauses."""
_NONE: Final[frozenset[str]] = frozenset()
_BEHIND: Final = "another workload of its ClusterQueue awaits nodes"
_UNSERVED: Final = (
    "no autoscaler can be asked for nodes: the API server serves neither CapacityBuffers nor "
    "ProvisioningRequests"
)


@dataclass(frozen=True, slots=True)
class Nomination:
    """A judged head."""

    key: str
    queue: ClusterQueueInfo
    node: QuotaNode
    proposal: Proposal
    plan: Plan | None = None
    namespace_mismatch: bool = False
    gated: bool = False
    """True if it would preempt others if its preemption gates were open."""
    victims: frozenset[str] = _NONE
    """Workloads whose room it counts on: to be evicted, leaving, or with pods that still end."""
    reserves_only: bool = False
    """True if it is to hold quota while it awaits admission checks, or nodes."""

    @property
    def fits(self) -> bool:
        """Return whether it can be admitted at once."""
        return self.proposal.mode is Mode.FIT

    @property
    def could_preempt(self) -> bool:
        """Return whether only usage by others keeps its ClusterQueue from having the quota."""
        return Mode.NO_FIT < self.proposal.mode < Mode.FIT

    @property
    def borrow(self) -> int:
        """Return the cohort level up to which it borrows after its preemption."""
        return self.proposal.borrow if self.plan is None else self.plan.borrow

    @property
    def cause(self) -> Cause:
        """Return the cause, which has to change before the workload is tried again."""
        if self.namespace_mismatch:
            return Cause.NAMESPACE_MISMATCH
        return Cause.NO_CAPACITY if self.proposal.lacks_room else Cause.NO_QUOTA

    @property
    def message(self) -> str:
        """Return the reason why it is not admitted, as a sentence."""
        plan = self.plan
        if plan is None and self.gated:
            return f"{self.proposal.message}; its preemption gates keep it from preempting others"
        if plan is None:
            return self.proposal.message
        number = len(plan.victims) + len(plan.leaving)
        return f"{self.proposal.message}. Pending the preemption of {number} workload(s)"


class Nominator:
    """Judges the heads of one cycle."""

    def __init__(
        self,
        view: QueueView,
        pending: PendingQueues,
        *,
        tree: QuotaTree,
        rules: AdmissionRules,
        now: float,
    ) -> None:
        self._view, self._pending, self._tree, self._now = view, pending, tree, now
        self._rules, self._room = rules, rules.room
        self.leaving = Leaving(view, tree.holders)
        self._active: dict[str, Activity] = {}
        self._more_tries = _TRIES
        self.victims = pending.preemptors.all_victims()
        """Victims of all preemptors: one may fit into what the victims of another release."""
        self.leaving.choose(self.victims)
        self._admitted: set[str] = set()
        self._asking: set[str] = set()
        """The ClusterQueues in which a workload holds quota since this cycle, and awaits nodes."""
        self._gated: set[str] = set()
        """The workloads that have victims, and closed preemption gates."""

    def admit(self, nomination: Nomination) -> None:
        """Protect an admitted workload from preemption in the same cycle."""
        self.victims.discard(nomination.key)
        self._admitted.add(nomination.key)
        if nomination.reserves_only:
            self._asking.add(nomination.queue.name)

    def choose(self, victims: Collection[str]) -> None:
        """Count victims as leaving: their preemptor may be judged again in the same cycle."""
        self.victims.update(victims)
        self.leaving.choose(victims)

    def judging(self, key: str, *, state: Callable[[], object]) -> Steps[Nomination | None]:
        """Return what can be done for a workload that waits, with pauses where that takes long.

        It is judged on one state: where `state` is another one after a pause the judgement begins
        again, and what was asked of the room before is answered at once. None where it has begun
        too often, or where the workload waits no more.

        The caller looks at the state again in each pause, unless the room is `asking`.
        """
        if self._room is not None:
            self._room.judge()
        for tried in range(1 + _TRIES):
            queue = self._view.cluster_queues.get(self._pending.cluster_queue_of(key) or "")
            room = self._rules.room_with_quota(queue)
            if tried and room is not None:  # the first try may not need the nodes
                yield from room.prepare()
            name = self._pending.cluster_queue_of(key)
            if name is None or not self._tree.has(name):
                break
            found = yield from self._judge_on_one_state(key, state)
            if found is not None:
                return found
        return None

    def _judge_on_one_state(
        self, key: str, state: Callable[[], object]
    ) -> Steps[Nomination | None]:
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
        """Return the judgement of a workload, with a pause wherever a question of room has one."""
        workload = self._view.workloads[key]
        name = self._pending.cluster_queue_of(key)
        assert name is not None
        queue, node = self._view.cluster_queues[name], self._tree.queue(name)
        active = self._active.get(queue.name)
        if active is None:
            active = self._active[queue.name] = activity(queue, self._view)
        if not active.active:
            return Nomination(key, queue, node, _refused(Unadmitted.SUSPENDED, active.message))
        if not selects_namespace(queue, workload.meta.namespace, self._view):
            text = namespace_mismatch(workload.meta.namespace, queue)
            proposal = _refused(Unadmitted.MISCONFIGURED, text)
            return Nomination(key, queue, node, proposal, namespace_mismatch=True)
        text = pod_set_fault(workload, self._rules.options)
        if text:
            return Nomination(key, queue, node, _refused(Unadmitted.MISCONFIGURED, text))
        return (yield from self._judge(Preemptor(workload, queue, node, self._rules.options)))

    def _judge(self, head: Preemptor) -> Steps[Nomination]:
        """Judge by quota and room; where only nodes are missing that can be asked for, by quota."""
        if head.queue.admission_checks:
            found = yield from self._judge_with(replace(head, by_room=False))
            return replace(found, reserves_only=True)
        found = yield from self._judge_with(head)
        lacks_nodes = found.proposal.lacks_room and provisions(head.queue, self._rules.options)
        if found.fits or found.plan is not None or not lacks_nodes:
            return found
        if not self._rules.nodes_can_come() or self._is_asking(head.queue.name):
            why = _BEHIND if self._rules.nodes_can_come() else _UNSERVED
            text = f"{found.proposal.message}; {why}"
            return replace(found, proposal=replace(found.proposal, message=text))
        by_quota = yield from self._judge_with(replace(head, by_room=False))
        hopeful = by_quota.fits or by_quota.plan is not None
        return replace(by_quota, reserves_only=True) if hopeful else found

    def _is_asking(self, queue: str) -> bool:
        """Return whether a workload of a ClusterQueue holds quota and awaits nodes.

        Autoscalers serve one request after the other, and two that are half served would keep nodes
        from each other.
        """
        others = self._view.reserved_only
        return queue in self._asking or not others.isdisjoint(self._view.reserving(queue))

    def _room_of(self, head: Preemptor) -> NodeRoom | None:
        return self._rules.room_for(head.queue) if head.by_room else None

    def _judge_with(self, head: Preemptor) -> Steps[Nomination]:
        asked = self._asked(head)
        self._gated.discard(head.workload.key)
        full = yield from self._attempt(head, asked)
        if full.fits or full.plan is not None:
            return full
        reduced = yield from self._reduced(head, asked)
        return reduced or replace(full, gated=head.workload.key in self._gated)

    def _asked(self, head: Preemptor) -> dict[str, int]:
        """Return how many pods to ask for: where fewer will do, no more than victims go for.

        With more, a workload could borrow what was released for fewer, and another one would
        reclaim that at once: the two would evict each other forever.
        """
        asked = counts(head.workload)
        chosen = self._pending.preemptors.chosen_for(head.workload.key)
        for each in head.workload.pod_sets:
            if each.min_count is not None and each.name in chosen:
                asked[each.name] = min(asked[each.name], max(each.min_count, chosen[each.name]))
        return asked

    def _attempt(self, head: Preemptor, asked: Mapping[str, int]) -> Steps[Nomination]:
        found = yield from self._assigned(head, asked)
        if found.fits or found.plan is not None:
            return found
        awaiting = yield from self._awaiting(head, asked, found.proposal)
        return awaiting or (yield from self._making_room(head, asked, found.proposal)) or found

    def _assigned(self, head: Preemptor, asked: Mapping[str, int]) -> Steps[Nomination]:
        """Return the first suitable flavors; some have no room even without their victims."""
        quotas, refused = self._quotas(head), None
        while True:
            proposal = yield from assigning(head.workload, asked, queue=head.queue, quotas=quotas)
            found = Nomination(head.workload.key, head.queue, head.node, proposal)
            # No victims for this flavor: another one has quota, and lacks only room.
            passed_over = any(quotas.has_no_room(lack) for lack in proposal.lacks)
            if found.fits and proposal.by_topology and (room := self._room_of(head)):
                located = room.located(head.workload, proposal.assignments)
                return replace(found, proposal=replace(proposal, assignments=located))
            if found.fits:
                return found
            if proposal.mode <= Mode.NO_CANDIDATES or passed_over:
                return refused or found
            plan = yield from self._plan(head, proposal)
            if plan is None:
                return refused or found
            if isinstance(plan, Plan):
                return replace(found, plan=plan, victims=self._away(head, plan))
            if isinstance(plan, Spared):
                text = plan.text
                lacking = replace(proposal, message=f"{proposal.message}; {text}")
            else:
                text = f"quota after preemption; {plan}"
                lacking = proposal.without_capacity(text)
            refused = refused or replace(found, proposal=lacking)
            quotas = quotas.passing_over({flavor for flavor, _ in proposal.short}, text)

    def _plan(self, head: Preemptor, proposal: Proposal) -> Steps[Plan | Spared | str | None]:
        """Return a plan; None where there are no victims, SPARED where the head spares them.

        A text says why they would not give room.

        Quota chooses the first victims. Where these give no room, others are tried: without those
        whose leaving does not help.
        """
        room, text = self._room_of(head), None
        first: Plan | None = None
        spared: Spared | None = None
        protected: frozenset[str] = frozenset()
        for _ in range(_TRIES // 4):
            plan = self._find(head, proposal.usage, proposal.short, protected=protected)
            if room is None:
                return plan
            if plan is None or isinstance(plan, Spared):
                spared = plan
                break
            first = first or plan
            away = self._away(head, plan)
            lack = yield from room.lack(head.workload, proposal.assignments, without=away)
            if lack is None:
                return plan
            text = text or lack
            if not plan.victims or not self._more_tries:
                break
            self._more_tries -= 1
            gains = yield from room.gains(head.workload, proposal.assignments, without=away)
            protected |= _useless([victim.workload for victim in plan.victims], gains)
            protected |= frozenset(self._returning(head))
        others = (yield from self._for_room(head)) if first is not None else None
        if first is None or others is None:
            return text or spared
        given, usage = proposal.assignments, proposal.usage
        return (yield from others.plan_with_quota(given, usage, first)) or text

    def _returning(self, head: Preemptor) -> Iterator[str]:
        """Yield workloads of no lower priority that may preempt for room.

        Quota alone may choose them. Chosen for their room they would take it back from the head.
        """
        for node in head.node.root.queues:
            queue = self._view.cluster_queues[node.name]
            if not preempts_for_room(queue, self._rules.options, self._rules.flavors):
                continue
            for key, each in self._tree.holders.held_in(node.name).holders.items():
                if each.workload.priority >= head.workload.priority:
                    yield key

    def _away(self, head: Preemptor, plan: Plan | None) -> frozenset[str]:
        """Return the workloads whose pods are gone after a plan, earlier victims included."""
        waits = bool(self._pending.preemptors.victims(head.workload.key))
        victims = frozenset(self.victims if waits else ())
        if plan is None:
            return victims
        return victims.union(plan.leaving, (each.workload for each in plan.victims))

    def _awaiting(
        self, head: Preemptor, asked: Mapping[str, int], refused: Proposal
    ) -> Steps[Nomination | None]:
        """Return what fits once the pods of victims have ended that have no quota any more."""
        away = self._away(head, None)
        if not away or not refused.lacks_room:
            return None
        quotas = self._quotas(head, without=away)
        proposal = yield from assigning(head.workload, asked, queue=head.queue, quotas=quotas)
        if proposal.mode is not Mode.FIT:
            return None
        key, plan = head.workload.key, Plan((), tuple(sorted(away)), proposal.borrow)
        proposal = proposal.without_capacity(refused.message)
        return Nomination(key, head.queue, head.node, proposal, plan, victims=away)

    def _making_room(
        self, head: Preemptor, asked: Mapping[str, int], refused: Proposal
    ) -> Steps[Nomination | None]:
        """Return what fits once workloads of lower priority are gone, in the first such flavors."""
        others = (yield from self._for_room(head)) if refused.lacks_room else None
        if others is None:
            return None
        quotas = replace(self._quotas(head), lack=others.lack)
        proposal = yield from assigning(head.workload, asked, queue=head.queue, quotas=quotas)
        if proposal.mode is not Mode.FIT:
            return None
        plan = yield from others.plan(proposal.assignments, proposal.borrow)
        if plan is None:
            return None
        proposal = proposal.without_capacity(refused.message)
        away = self._away(head, plan)
        return Nomination(head.workload.key, head.queue, head.node, proposal, plan, victims=away)

    def _for_room(self, head: Preemptor) -> Steps[ForRoom | None]:
        """Return the search for victims that give room; None where there are none."""
        room, rules = self._room_of(head), self._rules
        if room is None or not preempts_for_room(head.queue, rules.options, rules.flavors):
            return None
        found = ForRoom(
            head,
            room,
            view=self._view,
            tree=self._tree,
            leaving=self.leaving,
            away=self._away(head, None),
            protected=self._admitted,
            may_choose=self._pending.preemptors.may_choose_for_room(head.workload.key, self._now),
        )
        yield from found.begin()
        if not found.is_hopeless and head.workload.closed_gates:
            self._gated.add(head.workload.key)
            return None
        return None if found.is_hopeless else found

    def _quotas(self, preemptor: Preemptor, *, without: Collection[str] = ()) -> Quotas:
        one = all(len(group.flavors) == 1 for group in preemptor.queue.resource_groups)

        def oracle(what: FlavorResource, amount: int) -> tuple[Mode, int] | None:
            # With one flavor there is nothing to choose: one question covers all resources.
            return None if one else self._possible(preemptor, what, amount)

        room = self._room_of(preemptor)
        lack = partial(room.lack, without=without) if room is not None else None
        return Quotas(self._tree, preemptor.node, self._view, self._rules.options, oracle, lack)

    def _possible(
        self, preemptor: Preemptor, what: FlavorResource, amount: int
    ) -> tuple[Mode, int]:
        plan = self._find(preemptor, {what: amount}, {what})
        if not isinstance(plan, Plan):
            return Mode.NO_CANDIDATES, level(preemptor.node, what, amount)[0]
        return Mode.RECLAIM if plan.only_others else Mode.PREEMPT, plan.borrow

    def _find(
        self,
        preemptor: Preemptor,
        request: Mapping[FlavorResource, int],
        short: Collection[FlavorResource],
        *,
        protected: frozenset[str] = _NONE,
    ) -> Plan | Spared | None:
        protected = protected | self._admitted
        found = preempt.find(
            preemptor, request, short, tree=self._tree, leaving=self.leaving, protected=protected
        )
        if isinstance(found, Plan) and found.victims and preemptor.workload.closed_gates:
            self._gated.add(preemptor.workload.key)
            return None
        return found

    def _reduced(self, head: Preemptor, asked: Mapping[str, int]) -> Steps[Nomination | None]:
        """Return the nomination with most pods, if the workload accepts fewer than all."""
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
    """Return the victims that give no room, or else the one that gives the least."""
    nothing = frozenset(victim for victim in victims if not gains.get(victim))
    return nothing or frozenset([min(victims, key=lambda victim: gains[victim])])


def _refused(reason: Unadmitted, message: str) -> Proposal:
    return Proposal(Mode.NO_FIT, reason=reason, message=message)
