"""Other hosts for the pods of an admitted workload whose hosts are gone."""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from extender.fit.conflicts import PodShape
from extender.fit.levels import Spread
from extender.fit.packer import Packer
from extender.fit.replacing import UNKNOWN, replaced
from extender.fit.room_left import Placed
from extender.room.domains import DomainPlacer, InDomains, lack_of, levels_of
from extender.room.unplaced import PodSetCount
from extender.state.cluster.records import NodeInfo
from extender.state.queue.records import DomainRequest, WorkloadInfo
from extender.state.topology import Domain, in_order
from extender.steps import PIECE, Steps


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
