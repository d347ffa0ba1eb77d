"""Pods in the domains of a topology: which they go to, and whether there is room where they are to.

A flavor with a topology is given only with a domain for each pod. Once that is decided the pods
have room nowhere else.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.api.wellknown import HOSTNAME_LABEL
from extender.fit.candidates import Placed, PodShape
from extender.fit.domains import LevelRequest, Spread, spread
from extender.fit.packer import Packer, Promised
from extender.jobs.kinds.batch_job import done_ranks
from extender.room.pods import PodSetCount, members
from extender.state.cluster.records import Domain, DomainAssignment, NodeInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import (
    Assignment,
    DomainRequest,
    TopologyInfo,
    WorkloadInfo,
)
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps

_NOWHERE: Final[Promised] = {}
_Nodes = Mapping[Domain, Sequence[NodeInfo]]


@dataclass(slots=True)
class InDomains:
    """The placement of the pods of one pod set."""

    placed: list[Placed] = field(default_factory=list)
    assignment: DomainAssignment | None = None
    missing: int = 0
    lack: str = ""
    """The text about what is missing; empty if all pods have a place."""


class DomainPlacer:
    """Places pods by the state as it is now."""

    def __init__(self, queues: QueueView, cluster: ClusterView) -> None:
        self._queues, self._cluster = queues, cluster
        self._version = -1
        self._known: dict[tuple[str, ...], _Nodes] = {}

    def concerns(self, given: Assignment) -> bool:
        """Return whether the pods of an assignment go to domains."""
        return given.topology is not None or self.topology_of(given) is not None

    def placing(
        self,
        packer: Packer,
        workload: WorkloadInfo,
        counts: PodSetCount,
        *,
        pod: PodShape,
        first: Promised,
    ) -> Steps[InDomains]:
        """Place the pods of a pod set in their domains, or choose domains for them.

        They use the nodes `first` that were promised. Where not all have room, those that were
        given domains are placed as far as there is some, others not at all.
        """
        if counts.assignment.topology is not None:
            return (yield from self._as_given(packer, workload, counts, pod=pod, first=first))
        return (yield from self._chosen(packer, counts, pod=pod))

    def topology_of(self, given: Assignment) -> TopologyInfo | None:
        """Return the topology of a flavor that was given, None where there is none."""
        for name in sorted(set(given.flavors.values())):
            flavor = self._queues.flavors.get(name)
            topology = flavor.topology if flavor is not None else None
            if topology and topology in self._queues.topologies:
                return self._queues.topologies[topology]
        return None

    def nodes(self, levels: tuple[str, ...]) -> _Nodes:
        """Return the nodes by domain of the lowest level; those without all labels are in none."""
        if self._version != self._cluster.nodes_version:
            self._version = self._cluster.nodes_version
            self._known.clear()
        if levels not in self._known:
            found: dict[Domain, list[NodeInfo]] = {}
            shape = DomainAssignment(levels, ())
            for node in self._cluster.nodes.values():
                domain = shape.of(node.labels)
                if domain is not None:
                    found.setdefault(domain, []).append(node)
            self._known[levels] = found
        return self._known[levels]

    # -- pods that have no domains yet

    def _chosen(self, packer: Packer, counts: PodSetCount, *, pod: PodShape) -> Steps[InDomains]:
        topology = self.topology_of(counts.assignment)
        assert topology is not None
        nodes, looked = self.nodes(topology.levels), 0
        capacity: dict[Domain, int] = {}
        for domain, there in nodes.items():
            looked += len(there)
            if looked > PIECE:
                looked = 0
                yield
            capacity[domain] = packer.capacity(pod, there)
        asked = counts.pod_set.topology or DomainRequest()
        found = spread(capacity, counts.count, levels_of(asked, topology.levels))
        if not found.complete:
            lack = lack_of(found, topology, asked)
            return InDomains(missing=counts.count, lack=lack)
        yield
        placed: list[Placed] = []
        for domain, count in found.counts:
            placed += packer.put_on(_in_order(nodes[domain], packer, pod), pod, count)
        return InDomains(placed, _assignment(found, topology.levels))

    # -- pods that have

    def _as_given(
        self,
        packer: Packer,
        workload: WorkloadInfo,
        counts: PodSetCount,
        *,
        pod: PodShape,
        first: Promised,
    ) -> Steps[InDomains]:
        given = counts.assignment.topology
        assert given is not None
        nodes, left = self.nodes(given.levels), counts.count
        standing = self._standing(workload, counts, given)
        places = given.without_ranks(self.done_ranks(workload, given) or ())
        found = InDomains(assignment=given)
        for number, (domain, most) in enumerate(places):
            if number % PIECE == PIECE - 1:
                yield
            there = min(most, standing[domain])  # a domain may be there twice
            standing[domain] -= there
            wanted = min(left, most - there)
            if wanted > 0:
                left -= wanted
                usable = _in_order(nodes.get(domain, ()), packer, pod, first=first)
                some = packer.put_on(usable, pod, wanted)
                found.placed += some
                found.missing += wanted - sum(each.count for each in some)
        if found.missing:
            found.lack = f"room for {counts.count - found.missing} of {counts.count} in its domains"
        return found

    def done_ranks(self, workload: WorkloadInfo, given: DomainAssignment) -> frozenset[int] | None:
        """Return which places need no pod any more; None where pods have none by their index."""
        if workload.owner is None:
            return None
        job = self._queues.job_of(workload.owner.uid, workload.meta.namespace)
        return done_ranks(job, given.count)

    def _standing(
        self, workload: WorkloadInfo, counts: PodSetCount, given: DomainAssignment
    ) -> Counter[Domain]:
        """Return how many pods of the set have a node, by domain."""
        found = Counter[Domain]()
        if counts.count == counts.assignment.count:
            return found
        for pod in members(workload, queues=self._queues, cluster=self._cluster):
            node = self._cluster.nodes.get(pod.node or "")
            if node is None or pod.terminating or pod.pod_set not in {None, counts.pod_set.name}:
                continue
            domain = given.of(node.labels)
            if domain is not None:
                found[domain] += 1
        return found


def _in_order(
    nodes: Sequence[NodeInfo], packer: Packer, pod: PodShape, *, first: Promised = _NOWHERE
) -> Sequence[NodeInfo]:
    """Return nodes of a domain that have room: those that were promised, then the fullest ones."""
    if len(nodes) <= 1:
        return nodes
    room = {node.name: packer.capacity(pod, (node,)) for node in nodes}
    return sorted(
        (node for node in nodes if room[node.name]),
        key=lambda node: (node.name not in first, room[node.name], node.name),
    )


def levels_of(asked: DomainRequest, levels: tuple[str, ...]) -> LevelRequest:
    """Return a request in numbers of levels; flavors that lack one of them are not given."""
    slices = levels.index(asked.slice_level) if asked.slice_level else None
    wanted = asked.required or asked.preferred
    if wanted is not None:
        return LevelRequest(
            levels.index(wanted),
            required=asked.required is not None,
            slice_level=slices,
            slice_size=asked.slice_size,
        )
    lowest = len(levels) - 1
    level = lowest if slices is None else slices
    return LevelRequest(level, unconstrained=True, slice_level=slices, slice_size=asked.slice_size)


def _assignment(found: Spread, levels: tuple[str, ...]) -> DomainAssignment:
    """Return the domains as they are stored: by the name of the host alone, where that is one."""
    if levels[-1] != HOSTNAME_LABEL:
        return DomainAssignment(levels, found.counts)
    hosts = tuple((domain[-1:], count) for domain, count in found.counts)
    return DomainAssignment(levels[-1:], hosts)


def lack_of(found: Spread, topology: TopologyInfo, asked: DomainRequest) -> str:
    """Return in words how many pods or slices fit at best."""
    unit = "slice" if asked.slice_size > 1 else "pod"
    name, wanted = topology.meta.name, found.wanted
    where = f" in one domain of {asked.required}" if asked.required else ""
    if not found.fits:
        return f'topology "{name}" doesn\'t allow to fit any of {wanted} {unit}(s){where}'
    return f'topology "{name}" allows to fit only {found.fits} out of {wanted} {unit}(s){where}'
