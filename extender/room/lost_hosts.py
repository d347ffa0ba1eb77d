"""Hosts that pods of a workload were given and that are gone, and what becomes of the workload.

A host is gone when it has no node any more, or none that was ready within the last half minute.
Its pods may still be there, and may run: other hosts are for the pods that come in their place.
Evicting cannot be taken back, so a workload of which pods have a node is evicted only where its
gang asks for that (`gang.onPartial`), and after the patience of a gang that is partial.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Final

from extender.api.reasons import EventReason, EvictionReason, HostReason
from extender.api.wellknown import HOSTNAME_LABEL, WorkloadCondition
from extender.fit.candidates import PodShape
from extender.fit.domains import Spread
from extender.fit.packer import Packer
from extender.fit.replacing import UNKNOWN, replaced
from extender.fit.room_left import Placed
from extender.gang.options import GangOptions, OnPartial
from extender.gang.partial import policy
from extender.jobs.pod_group_of_job import pod_group_key
from extender.queueing import transitions
from extender.room.domains import DomainPlacer, InDomains, lack_of, levels_of
from extender.room.pods import PodSetCount
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import Assignment, DomainRequest, WorkloadInfo
from extender.state.topology import Domain, DomainAssignment, in_order
from extender.steps import PIECE, Steps

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


def lost_of(
    workload: WorkloadInfo, known: LostAt, now: float
) -> tuple[frozenset[str], float | None]:
    """Return the hosts of a workload that are gone, and when more may be."""
    held = workload.admission
    lost, soon = set[str](), inf
    for each in held.assignments if held is not None else ():
        if each.topology is None or each.topology.levels != (HOSTNAME_LABEL,):
            continue
        for (host,), _ in each.topology.domains:
            at = known.get(host, 0.0)
            if at <= now:
                lost.add(host)
            else:
                soon = min(soon, at)
    return frozenset(lost), soon if soon < inf else None


def are_on(given: DomainAssignment, lost: Collection[str]) -> bool:
    """Return whether pods were given any of these hosts."""
    return given.levels == (HOSTNAME_LABEL,) and any(host in lost for (host,), _ in given.domains)


def concerns(workload: WorkloadInfo) -> bool:
    """Return whether hosts of a workload may be replaced at all."""
    ends = workload.finished or workload.evicted or workload.meta.terminating
    return workload.admitted and workload.admission is not None and not ends


def is_fixed(workload: WorkloadInfo, each: Assignment, cluster: ClusterView) -> bool:
    """Return whether the template of pods names their one host, and cannot be changed any more."""
    if each.topology is None or len(each.topology.domains) != 1 or workload.is_of_pods:
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
        return HostStep(transitions.without_lost(workload))
    before = _hosts(held.assignments)
    after = transitions.without_lost(
        replace(workload, admission=replace(held, assignments=tuple(others)))
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
    if not begun or (then is OnPartial.EVICT and left <= 0):
        after = transitions.evicted(workload, EvictionReason.NODE_FAILURES, message, now=now)
        return HostStep(after, EventReason.EVICTED, message)
    after = transitions.hosts_lost(workload, message, now=now)
    reason = HostReason.NO_REPLACEMENT if before is None else ""
    return HostStep(after, reason, message, left if then is OnPartial.EVICT else None)


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


def replacing(
    domains: DomainPlacer,
    packer: Packer,
    counts: PodSetCount,
    *,
    workload: WorkloadInfo,
    pod: PodShape,
    lost: Collection[str],
) -> Steps[InDomains]:
    """Choose and take other hosts for the pods of a pod set that were given lost ones.

    What stays keeps its rank. Pods that are done need no other host.
    """
    given, topology = counts.assignment.topology, domains.topology_of(counts.assignment)
    assert given is not None
    if topology is None:
        return InDomains(missing=1, lack="its topology is not there any more")
    nodes, done = domains.nodes(topology.levels), domains.done_ranks(workload, given)
    paths, hosts = {domain[-1]: domain for domain in nodes}, [*given.by_rank()]
    dropped = _surplus(hosts, lost, count=counts.count) if done is None else done
    ranks = [
        None if host in lost and rank not in dropped else paths.get(host, UNKNOWN)
        for rank, (host,) in enumerate(hosts)
    ]
    capacity = yield from _capacity(packer, pod, nodes, lost=lost)
    asked = counts.pod_set.topology or DomainRequest()
    found = replaced(ranks, capacity, levels_of(asked, topology.levels))
    if not found.complete:
        lack = lack_of(Spread((), found.fits, found.wanted), topology, asked)
        return InDomains(missing=found.wanted - found.fits, lack=lack)
    placed: list[Placed] = []
    for rank, domain in enumerate(found.ranks):
        if ranks[rank] is None:
            placed += packer.put_on(nodes[domain], pod, 1)
            hosts[rank] = domain[-1:]
    if done is None:  # a place that no pod needs is not to be on a host that is gone
        hosts = [host for rank, host in enumerate(hosts) if rank not in dropped]
    return InDomains(placed, in_order(given.levels, hosts))


def _surplus(hosts: Sequence[Domain], lost: Collection[str], *, count: int) -> Collection[int]:
    """Return which places on lost hosts are not needed for so many pods."""
    spare = max(0, len(hosts) - count)
    return frozenset(islice((n for n, (host,) in enumerate(hosts) if host in lost), spare))


def _capacity(
    packer: Packer,
    pod: PodShape,
    nodes: Mapping[Domain, Sequence[NodeInfo]],
    *,
    lost: Collection[str],
) -> Steps[dict[Domain, int]]:
    found: dict[Domain, int] = {}
    for number, (domain, there) in enumerate(nodes.items()):
        if number % PIECE == PIECE - 1:
            yield
        if domain[-1] not in lost:
            found[domain] = packer.capacity(pod, there)
    return found
