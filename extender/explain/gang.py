"""Everything about one group that says why it is where it is, from the decisions' own answers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from extender.api.gang_explanations import (
    GroupAhead,
    GroupExplanation,
    PreemptionCourse,
    RoomFound,
)
from extender.api.reasons import EventReason, Reason
from extender.api.visibility_v1beta2 import Position, TimedCondition
from extender.explain.facts import moment
from extender.explain.gang_facts import GroupFacts
from extender.explain.gang_gates import answers, checked
from extender.explain.gang_hints import hints
from extender.explain.gang_members import counts, group_state, members
from extender.explain.kept_room import KeptRooms, kept_rooms
from extender.fit.candidates import is_feasible
from extender.gang import aging, pending, plan, topology
from extender.gang.fit import candidates
from extender.gang.gates import Gate, GateCheck
from extender.gang.plan import PlanLook
from extender.gang.preemption import nominating
from extender.gang.verdicts import about
from extender.resources.quantity import exact
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.steps import PIECE, Steps

AHEAD: Final = 10
"""How many of those ahead are named."""
_PLANNED: Final = frozenset((Gate.TOPOLOGY, Gate.MIN_RESOURCES, Gate.ABLE_PODS, Gate.ROOM))


@dataclass(frozen=True, slots=True)
class _Findings:
    """What takes long to find out."""

    found: PlanLook | None = None
    usable: int = 0
    kept: KeptRooms = field(default_factory=lambda: KeptRooms([], [], 0))


def explain_group(group: str, facts: GroupFacts) -> Steps[GroupExplanation | None]:
    """Return what there is to say of a group, `namespace/name`; None where there is none.

    The planner is asked in steps; the rest is read in one step after it, as it is then.
    """
    look = yield from _looking(group, facts)
    listed = yield from members(group, facts.view)
    found = _composed(group, facts, look)
    if found is None:
        return None
    more = max(0, found.pods.exist - len(listed))
    return found.model_copy(update={"members": listed, "more_members": more})


def _looking(group: str, facts: GroupFacts) -> Steps[_Findings]:
    view, found, usable = facts.view, None, 0
    pod_group = view.pod_group(group)
    kept = yield from kept_rooms(group, facts)
    if pod_group is not None and pending.before_plan(group, view=view) is None:
        pod = candidates(None, group, view=view)[0]
        permitted = facts.remembered(group).permitted
        found = yield from plan.explain_plan(pod, pod_group, view=view, permitted=permitted)
        usable = yield from _usable(pod, facts)
    return _Findings(found, usable, kept)


def _usable(pod: PodInfo, facts: GroupFacts) -> Steps[int]:
    count = 0
    for number, node in enumerate([*facts.view.nodes.values()]):
        if number % PIECE == PIECE - 1:
            yield
        count += is_feasible(pod.shape, node)
    return count


def _composed(group: str, facts: GroupFacts, look: _Findings) -> GroupExplanation | None:
    view = facts.view
    pod_group, tally = view.pod_group(group), view.tally(group)
    if pod_group is None and not tally.members:
        return None
    state = group_state(group, view)
    found = [*checked(group, facts, look.found)]
    room = _room(pod_group, look, facts)
    reason, message = _why(group, found, look.found, facts=facts)
    namespace, _, name = group.partition("/")
    shown = GroupExplanation(
        namespace=namespace,
        name=name,
        source=facts.source,
        state=state,
        reason=reason,
        message=message,
        priority=tally.priority,
        min_member=pod_group.min_member if pod_group is not None else 0,
        needed=view.quorum(pod_group) if pod_group is not None else 0,
        pods=counts(group, view),
        gates=answers(group, found, facts) if state != "Finished" else [],
        room=room,
        would_help=[*hints(group, found[-1], room, facts=facts)] if state != "Finished" else [],
        kept=look.kept.own,
        kept_from_it=look.kept.others if group in view.queue else [],
        more_kept=look.kept.more if group in view.queue else 0,
        notes=[*_notes(group, facts)],
    )
    return shown if pod_group is None else _with_pod_group(shown, pod_group, facts)


def _with_pod_group(
    found: GroupExplanation, pod_group: PodGroupInfo, facts: GroupFacts
) -> GroupExplanation:
    """Return an explanation with what a PodGroup says, and its place in the order."""
    view, status, group = facts.view, pod_group.status, pod_group.key
    update: dict[str, object] = {
        "api_group": pod_group.api_group,
        "phase": status.phase or None,
        "created": moment(pod_group.created),
        "preemption": _preemption(pod_group, facts),
        "conditions": [
            TimedCondition(
                type=each.type,
                status=each.status,
                reason=each.reason,
                message=each.message,
                last_transition_time=moment(each.transition),
            )
            for each in status.conditions
        ],
    }
    if group in view.queue:
        turn = view.turn(pod_group)
        position = view.queue.position(turn)
        first = [*islice(_ahead(pod_group, facts), AHEAD)]
        update |= {
            "position": Position(index=position, of=len(view.queue)),
            "ahead": first,
            "more_ahead": max(0, position - len(first)),
            **_waiting(pod_group, facts),
        }
    return found.model_copy(update=update)


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


def _waiting(pod_group: PodGroupInfo, facts: GroupFacts) -> dict[str, object]:
    since = aging.waits_since(pod_group, view=facts.view)
    due = since + facts.options.aging
    comes = facts.options.aging and pod_group.key not in facts.view.claims and due > facts.now
    return {"waits_since": moment(since), "claim_due": moment(due) if comes else None}


def _room(pod_group: PodGroupInfo | None, look: _Findings, facts: GroupFacts) -> RoomFound | None:
    found = look.found
    if found is None or found.free is None:
        return None
    free, asked = found.free, topology.of(pod_group)
    nodes = Counter(free.placements.values())
    return RoomFound(
        wanted=free.wanted,
        fit=free.count,
        fit_if_nothing_were_kept=found.unkept.count if found.unkept is not None else None,
        fit_on_empty_nodes=found.empty.count if found.empty is not None else None,
        short={name: exact(name, amount) for name, amount in sorted(free.short.items())},
        within=asked.label if asked is not None and asked.required else None,
        nodes={name: nodes[name] for name in sorted(nodes)},
        usable_nodes=look.usable,
        all_nodes=len(facts.view.nodes),
    )


def _why(
    group: str, found: list[GateCheck], look: PlanLook | None, *, facts: GroupFacts
) -> tuple[str, str]:
    """Return the reason of the whole: that of the gate that refuses, or how far the group is."""
    view, last, state = facts.view, found[-1], group_state(group, facts.view)
    if state == "Finished":
        return EventReason.FINISHED, "all of its pods have ended"
    pod_group, pods = view.pod_group(group), candidates(None, group, view=view)
    if pod_group is not None and look is not None and last.gate in _PLANNED and pods:
        options = facts.options
        why = pending.of_plan(look.answer, pods, pod_group, view=view, options=options)
        return why.reason, why.message
    if last.refusal is not None:
        return last.refusal.reason, last.refusal.message.removeprefix(about(group))
    if state == "Started":
        return EventReason.SCHEDULED, "all pods that it needs have a node"
    return Reason.WAITING_FOR_BIND, "its pods are on their way"


def _preemption(pod_group: PodGroupInfo, facts: GroupFacts) -> PreemptionCourse | None:
    chosen = pod_group.nomination
    if chosen is None:
        return None
    left = sum(1 for _ in nominating.remaining(chosen, view=facts.view))
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
