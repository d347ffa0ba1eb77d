"""Explains one group, or one pod of it: why it is where it is, and which room is kept."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from extender.api.explanations import (
    ExplainedMember,
    GroupAhead,
    GroupExplanation,
    GroupState,
    KeptKind,
    MemberCounts,
    MemberState,
    PodOutlook,
    Position,
    PreemptionCourse,
    RoomFound,
    RoomKept,
)
from extender.api.reasons import EventReason, Reason
from extender.explain.facts import LARGEST_LIMIT, GroupFacts, moment, timed
from extender.explain.gates import PlanLook, answers, checked, explain_plan, hints
from extender.fit.candidates import is_feasible
from extender.gang import aging, preempt, topology
from extender.gang.filter import beside_plans, without_room
from extender.gang.fit import candidates
from extender.gang.gates import Gate, GateCheck
from extender.gang.status import pending_before_plan, pending_of_plan
from extender.gang.verdicts import OneOf, Refuse, about, is_ours, not_admitted
from extender.gang.victims import PATIENCE_SECONDS
from extender.resources.quantity import PODS, Resources, add, exact
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.reservations import Claim, Reservation, ReservationKind
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

AHEAD: Final = 10
"""The most groups ahead that are named."""
OTHERS: Final = 20
"""The most groups that are named for which room is kept from another one."""
_KINDS_KEPT: Final[Mapping[ReservationKind, KeptKind]] = {
    ReservationKind.PLANNED: "Plan",
    ReservationKind.WAITING: "Held",
    ReservationKind.CLAIMED: "Claim",
    ReservationKind.GRANTED: "Grant",
    ReservationKind.NOMINATED: "Preemption",
}
_STARTS: Final = "its pods are bound, or the group has not started in time"
_PATIENCE: Final = f"{PATIENCE_SECONDS:.0f} s"
_ENDS: Final[Mapping[KeptKind, str]] = {
    "Plan": _STARTS,
    "Held": _STARTS,
    "Claim": f"the group starts, or could have for {_PATIENCE}",
    "Grant": "the group has a plan, or its time has passed",
    "Preemption": f"the group starts, or has not {_PATIENCE} after its victims have gone",
}
_PLANNED: Final = frozenset((Gate.TOPOLOGY, Gate.MIN_RESOURCES, Gate.ABLE_PODS, Gate.ROOM))
_RESERVED: Final[Mapping[ReservationKind, MemberState]] = {
    ReservationKind.BINDING: "Binding",
    ReservationKind.WAITING: "Held",
    ReservationKind.PLANNED: "Planned",
}


def explain_group(group: str, facts: GroupFacts) -> Steps[GroupExplanation | None]:
    """Return what there is to say of a group, `namespace/name`; None where there is none.

    The planner is asked in steps; the rest is read in one step after it, as it is then.
    """
    view, look, usable = facts.view, None, 0
    pod_group = view.pod_group(group)
    kept = yield from kept_rooms(group, facts)
    if pod_group is not None and pending_before_plan(group, view=view) is None:
        pod = candidates(None, group, view=view)[0]
        permitted = facts.remembered(group).permitted
        look = yield from explain_plan(pod, pod_group, view=view, permitted=permitted)
        for number, node in enumerate([*view.nodes.values()]):
            if number % PIECE == PIECE - 1:
                yield
            usable += is_feasible(pod.shape, node)
    listed = yield from _members(group, view)
    pod_group, tally = view.pod_group(group), view.tally(group)
    if pod_group is None and not tally.members:
        return None
    state = group_state(group, view)
    ended = state == "Finished"
    checks = [*checked(group, facts, look)]
    room = _room(pod_group, look, usable, facts=facts)
    reason, message = _why(group, checks[-1], look, facts=facts)
    namespace, _, name = group.partition("/")
    status = pod_group.status if pod_group is not None else None
    queued = group in view.queue
    return GroupExplanation(
        namespace=namespace,
        name=name,
        api_group=pod_group.api_group if pod_group is not None else None,
        source=facts.source,
        state=state,
        phase=(status.phase or None) if status is not None else None,
        reason=reason,
        message=message,
        priority=tally.priority,
        min_member=pod_group.min_member if pod_group is not None else 0,
        needed=view.quorum(pod_group) if pod_group is not None else 0,
        created=moment(pod_group.created) if pod_group is not None else None,
        pods=counts(group, view),
        gates=[] if ended else answers(group, checks, facts),
        room=room,
        would_help=[] if ended else [*hints(group, checks[-1], room, facts=facts)],
        kept=kept.own,
        kept_from_it=kept.others if queued else [],
        more_kept=kept.more if queued else 0,
        preemption=_preemption(pod_group, facts),
        notes=[*_notes(group, facts)],
        conditions=[*map(timed, status.conditions)] if status is not None else [],
        members=listed,
        more_members=max(0, len(tally.members) - len(listed)),
        **(_place(pod_group, facts) if pod_group is not None and queued else {}),
    )


def explain_pod(pod: PodInfo, facts: GroupFacts) -> Steps[PodOutlook]:
    """Return what there is to say of a pod, and of its group."""
    group = None
    if pod.group is not None:
        group = yield from explain_group(pod.group, facts)
    shown = _member(pod, facts.view)
    reason, message = _why_pod(pod, group, facts)
    return PodOutlook(
        namespace=pod.namespace,
        name=pod.name,
        state=shown.state,
        node=shown.node,
        priority=pod.priority,
        scheduler_name=pod.scheduler,
        gates=shown.gates,
        reason=reason,
        message=message,
        said=pod.unschedulable,
        group=group,
    )


def _place(pod_group: PodGroupInfo, facts: GroupFacts) -> dict[str, Any]:
    """Return the place of a group among those that wait for room, and since when it waits."""
    view = facts.view
    position = view.queue.position(view.turn(pod_group))
    ahead = [*islice(_ahead(pod_group, facts), AHEAD)]
    since = aging.waits_since(pod_group, view=view)
    due = since + facts.options.aging
    comes = facts.options.aging and pod_group.key not in view.claims and due > facts.now
    return {
        "position": Position(index=position, of=len(view.queue)),
        "ahead": ahead,
        "more_ahead": max(0, position - len(ahead)),
        "waits_since": moment(since),
        "claim_due": moment(due) if comes else None,
    }


def _ahead(pod_group: PodGroupInfo, facts: GroupFacts) -> Iterator[GroupAhead]:
    view = facts.view
    for key in view.queue.ahead_of(view.turn(pod_group)):
        other = view.pod_group(key)
        if other is not None:
            yield GroupAhead(
                namespace=other.namespace,
                name=other.name,
                priority=view.tally(key).priority,
                needed=view.quorum(other) - view.tally(key).committed,
            )


def _room(
    pod_group: PodGroupInfo | None, look: PlanLook | None, usable: int, *, facts: GroupFacts
) -> RoomFound | None:
    if look is None or look.free is None:
        return None
    free, asked = look.free, topology.topology_of(pod_group)
    nodes = Counter(free.placements.values())
    return RoomFound(
        wanted=free.wanted,
        fit=free.count,
        fit_if_nothing_were_kept=look.unkept.count if look.unkept is not None else None,
        fit_on_empty_nodes=look.empty.count if look.empty is not None else None,
        short={name: exact(name, amount) for name, amount in sorted(free.short.items())},
        within=asked.label if asked is not None and asked.required else None,
        nodes={name: nodes[name] for name in sorted(nodes)},
        usable_nodes=usable,
        all_nodes=len(facts.view.nodes),
    )


def _why(
    group: str, last: GateCheck, look: PlanLook | None, *, facts: GroupFacts
) -> tuple[str, str]:
    """Return the reason of the whole: that of the gate that refuses, or how far the group is."""
    view, state = facts.view, group_state(group, facts.view)
    if state == "Finished":
        return EventReason.FINISHED, "all of its pods have ended"
    pod_group, pods = view.pod_group(group), candidates(None, group, view=view)
    if pod_group is not None and look is not None and last.gate in _PLANNED and pods:
        options = facts.options
        why = pending_of_plan(look.answer, pods, pod_group, view=view, options=options)
        return why.reason, why.message
    if last.refusal is not None:
        return last.refusal.reason, last.refusal.message.removeprefix(about(group))
    if state == "Started":
        return EventReason.SCHEDULED, "all pods that it needs have a node"
    return Reason.WAITING_FOR_BIND, "its pods are on their way"


def _preemption(pod_group: PodGroupInfo | None, facts: GroupFacts) -> PreemptionCourse | None:
    chosen = pod_group.nomination if pod_group is not None else None
    if chosen is None:
        return None
    left = sum(1 for _ in preempt.remaining(chosen, view=facts.view))
    return PreemptionCourse(
        since=moment(chosen.since),
        gangs=sum(each.kind == "PodGroup" for each in chosen.victims),
        pods=sum(len(each.pods) for each in chosen.victims),
        leaving=left,
        nodes={name: len(room.pods) for name, room in sorted(chosen.rooms.items())},
    )


def _notes(group: str, facts: GroupFacts) -> Iterator[str]:
    """Yield what the extender remembers beside the gates, and what limits a claim."""
    view, known = facts.view, facts.remembered(group)
    if known.stale is not None:
        yield f"the extender has not heard of {known.stale} for too long, and plans no gang"
    if known.is_being_planned:
        yield "its plan is being made, in slices between other work"
    if known.rests_until is not None:
        seconds = max(0.0, known.rests_until - facts.now)
        yield f"a long plan came to nothing: another one is made in {seconds:.1f} s"
    if known.last_failure is not None and known.denied is None:
        yield f"it failed last: {known.last_failure.message.removeprefix(about(group))}"
    claim = view.claims.get(group)
    if claim is not None and claim.limit is not None:
        yield f"no nodes are set aside for it: its namespace may claim {claim.limit}"
    elif claim is not None and not claim.amounts:
        yield "no nodes can be set aside for it beside those of groups that wait longer"


def counts(group: str, view: ClusterView) -> MemberCounts:
    """Return how many pods are where."""
    tally = view.tally(group)
    kept = len(tally.binding) + len(tally.waiting) + len(tally.planned)
    there = len(tally.bound) + kept + len(tally.gated) + len(tally.gated_by_us) + len(tally.leaving)
    return MemberCounts(
        exist=len(tally.members),
        bound=len(tally.bound),
        binding=len(tally.binding),
        held=len(tally.waiting),
        planned=len(tally.planned),
        gated=len(tally.gated),
        gated_by_us=len(tally.gated_by_us),
        leaving=len(tally.leaving),
        waiting=len(tally.members) - there,
    )


def group_state(group: str, view: ClusterView) -> GroupState:
    """Return how far a group is."""
    tally, pod_group = view.tally(group), view.pod_group(group)
    phase = pod_group.status.phase if pod_group is not None else ""
    if not tally.members and (phase in ("Finished", "Failed") or view.finished(group)):
        return "Finished"
    need = view.quorum(pod_group) if pod_group is not None else None
    if need is None or not tally.members:
        return "Waiting"
    if len(tally.bound) >= need:
        return "Started"
    if tally.assigned >= need:
        return "Binding"
    if tally.waiting:
        return "Held"
    return "Planned" if tally.committed >= need else "Waiting"


def _members(group: str, view: ClusterView) -> Steps[list[ExplainedMember]]:
    """Return the pods of a group, those first that have no node; `LARGEST_LIMIT` at most."""
    found = [view.pods[uid] for uid in view.tally(group).members]
    pods = sorted(found, key=lambda pod: (pod.node is not None, pod.index or 0, pod.name))[
        :LARGEST_LIMIT
    ]
    shown = []
    for number, pod in enumerate(pods):
        if number % PIECE == PIECE - 1:
            yield
        shown.append(_member(pod, view))
    return shown


def _member(pod: PodInfo, view: ClusterView) -> ExplainedMember:
    """Return where one pod is."""
    reserved, refused = view.reservation(pod.uid), view.refused.get(pod.uid)
    return ExplainedMember(
        name=pod.name,
        state=_member_state(pod, view),
        node=pod.node or (reserved.node if reserved is not None else None),
        reason=refused.reason if refused is not None else None,
        message=pod.unschedulable,
        gates=list(pod.gates),
    )


def _member_state(pod: PodInfo, view: ClusterView) -> MemberState:
    """Return how far a pod is."""
    reserved = view.reservation(pod.uid)
    if pod.finished or pod.terminating:
        return "Finished" if pod.finished else "Leaving"
    if pod.node is not None:
        return "Bound"
    if reserved is not None:
        return _RESERVED.get(reserved.kind, "Waiting")
    if pod.gates:
        return "GatedByUs" if pod.is_gated_by_us else "Gated"
    if pod.uid not in view.refused and pod.unschedulable is None:
        return "Waiting"
    ours = pod.group is not None and is_ours(pod.unschedulable or "", pod.group)
    return "Refused" if ours or pod.uid in view.refused else "Unschedulable"


def _why_pod(
    pod: PodInfo, group: GroupExplanation | None, facts: GroupFacts
) -> tuple[str | None, str]:
    """Return why a pod waits: the reason and a sentence."""
    view, held = facts.view, facts.view.awaits_admission(pod)
    if pod.finished or pod.node is not None:
        return None, "it has ended" if pod.finished else "it has a node"
    if held is not None:
        return Reason.NOT_ADMITTED, not_admitted(held).message
    if view.reservation(pod.uid) is not None:
        return None, "room is taken or kept for it"
    if pod.gates and not pod.is_gated_by_us:
        return Reason.GATED, "scheduling gates of others hold it back"
    return _why_alone(pod, facts) if group is None else _why_in_group(group)


def _why_in_group(group: GroupExplanation) -> tuple[str | None, str]:
    if group.state in ("Started", "Binding"):
        return None, "its gang has started without it: it comes as a plain pod does"
    return group.reason, f"it waits with its gang: {group.message}"


def _why_alone(pod: PodInfo, facts: GroupFacts) -> tuple[str | None, str]:
    """Return what the extender says of a pod that is no member of a group."""
    view = facts.view
    usable = [name for name, node in view.nodes.items() if is_feasible(pod.shape, node)]
    full = set(without_room(pod.shape, usable, view))
    free = [name for name in usable if name not in full]
    start = f"it is no member of a gang; {len(free)} of {len(view.nodes)} nodes have room for it"
    if not free:
        return None, f"{start}, which kube-scheduler alone decides"
    verdict = beside_plans(pod, free, view=view)
    if isinstance(verdict, Refuse):
        return verdict.reason, f"{start}, and on all of them it is kept for gangs that go first"
    if isinstance(verdict, OneOf):
        kept = len(free) - len(verdict.nodes)
        return None, f"{start}, and on {kept} of them it is kept for gangs that go first"
    return None, f"{start}, and the extender keeps it from none of them"


@dataclass(slots=True)
class _Kept:
    """The room that is kept for one group, of one kind."""

    pods: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    amounts: Resources = field(default_factory=Resources)
    until: float | None = None

    def put(self, reservation: Reservation, *, of_pod: bool) -> None:
        self.pods += of_pod
        self.until = reservation.until
        if isinstance(reservation, Claim) and reservation.fits_since is not None:
            self.until = reservation.fits_since + PATIENCE_SECONDS
        for node, amounts in reservation.amounts.items():
            self.nodes[node] = self.nodes.get(node, 0) + 1
            add(self.amounts, amounts)


@dataclass(frozen=True, slots=True)
class KeptRooms:
    """The room that is kept for a group, and from it."""

    own: list[RoomKept]
    others: list[RoomKept]
    more: int
    """The number of further groups for which room is kept."""


def kept_rooms(group: str, facts: GroupFacts) -> Steps[KeptRooms]:
    """Return the room that is kept for a group, and the room of others that it may not use.

    Groups that wait with held binds count as others: their room is free if they do not start.
    """
    view = facts.view
    found: dict[tuple[str, KeptKind], _Kept] = {}
    for number, each in enumerate([*view.reserved]):
        if number % PIECE == PIECE - 1:
            yield
        pod = view.pods.get(each.owner)
        owner = each.owner if pod is None else pod.group
        kind = _KINDS_KEPT.get(each.kind)
        if owner is None or kind is None or not each.amounts:
            continue
        if owner == group or not view.yields_to(each, group):
            kept = found.setdefault((owner, kind), _Kept())
            kept.put(each, of_pod=pod is not None)
    shown = sorted(found, key=lambda each: (-view.tally(each[0]).priority, each))
    own = [_shown(which, found[which], facts) for which in shown if which[0] == group]
    others = [which for which in shown if which[0] != group]
    first = [_shown(which, found[which], facts) for which in others[:OTHERS]]
    named = {owner for owner, _ in others[:OTHERS]}
    return KeptRooms(own, first, len({owner for owner, _ in others} - named))


def _shown(which: tuple[str, KeptKind], kept: _Kept, facts: GroupFacts) -> RoomKept:
    owner, kind = which
    namespace, _, name = owner.partition("/")
    until = kept.until
    if kind in ("Plan", "Held"):
        until = facts.remembered(owner).starts_by
    amounts = {what: amount for what, amount in kept.amounts.items() if what != PODS and amount}
    return RoomKept(
        kind=kind,
        namespace=namespace,
        name=name,
        pods=kept.pods or None,
        nodes=sorted(kept.nodes),
        amounts={what: exact(what, amount) for what, amount in sorted(amounts.items())},
        until=moment(until) if until is not None else None,
        ends=_ENDS[kind],
    )
