"""The explanation of a group or a pod as text for a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from extender.api.gang_explanations import (
    ExplainedMember,
    GroupExplanation,
    MemberCounts,
    PassedGate,
    PodOutlook,
    RoomFound,
    RoomKept,
)
from extender.explain.lines import ago, line, table

NAMED: Final = 5
"""How many nodes, or pods of equal state, are named; the others are counted."""
_LONGEST: Final = 160
"""Characters of what kube-scheduler says of a pod; `-o json` has all of it."""


def group_text(found: GroupExplanation, now: datetime) -> str:
    """Return everything there is to say, in lines; `now` is what ages are counted to."""
    return _joined(
        _headline(found, now),
        _gates(found.gates),
        _room(found.room),
        _ahead(found),
        _kept("Room is kept for it", found.kept, now),
        _kept("Room is kept from it", found.kept_from_it, now, more=found.more_kept),
        _members(found),
        _conditions(found, now),
    )


def pod_text(found: PodOutlook, now: datetime) -> str:
    """Return the same of a pod, and of its group after it."""
    own = _joined(_of_pod(found))
    return own if found.group is None else f"{own}\n{group_text(found.group, now)}"


def _joined(*blocks: Iterator[str]) -> str:
    return "\n\n".join("\n".join(block) for block in map(list, blocks) if block) + "\n"


def _of_pod(found: PodOutlook) -> Iterator[str]:
    yield line("Pod", f"{found.namespace}/{found.name}")
    group = found.group
    yield line("PodGroup", f"{group.namespace}/{group.name}" if group is not None else "none")
    yield line("State", f"{found.state} ({found.reason})" if found.reason else found.state)
    yield line("", found.message)
    if found.node is not None:
        yield line("Node", found.node)
    if found.gates:
        yield line("Gates", ", ".join(found.gates))
    yield line("Priority", str(found.priority))
    yield line("Scheduler", found.scheduler_name)
    if found.said:
        yield line("Said of it", _short(found.said))


def _headline(found: GroupExplanation, now: datetime) -> Iterator[str]:
    yield line("PodGroup", f"{found.namespace}/{found.name}")
    if found.created is not None:
        phase = found.phase or "no phase yet"
        yield line("Status", f"{phase}, created {ago(found.created, now)}")
    yield line("State", f"{found.state} ({found.reason})")
    yield line("", found.message)
    yield line("Priority", str(found.priority))
    done = found.min_member - found.needed
    rest = f", {done} of minMember {found.min_member} are done" if done > 0 else ""
    yield line("Pods", f"{_counts(found.pods)}; {found.needed} needed{rest}")
    if found.position is not None:
        since = f", for {_age(found.waits_since, now)}" if found.waits_since is not None else ""
        place = f"{found.position.index + 1} of {found.position.of} groups that wait for room"
        yield line("Position", place + since)
    if found.claim_due is not None:
        yield line("Claim", f"nodes are set aside for it from {found.claim_due:%H:%M:%S} UTC on")
    course = found.preemption
    if course is not None:
        text = f"{course.pods} pods of lower priority make room on {len(course.nodes)} nodes"
        yield line("Preemption", f"{text}, {course.leaving} of them are still there")
    for number, each in enumerate(found.would_help):
        yield line("" if number else "Would help", each)
    for number, each in enumerate(found.notes):
        yield line("" if number else "Note", each)


def _counts(pods: MemberCounts) -> str:
    words = {
        "bound": pods.bound,
        "being bound": pods.binding,
        "held with a node": pods.held,
        "planned": pods.planned,
        "gated": pods.gated,
        "behind our gate": pods.gated_by_us,
        "being deleted": pods.leaving,
        "waiting": pods.waiting,
    }
    there = ", ".join(f"{count} {word}" for word, count in words.items() if count)
    return f"{pods.exist} exist{': ' if there else ''}{there}"


def _gates(gates: Sequence[PassedGate]) -> Iterator[str]:
    if gates:
        yield "Gates, in the order in which they are asked"
        marks = {"Passed": "yes", "Refused": "NO", "NotAsked": "-", "Unknown": "?"}
        rows = ((each.gate, marks[each.answer], each.message) for each in gates)
        yield from table(("GATE", "PASSED", "WHY"), rows)


def _room(room: RoomFound | None) -> Iterator[str]:
    if room is None:
        return
    yield f"Room for the {room.wanted} pods that it still needs"
    within = f", all in one domain of {room.within}" if room.within is not None else ""
    yield f"  {room.fit} fit now{within}, on {room.usable_nodes} usable of {room.all_nodes} nodes"
    if room.short:
        yield f"  short of {_amounts(room.short)}"
    if room.fit_if_nothing_were_kept is not None:
        yield f"  {room.fit_if_nothing_were_kept} would fit if no room were kept for other groups"
    if room.fit_on_empty_nodes is not None:
        yield f"  {room.fit_on_empty_nodes} would fit if the nodes were empty"
    if room.nodes:
        yield f"  they would go to {_nodes(room.nodes)}"


def _ahead(found: GroupExplanation) -> Iterator[str]:
    if not found.ahead and not found.more_ahead:
        return
    yield "Ahead of it"
    rows = ((f"{x.namespace}/{x.name}", str(x.priority), str(x.needed)) for x in found.ahead)
    if found.ahead:
        yield from table(("PODGROUP", "PRIORITY", "NEEDS PODS"), rows)
    if found.more_ahead:
        yield f"  and {found.more_ahead} {'more' if found.ahead else 'of other namespaces'}"


def _kept(title: str, kept: Sequence[RoomKept], now: datetime, *, more: int = 0) -> Iterator[str]:
    if not kept and not more:
        return
    yield title
    rows = (
        (
            f"{each.namespace}/{each.name}",
            each.kind,
            str(each.pods or "-"),
            _nodes(dict.fromkeys(each.nodes, 1)),
            _amounts(each.amounts),
            _until(each, now),
        )
        for each in kept
    )
    yield from table(("FOR", "KIND", "PODS", "NODES", "AMOUNTS", "UNTIL"), rows)
    if more:
        yield f"  and for {more} more groups"


def _until(each: RoomKept, now: datetime) -> str:
    if each.until is None:
        return each.ends
    return f"{each.ends} (in {max(0, int((each.until - now).total_seconds()))}s)"


def _members(found: GroupExplanation) -> Iterator[str]:
    """Yield the pods without a node, some of each kind, and how many are on each node."""
    left = [each for each in found.members if each.state != "Bound"]
    if left:
        yield "Pods without a node"
        seen = Counter[tuple[str, str]]()
        shown = []
        for each in left:
            kind = each.state, each.message or ""
            seen[kind] += 1
            if seen[kind] <= NAMED:
                shown.append(_member(each))
        yield from table(("POD", "STATE", "NODE", "SAID OF IT"), shown)
        more = len(left) - len(shown) + found.more_members
        if more:
            yield f"  and {more} more"
    nodes = Counter(each.node for each in found.members if each.state == "Bound" and each.node)
    if nodes:
        yield line("Runs on", _nodes(dict(sorted(nodes.items()))))


def _member(each: ExplainedMember) -> Sequence[str]:
    state = f"{each.state} ({each.reason})" if each.reason else each.state
    said = ", ".join(each.gates) or _short(each.message or "-")
    return each.name, state, each.node or "-", said


def _conditions(found: GroupExplanation, now: datetime) -> Iterator[str]:
    if found.conditions:
        yield "Conditions"
        rows = (
            (each.type, each.status, each.reason, ago(each.last_transition_time, now), each.message)
            for each in found.conditions
        )
        yield from table(("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def _age(at: datetime, now: datetime) -> str:
    return ago(at, now).removesuffix(" ago")


def _nodes(nodes: Mapping[str, int]) -> str:
    first = [f"{name} ({n})" if n > 1 else name for name, n in [*nodes.items()][:NAMED]]
    more = len(nodes) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "-"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
