"""An explanation as text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from extender.api.visibility_v1beta2 import Explanation, Holder, Position, WaitingFor

_LABEL = 14


def text(told: Explanation, now: datetime) -> str:
    """Return everything there is to say, in lines; `now` is what ages are counted to."""
    blocks = (
        _headline(told, now),
        _waiting(told, now),
        _quotas(told),
        _pod_sets(told),
        _running(told),
        _conditions(told, now),
    )
    return "\n\n".join("\n".join(block) for block in map(list, blocks) if block) + "\n"


def _headline(told: Explanation, now: datetime) -> Iterator[str]:
    yield _line("Workload", f"{told.namespace}/{told.name}")
    if told.owners:
        others = len(told.owners) - 1
        more = f" and {others} more" if others else ""
        yield _line("Job", f"{told.owners[0].kind}/{told.owners[0].name}{more}")
    yield _line("Queue", _queue(told))
    named = f" ({told.priority_class})" if told.priority_class else ""
    yield _line("Priority", f"{told.priority}{named}")
    yield _line("Created", _ago(told.created, now))
    word = f" ({told.reason})" if told.reason != told.state else ""
    yield _line("State", f"{told.state}{word}")
    if told.message:
        yield _line("", told.message)
    inside, beside = told.position_in_cluster_queue, told.position_in_local_queue
    if inside and beside:
        place = f"{_place(inside)} in the ClusterQueue, {_place(beside)} in the LocalQueue"
        yield _line("Position", place)
    for note in told.notes:
        yield _line("", note)


def _queue(told: Explanation) -> str:
    if told.cluster_queue is None:
        return f"LocalQueue {told.local_queue}"
    cohort = f", cohort {told.cohort}" if told.cohort else ""
    return f"LocalQueue {told.local_queue}, ClusterQueue {told.cluster_queue}{cohort}"


def _place(position: Position) -> str:
    return f"{position.index + 1} of {position.of}"


def _waiting(told: Explanation, now: datetime) -> Iterator[str]:
    for each in told.waiting_for:
        yield f"Waits for {each.missing} more {each.resource} of flavor {each.flavor}. Held by:"
        yield from _holders(each, now)


def _holders(each: WaitingFor, now: datetime) -> Iterator[str]:
    if not each.holders:
        yield "  nobody"
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


def _quotas(told: Explanation) -> Iterator[str]:
    if not told.quotas:
        return
    yield f"Quota of ClusterQueue {told.cluster_queue}"
    names = ("FLAVOR", "RESOURCE", "ASKED", "NOMINAL", "BORROWING LIMIT", "USED", "AVAILABLE")
    rows = (
        (
            each.flavor,
            each.resource,
            each.asked,
            each.nominal,
            each.borrowing_limit or ("none" if told.cohort else "-"),
            each.used,
            each.available,
            each.unfit or each.missing,
        )
        for each in told.quotas
    )
    yield from _table((*names, "MISSING"), rows)


def _pod_sets(told: Explanation) -> Iterator[str]:
    yield "Pods"
    rows = (
        (
            each.name,
            str(each.count),
            _amounts(each.each),
            _amounts(each.total),
            ", ".join(dict.fromkeys(each.flavors.values())) or "-",
        )
        for each in told.pod_sets
    )
    yield from _table(("POD SET", "PODS", "EACH", "TOGETHER", "FLAVORS"), rows)


def _running(told: Explanation) -> Iterator[str]:
    if told.nodes:
        yield _line("Runs on", ", ".join(f"{name} ({n})" for name, n in told.nodes.items()))
    group = told.pod_group
    if group:
        least = f"of at least {group.min_member}"
        yield _line(
            "PodGroup",
            f"{group.name}: {group.phase or 'not told yet'}, "
            f"{group.scheduled} scheduled and {group.running} running {least}",
        )


def _conditions(told: Explanation, now: datetime) -> Iterator[str]:
    if not told.conditions:
        return
    yield "Conditions"
    rows = (
        (each.type, each.status, each.reason, _ago(each.last_transition_time, now), each.message)
        for each in told.conditions
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
