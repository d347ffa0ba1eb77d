"""What would make a group start, in sentences: from the gate that refuses it."""

from collections.abc import Iterator, Mapping
from typing import Final

from extender.api.gang_explanations import RoomFound
from extender.explain.facts import moment
from extender.explain.gang_facts import GroupFacts
from extender.gang.gates import Gate, GateCheck

_FIXED: Final[Mapping[Gate, str]] = {
    Gate.ADMISSION: "its queue admits the Job: gang-extender explain job NAME says why it waits",
    Gate.POD_GROUP: "a PodGroup of that name in that namespace",
    Gate.ANNOTATIONS: "an annotation that is mended, as the message says",
    Gate.PODS: "{lacks} more",
    Gate.SCHEDULING_GATES: "{lacks} more without scheduling gates",
    Gate.TURN: "the groups ahead of it start",
    Gate.TOPOLOGY: "nodes with that label, or a PodGroup that names another one",
    Gate.MIN_RESOURCES: "free amounts as the message says, or smaller minResources",
    Gate.ABLE_PODS: "{lacks} more",
    Gate.QUORUM: "{lacks} more with a node, which kube-scheduler is to bring",
}


def hints(
    group: str, last: GateCheck, room: RoomFound | None, *, facts: GroupFacts
) -> Iterator[str]:
    """Yield what would help a group whose last answered gate is this one."""
    if last.refusal is None:
        if last.gate is Gate.ROOM:
            yield "nothing is missing: it starts when kube-scheduler has brought its pods"
        return
    lacks = max(0, (last.need or 0) - (last.have or 0))
    if last.gate in _FIXED:
        yield _FIXED[last.gate].format(lacks=_pods(lacks)) + _gates(group, last, facts)
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


def _gates(group: str, last: GateCheck, facts: GroupFacts) -> str:
    """Return the gates of others, as the end of a sentence about them."""
    if last.gate is not Gate.SCHEDULING_GATES:
        return ""
    view = facts.view
    names = {gate for uid in view.tally(group).gated for gate in view.pods[uid].gates}
    return f": {', '.join(sorted(names))}" if names else ""


def _pods(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"
