"""An explanation as text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from extender.api.visibility_v1beta2 import Explanation, Holder, Position, WaitingFor

_LABEL = 14


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
    yield _line("Workload", f"{found.namespace}/{found.name}")
    if found.owners:
        others = len(found.owners) - 1
        more = f" and {others} more" if others else ""
        yield _line("Job", f"{found.owners[0].kind}/{found.owners[0].name}{more}")
    yield _line("Queue", _queue(found))
    named = f" ({found.priority_class})" if found.priority_class else ""
    yield _line("Priority", f"{found.priority}{named}")
    yield _line("Created", _ago(found.created, now))
    word = f" ({found.reason})" if found.reason != found.state else ""
    yield _line("State", f"{found.state}{word}")
    if found.message:
        yield _line("", found.message)
    inside, beside = found.position_in_cluster_queue, found.position_in_local_queue
    if inside and beside:
        place = f"{_place(inside)} in the ClusterQueue, {_place(beside)} in the LocalQueue"
        yield _line("Position", place)
    for note in found.notes:
        yield _line("", note)


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
    yield from _table(names, (_holder(holder, now) for holder in each.holders))
    if each.more_holders:
        yield f"  and {each.more_holders} more"


def _holder(holder: Holder, now: datetime) -> Sequence[str]:
    since = _ago(holder.since, now) if holder.since else "just now"
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
    yield from _table((*names, "MISSING"), rows)


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
    yield from _table(("POD SET", "PODS", "EACH", "TOGETHER", "FLAVORS"), rows)


def _running(found: Explanation) -> Iterator[str]:
    if found.nodes:
        yield _line("Runs on", ", ".join(f"{name} ({n})" for name, n in found.nodes.items()))
    group = found.pod_group
    if group:
        least = f"of at least {group.min_member}"
        yield _line(
            "PodGroup",
            f"{group.name}: {group.phase or 'no phase yet'}, "
            f"{group.scheduled} scheduled and {group.running} running {least}",
        )


def _conditions(found: Explanation, now: datetime) -> Iterator[str]:
    if not found.conditions:
        return
    yield "Conditions"
    rows = (
        (each.type, each.status, each.reason, _ago(each.last_transition_time, now), each.message)
        for each in found.conditions
    )
    yield from _table(("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def _line(label: str, words: str) -> str:
    return f"{label:<{_LABEL}}{words}"


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "-"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [names, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    for line in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _ago(at: datetime, now: datetime) -> str:
    """Return an age with its two largest units, such as 3m12s."""
    seconds = max(0, int((now - at).total_seconds()))
    parts: list[str] = []
    for letter, unit in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, unit)
        if number or parts:
            parts.append(f"{number}{letter}")
    return f"{''.join(parts[:2]) or '0s'} ago"
