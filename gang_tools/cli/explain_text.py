"""Explanations as text for a terminal: the same lines and tables for workloads, groups and pods."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from extender.api.explanations import (
    ExplainedMember,
    Explanation,
    GroupExplanation,
    Holder,
    MemberCounts,
    PodOutlook,
    Position,
    RoomFound,
    RoomKept,
    TimedCondition,
)
from extender.explain.facts import NAMED
from gang_tools.cli.context import age

LONGEST: Final = 160
"""Characters of what kube-scheduler says of a pod; `-o json` has all of it."""
_MARKS: Final = {"Passed": "yes", "Refused": "NO", "NotAsked": "-", "Unknown": "?"}


def workload_text(found: Explanation, now: datetime) -> str:
    """Return the explanation of a workload in lines; ages are counted to `now`."""
    group, nodes = found.pod_group, found.nodes
    running = [line("Runs on", ", ".join(f"{name} ({n})" for name, n in nodes.items()))]
    progress = []
    if group is not None:
        phase = f"{group.name}: {group.phase or 'no phase yet'}"
        done = f"{group.scheduled} scheduled and {group.running} running"
        progress = [line("PodGroup", f"{phase}, {done} of at least {group.min_member}")]
    return _joined(
        _workload(found, now),
        _waiting(found, now),
        _quotas(found),
        _pod_sets(found),
        [*(running if nodes else ()), *progress],
        _conditions(found.conditions, now),
    )


def group_text(found: GroupExplanation, now: datetime) -> str:
    """Return the explanation of a group in lines; ages are counted to `now`."""
    gates = ({**each.model_dump(), "passed": _MARKS[each.answer]} for each in found.gates)
    return _joined(
        _group(found, now),
        table("Gates, in the order in which they are asked", "gate passed message=why", gates),
        _room(found.room),
        _ahead(found),
        _kept("Room is kept for it", found.kept, now),
        _kept("Room is kept from it", found.kept_from_it, now, more=found.more_kept),
        _members(found),
        _conditions(found.conditions, now),
    )


def pod_text(found: PodOutlook, now: datetime) -> str:
    """Return the explanation of a pod in lines, and that of its group after it."""
    own = _joined(_pod(found))
    return own if found.group is None else f"{own}\n{group_text(found.group, now)}"


def line(label: str, words: str) -> str:
    """Return words with what they are about in front of them."""
    return f"{label:<14}{words}"


def table(title: str, columns: str, rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield a title and the lines of a table, as wide as its cells; nothing without rows.

    A column is `FIELD` or `FIELD=ITS_HEAD`.
    """
    named = [each.partition("=")[::2] for each in columns.split()]
    lines = [[(head or name).replace("_", " ").upper() for name, head in named]]
    lines += [[_cell(row[name]) for name, _ in named] for row in rows]
    if len(lines) == 1:
        return
    yield title
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        yield f"  {'  '.join(map(str.ljust, cells, widths))}".rstrip()


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return _amounts(value)
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)


def _ago(at: datetime, now: datetime) -> str:
    return f"{age(int((now - at).total_seconds()))} ago"


def _joined(*blocks: Iterable[str]) -> str:
    return "\n\n".join("\n".join(block) for block in map(list, blocks) if block) + "\n"


def _workload(found: Explanation, now: datetime) -> Iterator[str]:
    yield line("Workload", f"{found.namespace}/{found.name}")
    if found.owners:
        others = len(found.owners) - 1
        more = f" and {others} more" if others else ""
        yield line("Job", f"{found.owners[0].kind}/{found.owners[0].name}{more}")
    queue = f", ClusterQueue {found.cluster_queue}" if found.cluster_queue is not None else ""
    cohort = f", cohort {found.cohort}" if queue and found.cohort else ""
    yield line("Queue", f"LocalQueue {found.local_queue}{queue}{cohort}")
    named = f" ({found.priority_class})" if found.priority_class else ""
    yield line("Priority", f"{found.priority}{named}")
    yield line("Created", _ago(found.created, now))
    yield line("State", found.state + (f" ({found.reason})" * (found.reason != found.state)))
    if found.message:
        yield line("", found.message)
    inside, beside = found.position_in_cluster_queue, found.position_in_local_queue
    if inside and beside:
        place = f"{_place(inside)} in the ClusterQueue, {_place(beside)} in the LocalQueue"
        yield line("Position", place)
    for note in found.notes:
        yield line("", note)


def _place(position: Position) -> str:
    return f"{position.index + 1} of {position.of}"


def _waiting(found: Explanation, now: datetime) -> Iterator[str]:
    for each in found.waiting_for:
        title = f"Waits for {each.missing} more {each.resource} of flavor {each.flavor}. Held by:"
        columns = f"workload job cluster_queue=clusterqueue amount={each.resource} priority since"
        if not each.holders:
            yield from (title, "  no workload")
            continue
        yield from table(title, columns, (_holder(holder, now) for holder in each.holders))
        if each.more_holders:
            yield f"  and {each.more_holders} more"


def _holder(holder: Holder, now: datetime) -> Mapping[str, object]:
    since = _ago(holder.since, now) if holder.since else "just now"
    since = f"{since}, leaves" if holder.leaving else since
    workload = f"{holder.namespace}/{holder.name}"
    return {**holder.model_dump(), "workload": workload, "since": since}


def _quotas(found: Explanation) -> Iterator[str]:
    no_limit = "none" if found.cohort else "-"
    rows = (
        {
            **each.model_dump(),
            "borrowing_limit": each.borrowing_limit or no_limit,
            "missing": each.unfit or each.missing,
        }
        for each in found.quotas
    )
    columns = "flavor resource asked nominal borrowing_limit used available missing"
    yield from table(f"Quota of ClusterQueue {found.cluster_queue}", columns, rows)


def _pod_sets(found: Explanation) -> Iterator[str]:
    rows = (
        {**each.model_dump(), "flavors": [*dict.fromkeys(each.flavors.values())]}
        for each in found.pod_sets
    )
    yield from table("Pods", "name=pod_set count=pods each total=together flavors", rows)


def _group(found: GroupExplanation, now: datetime) -> Iterator[str]:
    yield line("PodGroup", f"{found.namespace}/{found.name}")
    if found.created is not None:
        phase = found.phase or "no phase yet"
        yield line("Status", f"{phase}, created {_ago(found.created, now)}")
    yield line("State", f"{found.state} ({found.reason})")
    yield line("", found.message)
    yield line("Priority", str(found.priority))
    done = found.min_member - found.needed
    rest = f", {done} of minMember {found.min_member} are done" if done > 0 else ""
    yield line("Pods", f"{_counts(found.pods)}; {found.needed} needed{rest}")
    if found.position is not None:
        place = f"{_place(found.position)} groups that wait for room"
        if found.waits_since is not None:
            place += f", for {_ago(found.waits_since, now).removesuffix(' ago')}"
        yield line("Position", place)
    if found.claim_due is not None:
        yield line("Claim", f"nodes are set aside for it from {found.claim_due:%H:%M:%S} UTC on")
    course = found.preemption
    if course is not None:
        text = f"{course.pods} pods of lower priority make room on {len(course.nodes)} nodes"
        yield line("Preemption", f"{text}, {course.leaving} of them are still there")
    for label, texts in (("Would help", found.would_help), ("Note", found.notes)):
        for number, each in enumerate(texts):
            yield line("" if number else label, each)


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
    rows = ({**x.model_dump(), "name": f"{x.namespace}/{x.name}"} for x in found.ahead)
    yield from table("Ahead of it", "name=podgroup priority needed=needs_pods", rows)
    if found.more_ahead and found.ahead:
        yield f"  and {found.more_ahead} more"
    elif found.more_ahead:
        yield from ("Ahead of it", f"  and {found.more_ahead} of other namespaces")


def _kept(title: str, kept: Sequence[RoomKept], now: datetime, *, more: int = 0) -> Iterator[str]:
    rows = (
        {
            **each.model_dump(),
            "for": f"{each.namespace}/{each.name}",
            "pods": each.pods or "-",
            "nodes": _nodes(dict.fromkeys(each.nodes, 1)),
            "until": _until(each, now),
        }
        for each in kept
    )
    yield from table(title, "for kind pods nodes amounts until", rows)
    if more:
        yield f"  and for {more} more groups"


def _until(each: RoomKept, now: datetime) -> str:
    if each.until is None:
        return each.ends
    return f"{each.ends} (in {max(0, int((each.until - now).total_seconds()))}s)"


def _members(found: GroupExplanation) -> Iterator[str]:
    """Yield the pods without a node, some of each kind, and how many are on each node."""
    left = [each for each in found.members if each.state != "Bound"]
    seen, shown = Counter[tuple[str, str]](), []
    for each in left:
        kind = each.state, each.message or ""
        seen[kind] += 1
        if seen[kind] <= NAMED:
            shown.append(_member(each))
    yield from table("Pods without a node", "name=pod state node said=said_of_it", shown)
    more = len(left) - len(shown) + found.more_members
    if left and more:
        yield f"  and {more} more"
    nodes = Counter(each.node for each in found.members if each.state == "Bound" and each.node)
    if nodes:
        yield line("Runs on", _nodes(dict(sorted(nodes.items()))))


def _member(each: ExplainedMember) -> Mapping[str, object]:
    state = f"{each.state} ({each.reason})" if each.reason else each.state
    said = each.gates or _short(each.message or "-")
    return {"name": each.name, "state": state, "node": each.node, "said": said}


def _pod(found: PodOutlook) -> Iterator[str]:
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


def _conditions(conditions: Sequence[TimedCondition], now: datetime) -> Iterator[str]:
    rows = (
        {**each.model_dump(), "since": _ago(each.last_transition_time, now)} for each in conditions
    )
    yield from table("Conditions", "type status reason since message", rows)


def _nodes(nodes: Mapping[str, int]) -> str:
    first = [f"{name} ({n})" if n > 1 else name for name, n in [*nodes.items()][:NAMED]]
    more = len(nodes) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "-"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
