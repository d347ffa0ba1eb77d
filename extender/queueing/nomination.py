"""What the usage as it is means for one head: it fits, others could go for it, or why not."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from extender.api.queue_reasons import Unadmitted
from extender.queueing import preemption
from extender.queueing.active import Activity, activity
from extender.queueing.flavors import Mode, Proposal, Quotas, assign, counts
from extender.queueing.holders import Leaving
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.preemption import Plan, Preemptor
from extender.queueing.quota import Node, QuotaTree, level
from extender.queueing.room import Room, requires_room
from extender.queueing.standing import is_welcome
from extender.state.queues.records import ClusterQueueInfo, FlavorResource
from extender.state.queues.snapshot import QueueSnapshot


@dataclass(frozen=True, slots=True)
class Nomination:
    """A head, and what can be done for it."""

    key: str
    queue: ClusterQueueInfo
    node: Node
    proposal: Proposal
    plan: Plan | None = None
    unwelcome: bool = False

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
        for key in pending.preempting():
            self.leaving.choose(pending.victims(key))

    def nominate(self, key: str) -> Nomination:
        """Return what can be done for a workload that waits."""
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
        return self._judge(Preemptor(workload, queue, node, self._options))

    def _activity(self, queue: ClusterQueueInfo) -> Activity:
        found = self._active.get(queue.name)
        if found is None:
            found = self._active[queue.name] = activity(queue, self._snapshot)
        return found

    def _judge(self, head: Preemptor) -> Nomination:
        asked = counts(head.workload)
        full = self._attempt(head, asked)
        if full.fits or full.plan is not None:
            return full
        return self._reduced(head, asked) or full

    def _attempt(self, head: Preemptor, asked: Mapping[str, int]) -> Nomination:
        quotas = self._quotas(head)
        proposal = assign(head.workload, asked, queue=head.queue, quotas=quotas)
        plan = None
        # Nobody has to go because another flavor, which has quota, has no room.
        if Mode.NO_CANDIDATES < proposal.mode < Mode.FIT and not proposal.lacks_room:
            plan = self._find(head, proposal.usage, proposal.short)
        if plan is not None and quotas.room is not None:
            leave = {*plan.leaving, *(each.workload for each in plan.victims)}
            text = quotas.room.lack(head.workload, proposal.assignments, without=leave)
            if text is not None:  # who would go would go for nothing
                plan, proposal = None, proposal.roomless(f"quota if others go; {text}")
        return Nomination(head.workload.key, head.queue, head.node, proposal, plan)

    def _quotas(self, preemptor: Preemptor) -> Quotas:
        one = all(len(group.flavors) == 1 for group in preemptor.queue.resource_groups)

        def oracle(what: FlavorResource, amount: int) -> tuple[Mode, int] | None:
            # With one flavor there is nothing to choose: the question is asked for all at once.
            return None if one else self._possible(preemptor, what, amount)

        room = self._room if requires_room(preemptor.queue, self._options) else None
        return Quotas(self._tree, preemptor.node, self._snapshot, self._options, oracle, room)

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
    ) -> Plan | None:
        return preemption.find(preemptor, request, short, tree=self._tree, leaving=self.leaving)

    def _reduced(self, head: Preemptor, asked: Mapping[str, int]) -> Nomination | None:
        """Return the most pods that can be had, if fewer than all are welcome."""
        pod_sets = head.workload.pod_sets
        part = next((each for each in pod_sets if each.min_count is not None), None)
        if part is None or part.min_count is None or part.min_count >= asked[part.name]:
            return None
        best: Nomination | None = None
        low, high = part.min_count, asked[part.name] - 1
        while low <= high:
            middle = (low + high + 1) // 2
            found = self._attempt(head, {**asked, part.name: middle})
            if found.fits or found.plan is not None:
                best, low = found, middle + 1
            else:
                high = middle - 1
        return best


def _refused(reason: Unadmitted, message: str) -> Proposal:
    return Proposal(Mode.NO_FIT, reason=reason, message=message)
