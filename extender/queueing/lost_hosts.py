"""Hosts that pods of a workload were given and that are gone, and what becomes of the workload.

A host is gone when it has no node any more, or none that was ready within the last half minute.
Its pods may still be there, and may run: other hosts are for the pods that come in their place.
Evicting cannot be taken back, so a workload of which pods have a node is evicted only where its
gang asks for that (`gang.onPartial`), and after the patience of a gang that is partial.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from extender.api.reasons import EventReason, EvictionReason, HostReason
from extender.api.wellknown import HOSTNAME_LABEL, WorkloadCondition
from extender.gang.phase import policy
from extender.gang.verdicts import GangOptions, OnPartial
from extender.jobs.workload import pod_group_key
from extender.queueing import lifecycle
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import Assignment, WorkloadInfo

UNREADY_SECONDS: Final = 30.0
"""The time for which a node must have been not ready before it counts as gone, as in Kueue."""
_NAMED: Final = 5
"""Hosts whose names a message has."""
HELD: Final = "the node selector of its pods names it"
"""The reason why pods cannot go to another host although one may have room."""

LostAt = Mapping[str, float]
"""The time from which a host counts as gone, in seconds since the epoch; infinite for never."""


@dataclass(frozen=True, slots=True)
class HostRules:
    """The rules for a gang that has lost some of its pods."""

    default: OnPartial = OnPartial.KEEP
    options: GangOptions = field(default_factory=GangOptions)


@dataclass(frozen=True, slots=True)
class HostStep:
    """The status to write to a workload, the Event, and the seconds until the next look."""

    after: WorkloadInfo
    reason: str = ""
    message: str = ""
    again: float | None = None


def lost_at(nodes: Iterable[NodeInfo]) -> LostAt:
    """Return from when on each host counts as gone; one without a node is not there."""
    found: dict[str, float] = {}
    for node in nodes:
        host, since = node.labels.get(HOSTNAME_LABEL), node.unready_since
        if host is not None:
            until = inf if node.ready or since is None else since + UNREADY_SECONDS
            found[host] = max(until, found.get(host, 0.0))
    return found


def lost_of(workload: WorkloadInfo, known: LostAt, now: float) -> frozenset[str]:
    """Return the hosts of a workload that are gone."""
    held = workload.admission
    given = [each.topology for each in held.assignments if each.topology] if held else []
    hosts = (each.domains for each in given if each.levels == (HOSTNAME_LABEL,))
    return frozenset(
        host for domains in hosts for (host,), _ in domains if known.get(host, 0.0) <= now
    )


def concerns(workload: WorkloadInfo) -> bool:
    """Return whether hosts of a workload may be replaced at all."""
    ends = workload.finished or workload.evicted or workload.meta.terminating
    return workload.admitted and workload.admission is not None and not ends


def is_fixed(workload: WorkloadInfo, each: Assignment, cluster: ClusterView) -> bool:
    """Return whether the template of pods names their one host, and cannot be changed any more."""
    of_pods = workload.is_of_pods or workload.service is not None
    if each.topology is None or len(each.topology.domains) != 1 or of_pods:
        return False
    group = cluster.pod_group(pod_group_key(workload))
    return group is None or each.name not in group.assigned


def with_others(
    workload: WorkloadInfo, others: Sequence[Assignment], lost: Collection[str]
) -> HostStep:
    """Return the step to other hosts."""
    held = workload.admission
    assert held is not None
    if tuple(others) == held.assignments:  # the pods that had them are done, or they are back
        return HostStep(lifecycle.without(workload, WorkloadCondition.HOSTS_LOST))
    before = _hosts(held.assignments)
    after = lifecycle.without(
        replace(workload, admission=replace(held, assignments=tuple(others))),
        WorkloadCondition.HOSTS_LOST,
    )
    new = sorted(_hosts(others) - before)
    named = f": {_named(new)}" if new else " in the rest of its domain"
    message = f"{hosts_gone(lost)}; its pods go to others{named}"
    return HostStep(after, HostReason.REPLACED, message)


def without_others(
    workload: WorkloadInfo,
    message: str,
    *,
    begun: bool,
    pod_group: PodGroupInfo | None,
    now: float,
    rules: HostRules,
) -> HostStep:
    """Return the step of a workload that lacks hosts: it waits, or is evicted.

    `begun` is whether any of its pods has a node that is there.
    """
    said = pod_group.on_partial if pod_group is not None else None
    then = policy(said, rules.default, rules.options.on_partial_overrides)
    asked = pod_group.schedule_timeout if pod_group is not None else None
    patience = max(rules.options.timeout(asked), rules.options.evict_after)
    before = workload.condition(WorkloadCondition.HOSTS_LOST)
    left = patience - (now - before.transition if before is not None else 0.0)
    if not begun or (then is not OnPartial.KEEP and left <= 0):
        after = lifecycle.evicted(workload, EvictionReason.NODE_FAILURES, message, now=now)
        return HostStep(after, EventReason.EVICTED, message)
    after = lifecycle.hosts_lost(workload, message, now=now)
    reason = HostReason.NO_REPLACEMENT if before is None else ""
    return HostStep(after, reason, message, left if then is not OnPartial.KEEP else None)


def stands(pod: PodInfo, cluster: ClusterView) -> bool:
    """Return whether a pod has a node that is there."""
    return pod.node in cluster.nodes and not pod.terminating and not pod.finished


def hosts_gone(lost: Collection[str]) -> str:
    """Return in words which hosts are gone."""
    named = _named(sorted(lost))
    return f"Hosts {named} are gone" if len(lost) > 1 else f"Host {named} is gone"


def _hosts(assignments: Iterable[Assignment]) -> set[str]:
    given = (each.topology for each in assignments if each.topology is not None)
    return {domain[-1] for topology in given for domain, _ in topology.domains}


def _named(hosts: Sequence[str]) -> str:
    more = len(hosts) - _NAMED
    return ", ".join(hosts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
