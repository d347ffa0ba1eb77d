"""The gates of a group in their order, and what would help a group that one of them refuses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from extender.api.explanations import GateAnswer, PassedGate, RoomFound
from extender.api.reasons import Reason
from extender.explain.facts import GroupFacts, moment
from extender.gang import hold
from extender.gang.filter import recently_denied
from extender.gang.fit import Fit
from extender.gang.gates import (
    CAN_START,
    MAY_BE_PLANNED,
    Asked,
    Gate,
    GateCheck,
    Known,
    answer_of,
    asked,
    attempt_of,
    is_admitted,
    planned,
    refusal_behind,
    through,
)
from extender.gang.verdicts import Allow, Refuse, Room, Wait, about
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

_ORDER: Final = tuple(Gate)
_PASSED: Final[Mapping[Gate, str]] = {
    Gate.ADMISSION: "no queue holds its pods back",
    Gate.POD_GROUP: "there is a PodGroup",
    Gate.ANNOTATIONS: "its annotations can be kept",
    Gate.PODS: "{have} pods exist, {need} are needed",
    Gate.SCHEDULING_GATES: "{have} pods are free of gates, {need} are needed",
    Gate.RECENT_FAILURE: "it has not failed just now",
    Gate.TURN: "no group ahead holds it up",
    Gate.TOPOLOGY: "there are nodes for its topology, if it asks for one",
    Gate.MIN_RESOURCES: "its minResources are there, if it names some",
    Gate.ABLE_PODS: "{have} pods can be placed now, {need} are needed",
    Gate.ROOM: "{have} of the {need} pods that it still needs fit",
    Gate.QUORUM: "{have} pods have a node or wait with one, {need} are needed",
}
"""The sentence about a gate that does not refuse."""
_HELP: Final[Mapping[Gate, str]] = {
    Gate.ADMISSION: "its queue admits the Job: gang-extender explain job NAME says why it waits",
    Gate.POD_GROUP: "a PodGroup of that name in that namespace",
    Gate.ANNOTATIONS: "an annotation that is mended, as the message says",
    Gate.PODS: "{lacks} more",
    Gate.TURN: "the groups ahead of it start",
    Gate.TOPOLOGY: "nodes with that label, or a PodGroup that names another one",
    Gate.MIN_RESOURCES: "free amounts as the message says, or smaller minResources",
    Gate.ABLE_PODS: "{lacks} more",
    Gate.QUORUM: "{lacks} more with a node, which kube-scheduler is to bring",
}
"""The sentence about what would help, by the gate that refuses; of the others see `hints`."""


@dataclass(frozen=True, slots=True)
class PlanLook:
    """The plan of a group, and how many of its pods would fit if there were more room."""

    answer: Fit | Refuse
    checks: tuple[GateCheck, ...]
    """The gates `ABLE_PODS` and `ROOM`, or only the earlier gate that refuses."""
    free: Fit | None = None
    """The fit in free room; None if an earlier gate refuses."""
    unkept: Fit | None = None
    """The fit if no room were kept for other groups; None if none is kept."""
    empty: Fit | None = None
    """The fit on empty nodes; None if the extender cannot tell."""


def explain_plan(
    pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView, permitted: bool = False
) -> Steps[PlanLook]:
    """Return the plan of a group with all its details. This takes longer than a plan alone."""
    attempt = attempt_of(pod, pod_group, view=view, permitted=permitted)
    yield
    last = yield from planned(attempt)
    answer = answer_of(last)
    if last.gate is not Gate.ROOM:
        return PlanLook(answer, (last,))
    free = yield from attempt.fit(Room.FREE)
    free = yield from free.explained()
    able = GateCheck(Gate.ABLE_PODS, None, len(attempt.pods), attempt.missing)
    checks = able, GateCheck(Gate.ROOM, last.refusal, free.count, attempt.missing)
    if free.complete:
        return PlanLook(answer, checks, free)
    unkept = (yield from attempt.fit(Room.UNKEPT)) if view.keeps_room else None
    empty = (yield from attempt.fit(Room.EMPTY)) if attempt.is_readable else None
    return PlanLook(answer, checks, free, unkept, empty)


def checked(group: str, facts: GroupFacts, look: PlanLook | None) -> Iterator[GateCheck]:
    """Yield the answer of each gate up to the first refusal; `look` is that of the planner."""
    view, denied = facts.view, facts.remembered(group).denied

    def turn(_: str) -> Refuse | None:
        pod_group = view.pod_group(group)
        if pod_group is None or not facts.options.strict_order:
            return None
        return refusal_behind(pod_group, view=view, skip=facts.never_starts)

    ask = asked(group, view, Known(lambda _: recently_denied(denied), turn))
    if not (yield from through({Gate.ADMISSION: is_admitted, **CAN_START}, ask)):
        return
    if ask.missing <= 0:
        yield _quorum(ask, facts)
        return
    if not (yield from through(MAY_BE_PLANNED, ask)):
        return
    if look is not None:
        yield from look.checks
        return
    text = f"0 of the {ask.missing} pods that it still needs can start"
    yield GateCheck(Gate.ABLE_PODS, Refuse(Reason.NOT_ENOUGH_PODS, text), 0, ask.missing)


def answers(group: str, found: list[GateCheck], facts: GroupFacts) -> list[PassedGate]:
    """Return all gates, those that need no answer too."""
    known = {each.gate: each for each in found}
    last, at = found[-1], _ORDER.index(found[-1].gate)
    has_room = last.gate is Gate.QUORUM
    shown = []
    for place, gate in enumerate(_ORDER):
        check = known.get(gate)
        answer: GateAnswer
        if gate is Gate.RECENT_FAILURE and facts.source == "ApiServer" and place < at:
            answer, text = "Unknown", "the extender alone knows: GET /podgroups/NAMESPACE/NAME"
            check = None
        elif check is not None and check.refusal is not None:
            answer, text = "Refused", check.refusal.message.removeprefix(about(group))
        elif check is not None:
            answer, text = "Passed", _PASSED[gate].format(have=check.have, need=check.need)
        elif place < at:
            needs_room = has_room and place > _ORDER.index(Gate.SCHEDULING_GATES)
            answer, text = "Passed", _PASSED[gate]
            text = "it has the room that it needs" if needs_room else text
        else:
            answer, text = "NotAsked", _why_not_asked(gate, last)
        refusal = check.refusal if check is not None else None
        shown.append(
            PassedGate(
                gate=gate,
                answer=answer,
                reason=refusal.reason if refusal is not None else None,
                message=text,
                have=check.have if check is not None else None,
                need=check.need if check is not None else None,
            )
        )
    return shown


def _why_not_asked(gate: Gate, last: GateCheck) -> str:
    if last.refusal is not None:
        return f"it waits at {last.gate}"
    return "kube-scheduler brings its pods first" if gate is Gate.QUORUM else "nothing asks for it"


def _quorum(ask: Asked, facts: GroupFacts) -> GateCheck:
    """Return whether its members are bound, or how many wait for how many."""
    until, have, need = facts.remembered(ask.group).starts_by, ask.tally.assigned, ask.need
    deadline = until if until is not None else float("inf")
    match hold.bind_or_wait(ask.group, view=ask.view, now=facts.now, deadline=deadline):
        case Allow():
            return GateCheck(Gate.QUORUM, None, have, need)
        case Wait():
            text = f"{have} of the {need} pods that it needs have a node or wait with one"
            return GateCheck(Gate.QUORUM, Refuse(Reason.WAITING_FOR_BIND, text), have, need)
        case Refuse() as refusal:
            return GateCheck(Gate.QUORUM, refusal, have, need)


def hints(
    group: str, last: GateCheck, room: RoomFound | None, *, facts: GroupFacts
) -> Iterator[str]:
    """Yield what would help a group whose last answered gate is this one."""
    if last.refusal is None:
        if last.gate is Gate.ROOM:
            yield "nothing is missing: it starts when kube-scheduler has brought its pods"
        return
    view, lacks = facts.view, max(0, (last.need or 0) - (last.have or 0))
    if last.gate is Gate.SCHEDULING_GATES:
        names = {gate for uid in view.tally(group).gated for gate in view.pods[uid].gates}
        listed = f": {', '.join(sorted(names))}" if names else ""
        yield f"{_pods(lacks)} more without scheduling gates{listed}"
    elif last.gate in _HELP:
        yield _HELP[last.gate].format(lacks=_pods(lacks))
    elif last.gate is Gate.ROOM and room is not None:
        yield from _room(room, facts)
    until = facts.remembered(group)
    if last.gate is Gate.RECENT_FAILURE and until.denied_until is not None:
        seconds = max(0.0, until.denied_until - facts.now)
        yield f"{seconds:.1f} s more: then it is looked at again, or when enough room appears"
    if last.gate is Gate.QUORUM and until.starts_by is not None:
        yield f"before {moment(until.starts_by):%H:%M:%S} UTC: then all give their room back"


def _room(room: RoomFound, facts: GroupFacts) -> Iterator[str]:
    missing = room.wanted - room.fit
    if not room.usable_nodes:
        yield "nodes that the pods' selectors, affinity and tolerations let them use"
        return
    short = ", ".join(f"{name} {amount}" for name, amount in room.short.items())
    where = " in one domain" if room.within is not None else ""
    yield f"room for {_pods(missing)} more{where}" + (f": {short}" if short else "")
    kept, empty = room.fit_if_nothing_were_kept, room.fit_on_empty_nodes
    if kept is not None and kept >= room.wanted:
        yield "the groups for which room is kept start elsewhere, or give it up"
    elif empty is not None and empty >= room.wanted:
        yield "other pods end: on empty nodes it would fit"
    elif empty is not None:
        yield (
            f"larger nodes, or more of them: on empty ones {empty} of {_pods(room.wanted)} would "
            "fit"
        )
    if facts.options.preempts and empty is not None and empty >= room.wanted:
        yield "or a higher priority than these pods have: then it preempts them"


def _pods(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"
