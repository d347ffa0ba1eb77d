"""An explanation as text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from extender.api.visibility_v1beta2 import Explanation, Holder, Position, WaitingFor
from extender.explain.lines import ago, line, table


def text(found: Explanation, now: datetime) -> str:
    """Return everything there is to say, in lines; `now` is what ages are counted to."""
    blocks = (
        _headline(found, now),
        _waiting(found, now),
        _quotas(found),
        _pod_sets(found),
        _running(found),
        _conditions(found, now),
    )
    return "\n\n".join("\n".join(block) for block in map(list, blocks) if block) + "\n"


def _headline(found: Explanation, now: datetime) -> Iterator[str]:
    yield line("Workload", f"{found.namespace}/{found.name}")
    if found.owners:
        others = len(found.owners) - 1
        more = f" and {others} more" if others else ""
        yield line("Job", f"{found.owners[0].kind}/{found.owners[0].name}{more}")
    yield line("Queue", _queue(found))
    named = f" ({found.priority_class})" if found.priority_class else ""
    yield line("Priority", f"{found.priority}{named}")
    yield line("Created", ago(found.created, now))
    word = f" ({found.reason})" if found.reason != found.state else ""
    yield line("State", f"{found.state}{word}")
    if found.message:
        yield line("", found.message)
    inside, beside = found.position_in_cluster_queue, found.position_in_local_queue
    if inside and beside:
        place = f"{_place(inside)} in the ClusterQueue, {_place(beside)} in the LocalQueue"
        yield line("Position", place)
    for note in found.notes:
        yield line("", note)


def _queue(found: Explanation) -> str:
    if found.cluster_queue is None:
        return f"LocalQueue {found.local_queue}"
    cohort = f", cohort {found.cohort}" if found.cohort else ""
    return f"LocalQueue {found.local_queue}, ClusterQueue {found.cluster_queue}{cohort}"


def _place(position: Position) -> str:
    return f"{position.index + 1} of {position.of}"


def _waiting(found: Explanation, now: datetime) -> Iterator[str]:
    for each in found.waiting_for:
        yield f"Waits for {each.missing} more {each.resource} of flavor {each.flavor}. Held by:"
        yield from _holders(each, now)


def _holders(each: WaitingFor, now: datetime) -> Iterator[str]:
    if not each.holders:
        yield "  no workload"
        return
    names = ("WORKLOAD", "JOB", "CLUSTERQUEUE", each.resource.upper(), "PRIORITY", "SINCE")
    yield from table(names, (_holder(holder, now) for holder in each.holders))
    if each.more_holders:
        yield f"  and {each.more_holders} more"


def _holder(holder: Holder, now: datetime) -> Sequence[str]:
    since = ago(holder.since, now) if holder.since else "just now"
    return (
        f"{holder.namespace}/{holder.name}",
        holder.job or "-",
        holder.cluster_queue,
        holder.amount,
        str(holder.priority),
        f"{since}, leaves" if holder.leaving else since,
    )


def _quotas(found: Explanation) -> Iterator[str]:
    if not found.quotas:
        return
    yield f"Quota of ClusterQueue {found.cluster_queue}"
    names = ("FLAVOR", "RESOURCE", "ASKED", "NOMINAL", "BORROWING LIMIT", "USED", "AVAILABLE")
    rows = (
        (
            each.flavor,
            each.resource,
            each.asked,
            each.nominal,
            each.borrowing_limit or ("none" if found.cohort else "-"),
            each.used,
            each.available,
            each.unfit or each.missing,
        )
        for each in found.quotas
    )
    yield from table((*names, "MISSING"), rows)


def _pod_sets(found: Explanation) -> Iterator[str]:
    yield "Pods"
    rows = (
        (
            each.name,
            str(each.count),
            _amounts(each.each),
            _amounts(each.total),
            ", ".join(dict.fromkeys(each.flavors.values())) or "-",
        )
        for each in found.pod_sets
    )
    yield from table(("POD SET", "PODS", "EACH", "TOGETHER", "FLAVORS"), rows)


def _running(found: Explanation) -> Iterator[str]:
    if found.nodes:
        yield line("Runs on", ", ".join(f"{name} ({n})" for name, n in found.nodes.items()))
    group = found.pod_group
    if group:
        least = f"of at least {group.min_member}"
        yield line(
            "PodGroup",
            f"{group.name}: {group.phase or 'no phase yet'}, "
            f"{group.scheduled} scheduled and {group.running} running {least}",
        )


def _conditions(found: Explanation, now: datetime) -> Iterator[str]:
    if not found.conditions:
        return
    yield "Conditions"
    rows = (
        (each.type, each.status, each.reason, ago(each.last_transition_time, now), each.message)
        for each in found.conditions
    )
    yield from table(("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "-"
