"""The outlook of a workload without quota: why it waits, what it lacks, and which hold that."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from extender.api.explanations import Holder, WaitingFor
from extender.api.reasons import Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.explain.facts import NAMED, Facts, job_of, moment
from extender.queueing import aging
from extender.queueing.flavors import FlavorLack, Mode, Proposal, Quotas, assigning, counts
from extender.queueing.lifecycle import kept_text
from extender.queueing.nominate import Nomination, Nominator
from extender.queueing.quota import QuotaNode
from extender.queueing.rules import Unready
from extender.queueing.status import (
    Absent,
    Queued,
    activity,
    namespace_mismatch,
    pod_set_fault,
    selects_namespace,
    standing,
)
from extender.resources.quantity import exact
from extender.state.queue.records import ClusterQueueInfo, FlavorResource, WorkloadInfo
from extender.steps import Steps, at_once

_BY_NODES: Final = (
    Unadmitted.WAITING_FOR_ROOM,
    Unadmitted.TOPOLOGY_PLACEMENT_FAILED,
    Unadmitted.WAITING_FOR_PREEMPTED,
)
"""Reasons of a workload for which there is quota."""
_IN_NO_QUEUE: Final = "It is in no queue yet"
_Held = tuple[int, WorkloadInfo, str]
"""The amount, the workload that holds it, and its ClusterQueue."""
_Named = tuple[list[Holder], int]
"""The holders that are named, and how many are not."""


class Lacks:
    """The quota that workloads lack, by the same facts; equal pods are judged once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.unready = Unready(facts.queues, facts.rules.options)
        self._proposals: dict[object, Proposal] = {}
        self._named: dict[tuple[FlavorResource, tuple[str, ...]], _Named] = {}

    def proposal(self, workload: WorkloadInfo, queue: ClusterQueueInfo) -> Proposal:
        """Return the flavors that there are for a workload now, without preemption."""
        left = counts(workload)
        equals = (queue.name, *((x.name, left[x.name], x.shape) for x in workload.pod_sets))
        found = self._proposals.get(equals)
        if found is None:
            facts = self._facts
            none = Mode.NO_CANDIDATES, 0
            node, options = facts.tree.queue(queue.name), facts.rules.options
            quotas = Quotas(facts.tree, node, facts.queues, options, lambda *_: none)
            found = at_once(assigning(workload, left, queue=queue, quotas=quotas))
            self._proposals[equals] = found
        return found

    def waiting_for(self, lacks: Iterable[FlavorLack], cluster_queue: str) -> list[WaitingFor]:
        """Return the quota that is missing, and the workloads that hold it."""
        missing: dict[FlavorResource, int] = {}
        for lack in lacks:
            if lack.what is not None and lack.missing > 0:
                missing[lack.what] = max(missing.get(lack.what, 0), lack.missing)
        node = self._facts.tree.queue(cluster_queue)
        return [self._waiting_for(node, what, amount) for what, amount in missing.items()]

    def _waiting_for(self, node: QuotaNode, what: FlavorResource, missing: int) -> WaitingFor:
        flavor, resource = what
        holders, more = self._holders(what, self._within(node, what))
        return WaitingFor(
            flavor=flavor,
            resource=resource,
            missing=exact(resource, missing),
            holders=holders,
            more_holders=more,
        )

    def _within(self, node: QuotaNode, what: FlavorResource) -> tuple[str, ...]:
        """Return the queues in which a workload would have to end.

        Where the cohort has more than the queue may use, only the queue's own limit is in the way.
        """
        if node.parent is None:
            return (node.name,)
        own = max(0, node.kept.get(what, 0) - node.usage.get(what, 0))
        if node.available(what) < own + node.parent.available(what):
            return (node.name,)
        return tuple(self._facts.tree.sharing_with(node.name))

    def _holders(self, what: FlavorResource, names: tuple[str, ...]) -> _Named:
        found = self._named.get((what, names))
        if found is None:
            held = sorted(
                (each for name in names for each in self._of(name, what)),
                key=lambda each: (-each[0], each[1].priority, each[1].key),
            )
            first = [_holder(each, what[1]) for each in held[:NAMED]]
            found = self._named[what, names] = first, max(0, len(held) - NAMED)
        return found

    def _of(self, cluster_queue: str, what: FlavorResource) -> Iterable[_Held]:
        for holder in self._facts.tree.holders.held_in(cluster_queue).holders.values():
            amount = holder.usage.get(what, 0)
            if amount:
                yield amount, holder.workload, cluster_queue


def _holder(each: _Held, resource: str) -> Holder:
    amount, workload, cluster_queue = each
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    known = reserved is not None and reserved.status == "True"
    return Holder(
        namespace=workload.meta.namespace,
        name=workload.meta.name,
        job=job_of(workload),
        cluster_queue=cluster_queue,
        amount=exact(resource, amount),
        priority=workload.priority,
        since=moment(reserved.transition) if reserved is not None and known else None,
        leaving=workload.evicted,
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """The reason why a workload waits, and the quota that it lacks."""

    reason: str
    message: str
    lacks: Sequence[FlavorLack] = ()
    notes: Sequence[str] = ()
    """Sentences about the workloads that block it, leave for it, or could be preempted."""


def briefly(workload: WorkloadInfo, facts: Facts, lacks: Lacks) -> Outlook:
    """Return why a workload waits, as the last cycle said if it said something."""
    barred = _barred(workload, facts)
    if barred is not None:
        return barred
    queue = _queue(workload, facts)
    proposal = lacks.proposal(workload, queue)
    last = facts.why(workload.key)
    by_nodes = last is not None and last[0] in _BY_NODES
    if last is not None and (by_nodes or proposal.mode is not Mode.FIT):
        return Outlook(*last, lacks=proposal.lacks)
    return _without_preemption(workload, proposal, facts, lacks=lacks)


def fully(workload: WorkloadInfo, facts: Facts, lacks: Lacks) -> Outlook:
    """Return why a workload waits, as the next cycle would nominate it, with victims.

    The room of the facts is not that of the cycle, which takes room in its own.
    """
    barred = _barred(workload, facts)
    if barred is not None:
        return barred
    if facts.rules.room is not None:
        facts.rules.room.look_again()
        at_once(keeping_room(facts))
    nomination = at_once(_nominating(workload.key, facts))
    reason, message = _reason(nomination, facts, lacks)
    proposal = lacks.proposal(workload, _queue(workload, facts))
    return Outlook(reason, message, proposal.lacks, tuple(_notes(nomination, facts)))


def asking(key: str, facts: Facts) -> Steps[None]:
    """Ask in steps what `fully` asks of the nodes, so that it has the answers at once.

    Nothing else may read usage into the tree meanwhile. When the state changes in between, the
    steps end after the question that is being asked.
    """
    workload = facts.queues.workloads.get(key)
    room = facts.rules.room
    if room is None or workload is None or _barred(workload, facts) is not None:
        return
    before = facts.queues.version
    with closing(_nominating(key, facts)) as steps:
        for _ in steps:
            yield
            if not room.asking and facts.queues.version != before:
                return


def keeping_room(facts: Facts) -> Steps[None]:
    """Keep room on nodes for workloads that have waited for long, as the cycle does."""
    yield from aging.keeping(
        facts.queues, facts.pending, tree=facts.tree, rules=facts.rules, now=facts.now
    )


def looks_at_nodes(key: str, facts: Facts) -> bool:
    """Return whether `fully` asks for room on nodes, for a workload without quota."""
    queue = facts.queues.cluster_queues.get(facts.pending.cluster_queue_of(key) or "")
    return facts.rules.room_for(queue) is not None


def _barred(workload: WorkloadInfo, facts: Facts) -> Outlook | None:
    """Return why a workload is not tried, however much quota there is."""
    found = standing(workload, facts.queues, now=facts.now)
    if isinstance(found, Absent):
        reason = found.reason or Unadmitted.PENDING_EVALUATION
        return Outlook(reason, found.message or _IN_NO_QUEUE)
    if facts.pending.cluster_queue_of(workload.key) is None:
        return Outlook(Unadmitted.PENDING_EVALUATION, _IN_NO_QUEUE)
    queue = facts.queues.cluster_queues[found.cluster_queue]
    active = activity(queue, facts.queues)
    if not active.active:
        return Outlook(Unadmitted.SUSPENDED, active.message)
    namespace = workload.meta.namespace
    if not selects_namespace(queue, namespace, facts.queues):
        return Outlook(Unadmitted.MISCONFIGURED, namespace_mismatch(namespace, queue))
    fault = pod_set_fault(workload, facts.rules.options)
    if fault:
        return Outlook(Unadmitted.MISCONFIGURED, fault)
    return _on_hold(workload, found) if found.backing_off else None


def _on_hold(workload: WorkloadInfo, found: Queued) -> Outlook:
    requeued = workload.condition(WorkloadCondition.REQUEUED)
    after = f" after {requeued.reason}" if requeued is not None else ""
    at = found.until or (workload.requeue.at if workload.requeue else None)
    if at is None:
        return Outlook(Unadmitted.ON_HOLD, f"It is out of the queue{after}")
    until = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Outlook(Unadmitted.ON_HOLD, f"It is tried again at {until}{after}")


def _without_preemption(
    workload: WorkloadInfo, proposal: Proposal, facts: Facts, *, lacks: Lacks
) -> Outlook:
    if proposal.mode is not Mode.FIT:
        return Outlook(proposal.reason, proposal.message, proposal.lacks)
    held = lacks.unready.holds(workload)
    if held:
        return Outlook(Unadmitted.WAITING_FOR_PODS_READY, f"there is quota; {held}")
    queue = _queue(workload, facts)
    first = facts.pending.queue(queue.name).head(blocking=True)
    if queue.strategy == "StrictFIFO" and first and first != workload.key:
        theirs = first if first.startswith(f"{workload.meta.namespace}/") else "another workload"
        text = f"there is quota, but {theirs} is before it and the ClusterQueue is StrictFIFO"
        return Outlook(Unadmitted.WAITING_FOR_QUOTA, text)
    return Outlook(Unadmitted.PENDING_EVALUATION, "there is quota: it is tried when its turn comes")


def _nominating(key: str, facts: Facts) -> Steps[Nomination]:
    facts.tree.begin()
    try:
        nominator = Nominator(
            facts.queues, facts.pending, tree=facts.tree, rules=facts.rules, now=facts.now
        )
        return (yield from nominator.nominating(key))
    finally:
        facts.tree.undo(0)


def _reason(nomination: Nomination, facts: Facts, lacks: Lacks) -> tuple[str, str]:
    key, plan = nomination.key, nomination.plan
    if nomination.fits:
        waits = lacks.unready.holds(facts.queues.workloads[key])
        if waits:
            return Unadmitted.WAITING_FOR_PODS_READY, f"there is quota for it; {waits}"
        position = facts.pending.position(key)
        before = position[0][0] if position else 0
        text = f"there is quota for it; {before} workload(s) are before it"
        return Unadmitted.PENDING_EVALUATION, text
    if plan is not None and (plan.leaving or facts.pending.preemptors.victims(key)):
        return Unadmitted.WAITING_FOR_PREEMPTED, nomination.message
    room, message = facts.rules.room, nomination.message
    kept = room.kept_for(key) if room is not None else None
    if kept is not None:
        message = f"{message}; {kept_text(kept)}"
    return nomination.proposal.reason, message


def _notes(nomination: Nomination, facts: Facts) -> Iterator[str]:
    if nomination.queue.strategy == "StrictFIFO":
        first = min(facts.pending.queue(nomination.queue.name).orders())[-1]
        if first != nomination.key:
            yield f"{first} is first in a StrictFIFO queue: no other workload may pass it"
    before = _kept_before(nomination.key, facts)
    if before and looks_at_nodes(nomination.key, facts) and not nomination.fits:
        yield f"room is kept for {before} workload(s) before it that have waited for long"
    plan = nomination.plan
    for key in plan.leaving if plan else ():
        gone = facts.queues.admission(key) is None
        yield f"pods of {key} are still ending" if gone else f"{key} is releasing its quota"
    for victim in plan.victims if plan else ():
        yield f"{victim.workload} could be preempted ({victim.reason})"


def _kept_before(key: str, facts: Facts) -> int:
    """Return the number of workloads before this one for which room is kept."""
    room, pending = facts.rules.room, facts.pending
    kept = room.reserved if room is not None else ()
    waiting = (each for each in kept if pending.cluster_queue_of(each) is not None)
    return sum(pending.order(each) < pending.order(key) for each in waiting)


def _queue(workload: WorkloadInfo, facts: Facts) -> ClusterQueueInfo:
    return facts.queues.cluster_queues[facts.pending.cluster_queue_of(workload.key) or ""]
