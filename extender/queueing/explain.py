"""Why a workload waits, and for whom."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from extender.api.queue_reasons import Unadmitted
from extender.queueing.nomination import Nomination, Nominator
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.readiness import Unready
from extender.queueing.room import Room
from extender.queueing.standing import Absent, standing
from extender.state.queues.snapshot import QueueSnapshot
from extender.steps import Steps


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a workload stands; no reason where there is nothing to be explained."""

    position: int | None
    """How many are before it in its ClusterQueue."""
    cluster_queue: str | None
    reason: str
    message: str
    notes: tuple[str, ...] = ()
    """Who bars its way, who leaves for it, and who could be made to."""


@dataclass(frozen=True, slots=True)
class _View:
    snapshot: QueueSnapshot
    pending: PendingQueues
    tree: QuotaTree
    unready: Unready


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a workload besides quota."""

    options: Options = field(default_factory=Options)
    room: Room | None = None
    """One of its own: a cycle takes room in the other. What it was prepared with stays."""


_DEFAULTS: Final = Rules()


def why(
    workload: str,
    snapshot: QueueSnapshot,
    pending: PendingQueues,
    *,
    tree: QuotaTree,
    now: float,
    rules: Rules = _DEFAULTS,
) -> Explanation:
    """Return why a workload waits, on the usage of now. Raises KeyError if there is none."""
    found = snapshot.workloads[workload]
    name = pending.cluster_queue_of(workload)
    if name is None or not tree.has(name):
        place = standing(found, snapshot, now=now)
        absent = place if isinstance(place, Absent) else Absent()
        where = snapshot.cluster_queue_of(found)
        return Explanation(None, where, absent.reason or "", absent.message)
    places = pending.position(workload)
    position = places[0][0] if places else 0
    if pending.is_late(workload):
        text = "It was sent back and may not be tried yet"
        return Explanation(position, name, Unadmitted.ON_HOLD, text)
    tree.begin()
    view = _View(snapshot, pending, tree, Unready(snapshot, rules.options))
    try:
        if rules.room is not None:
            rules.room.look_again()
        nominator = Nominator(snapshot, pending, tree=tree, options=rules.options, room=rules.room)
        return _explained(nominator.nominate(workload), position, view)
    finally:
        tree.undo(0)


def judging(
    workload: str,
    snapshot: QueueSnapshot,
    pending: PendingQueues,
    *,
    tree: QuotaTree,
    rules: Rules,
) -> Steps[object]:
    """Judge a workload in steps, so that the room of the rules has the answers that `why` needs.

    The tree has to be one that nothing else reads usage into meanwhile.
    """
    name = pending.cluster_queue_of(workload)
    if name is None or not tree.has(name) or pending.is_late(workload):
        return None
    tree.begin()
    nominator = Nominator(snapshot, pending, tree=tree, options=rules.options, room=rules.room)
    try:
        return (yield from nominator.nominating(workload))
    finally:
        tree.undo(0)


def _explained(nomination: Nomination, position: int, view: _View) -> Explanation:
    notes = tuple(_notes(nomination, view))
    name, plan = nomination.queue.name, nomination.plan
    held = view.unready.holds(view.snapshot.workloads[nomination.key]) if nomination.fits else ""
    if held:
        text = f"there is quota for it; {held}"
        return Explanation(position, name, Unadmitted.WAITING_FOR_PODS_READY, text, notes)
    if nomination.fits:
        text = f"there is quota for it; {position} workload(s) are before it"
        return Explanation(position, name, Unadmitted.PENDING_EVALUATION, text, notes)
    reason = nomination.reason
    if plan is not None and (plan.leaving or view.pending.victims(nomination.key)):
        reason = Unadmitted.WAITING_FOR_PREEMPTED
    return Explanation(position, name, reason, nomination.message, notes)


def _notes(nomination: Nomination, view: _View) -> Iterator[str]:
    if nomination.queue.strategy == "StrictFIFO":
        first = min(view.pending.orders(nomination.queue.name))[-1]
        if first != nomination.key:
            yield f"{first} is the first of a strict queue, and nobody passes it"
    plan = nomination.plan
    for key in plan.leaving if plan else ():
        gone = view.snapshot.admission(key) is None
        yield f"pods of {key} still end" if gone else f"{key} is giving its quota back"
    for victim in plan.victims if plan else ():
        yield f"{victim.workload} could be made to go ({victim.reason})"
