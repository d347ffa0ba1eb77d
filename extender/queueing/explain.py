"""Why a workload waits: what it lacks of which flavor, and who has it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from extender.api.queue_reasons import Unadmitted
from extender.queueing.flavors import Lack
from extender.queueing.nomination import Nomination, Nominator
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import Node, QuotaTree
from extender.queueing.readiness import held_back
from extender.queueing.room import Room
from extender.queueing.standing import Absent, standing
from extender.resources.quantity import show
from extender.state.queues.records import FlavorResource
from extender.state.queues.snapshot import QueueSnapshot

_NAMED: Final = 5
"""How many of those who hold quota are told by name."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a workload stands; no reason where there is nothing to be explained."""

    position: int | None
    """How many are before it in its ClusterQueue."""
    cluster_queue: str | None
    reason: str
    message: str
    lines: tuple[str, ...] = ()
    """One for each thing that it lacks, and for who holds it."""


@dataclass(frozen=True, slots=True)
class _View:
    snapshot: QueueSnapshot
    pending: PendingQueues
    tree: QuotaTree
    held: str
    """For what those wait who have quota."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a workload besides quota."""

    options: Options = field(default_factory=Options)
    room: Room | None = None


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
    position = pending.positions(name).index(workload)
    if pending.is_late(workload):
        text = "It was sent back and may not be tried yet"
        return Explanation(position, name, Unadmitted.ON_HOLD, text)
    tree.begin()
    view = _View(snapshot, pending, tree, held_back(snapshot, rules.options))
    try:
        if rules.room is not None:
            rules.room.begin()
        nominator = Nominator(snapshot, pending, tree=tree, options=rules.options, room=rules.room)
        return _explained(nominator.nominate(workload), position, view)
    finally:
        tree.undo(0)


def _explained(nomination: Nomination, position: int, view: _View) -> Explanation:
    lines = tuple(_lines(nomination, view))
    name, plan = nomination.queue.name, nomination.plan
    if nomination.fits and view.held:
        text = f"there is quota for it; {view.held}"
        return Explanation(position, name, Unadmitted.WAITING_FOR_PODS_READY, text, lines)
    if nomination.fits:
        text = f"there is quota for it; {position} workload(s) are before it"
        return Explanation(position, name, Unadmitted.PENDING_EVALUATION, text, lines)
    reason = nomination.reason
    if plan is not None and (plan.leaving or view.pending.victims(nomination.key)):
        reason = Unadmitted.WAITING_FOR_PREEMPTED
    return Explanation(position, name, reason, nomination.message, lines)


def _lines(nomination: Nomination, view: _View) -> Iterator[str]:
    order = view.pending.positions(nomination.queue.name)
    if order[0] != nomination.key and nomination.queue.strategy == "StrictFIFO":
        yield f"{order[0]} is the first of a strict queue, and nobody passes it"
    for lack in nomination.proposal.lacks:
        if lack.what is None or not lack.what[0]:
            yield lack.text
        else:
            yield _room(nomination.node, lack, lack.what)
            yield from _holders(nomination.node, lack.what, view)
    plan = nomination.plan
    for key in plan.leaving if plan else ():
        yield f"{key} is giving its quota back"
    for victim in plan.victims if plan else ():
        yield f"{victim.workload} could be made to go ({victim.reason})"


def _room(node: Node, lack: Lack, what: FlavorResource) -> str:
    flavor, resource = what
    free, quota = node.available(what), node.quota(what)
    text = (
        f"{resource} in flavor {flavor}: {show(resource, lack.missing)} more needed, "
        f"{show(resource, max(0, free))} free, nominal quota {show(resource, quota.nominal)}, "
        f"at most {show(resource, node.potential(what))}"
    )
    return text if node.parent is None else f"{text} in cohort {node.parent.name}"


def _holders(node: Node, what: FlavorResource, view: _View) -> Iterator[str]:
    held = [
        (-holder.usage[what], key, queue.name, holder.workload.priority)
        for queue in node.root.queues
        for key, holder in view.tree.holders.of(queue.name).holders.items()
        if what in holder.usage
    ]
    for amount, key, queue, priority in sorted(held)[:_NAMED]:
        yield f"held by {key} in {queue}: {show(what[1], -amount)}, priority {priority}"
    if len(held) > _NAMED:
        yield f"held by {len(held) - _NAMED} more"
