"""Why a workload has no quota: as its queues, its turn and the quota are now."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from extender.api.queue_reasons import Unadmitted
from extender.explain.view import View
from extender.explain.waiting_for import Lacks
from extender.queueing.active import activity
from extender.queueing.explain import Rules, judging, why
from extender.queueing.flavors import Lack, Mode, Proposal
from extender.queueing.room import requires_room
from extender.queueing.standing import Absent, Queued, is_welcome, standing
from extender.state.queues.records import ClusterQueueInfo, WorkloadInfo
from extender.steps import Steps

_BY_NODES: Final = (Unadmitted.WAITING_FOR_ROOM, Unadmitted.WAITING_FOR_PREEMPTED)
"""What may be told of one for whom there is quota."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Why it waits, and the quota that it lacks."""

    reason: str
    message: str
    lacks: Sequence[Lack] = ()
    notes: Sequence[str] = ()
    """Who bars its way, who leaves for it, and who could be made to."""


def briefly(workload: WorkloadInfo, view: View, lacks: Lacks) -> Outlook:
    """Return why a workload waits; what the last cycle said of it goes first."""
    barred = _barred(workload, view)
    if barred is not None:
        return barred
    queue = _queue(workload, view)
    proposal = lacks.proposal(workload, queue)
    told = view.why(workload.key)
    by_nodes = told is not None and told[0] in _BY_NODES
    if told is not None and (by_nodes or proposal.mode is not Mode.FIT):
        return Outlook(*told, lacks=proposal.lacks)
    return _judged(workload, proposal, view, lacks=lacks)


def fully(workload: WorkloadInfo, view: View, lacks: Lacks) -> Outlook:
    """Return the same, looking also at who could be made to go."""
    barred = _barred(workload, view)
    if barred is not None:
        return barred
    found = why(
        workload.key,
        view.queues,
        view.pending,
        tree=view.tree,
        now=view.now,
        rules=_rules(view),
    )
    proposal = lacks.proposal(workload, _queue(workload, view))
    return Outlook(found.reason, found.message, proposal.lacks, found.notes)


def asking(key: str, view: View) -> Steps[None]:
    """Ask in steps what `fully` asks of the nodes, so that it has the answers at once.

    Where the state changes in between that ends after the question that is being asked.
    """
    workload = view.queues.workloads.get(key)
    room = view.room
    if room is None or workload is None or _barred(workload, view) is not None:
        return
    before = view.queues.version
    with closing(
        judging(key, view.queues, view.pending, tree=view.tree, rules=_rules(view))
    ) as steps:
        for _ in steps:
            yield
            if not room.asking and view.queues.version != before:
                return


def looks_at_nodes(key: str, view: View) -> bool:
    """Return whether `fully` asks for room on nodes, for a workload without quota."""
    queue = view.queues.cluster_queues.get(view.pending.cluster_queue_of(key) or "")
    return queue is not None and requires_room(queue, view.options)


def _rules(view: View) -> Rules:
    return Rules(view.options, view.room)


def _barred(workload: WorkloadInfo, view: View) -> Outlook | None:
    """Return why it is not tried, however much quota there is."""
    found = standing(workload, view.queues, now=view.now)
    if isinstance(found, Absent):
        reason = found.reason or Unadmitted.PENDING_EVALUATION
        return Outlook(reason, found.message or "The queue does not know it yet")
    if view.pending.cluster_queue_of(workload.key) is None:
        return Outlook(Unadmitted.PENDING_EVALUATION, "The queue does not know it yet")
    queue = view.queues.cluster_queues[found.cluster_queue]
    active = activity(queue, view.queues)
    if not active.active:
        return Outlook(Unadmitted.SUSPENDED, active.message)
    namespace = workload.meta.namespace
    if not is_welcome(namespace, queue, view.queues):
        text = f"namespace {namespace} doesn't match ClusterQueue selector"
        return Outlook(Unadmitted.MISCONFIGURED, text)
    return _on_hold(workload, found) if found.backing_off else None


def _on_hold(workload: WorkloadInfo, found: Queued) -> Outlook:
    requeued = workload.condition("Requeued")
    after = f" after {requeued.reason}" if requeued is not None else ""
    at = found.until or (workload.requeue.at if workload.requeue else None)
    if at is None:
        return Outlook(Unadmitted.ON_HOLD, f"It is out of the queue{after}")
    until = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Outlook(Unadmitted.ON_HOLD, f"It is tried again at {until}{after}")


def _judged(workload: WorkloadInfo, proposal: Proposal, view: View, *, lacks: Lacks) -> Outlook:
    if proposal.mode is not Mode.FIT:
        return Outlook(proposal.reason, proposal.message, proposal.lacks)
    held = lacks.unready.holds(workload)
    if held:
        return Outlook(Unadmitted.WAITING_FOR_PODS_READY, f"there is quota; {held}")
    queue = _queue(workload, view)
    first = view.pending.head(queue.name, blocked=True)
    if queue.strategy == "StrictFIFO" and first and first != workload.key:
        theirs = first if first.startswith(f"{workload.meta.namespace}/") else "another workload"
        text = f"there is quota, but {theirs} is before it and the ClusterQueue is StrictFIFO"
        return Outlook(Unadmitted.WAITING_FOR_QUOTA, text)
    return Outlook(Unadmitted.PENDING_EVALUATION, "there is quota: it is tried when its turn comes")


def _queue(workload: WorkloadInfo, view: View) -> ClusterQueueInfo:
    return view.queues.cluster_queues[view.pending.cluster_queue_of(workload.key) or ""]
