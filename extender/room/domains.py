"""Pods in the domains of a topology: which they go to, and whether there is room where they are to.

A flavor with a topology is given only with a domain for each pod. Once that is decided the pods
have room nowhere else, until hosts are lost: their pods get new places in the order of ranks, as
near to those of neighbouring ranks as there is room, and never outside of what was asked for. All
other places stay as they are, because pods run there.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final

from extender.api.wellknown import HOSTNAME_LABEL
from extender.fit.candidates import Placed, PodShape
from extender.fit.domains import LevelRequest, Spread, fewest, spread
from extender.fit.packer import Packer, Promised
from extender.jobs.kinds.batch_job import done_ranks
from extender.room.pods import PodSetCount, members
from extender.state.cluster.records import Domain, DomainAssignment, NodeInfo, in_order
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

    def required_levels(self, counts: PodSetCount) -> tuple[str, ...]:
        """Return the levels down to the one of which pods require one domain; none for a host."""
        topology, asked = self.topology_of(counts.assignment), counts.pod_set.topology
        if topology is None or asked is None or asked.required not in topology.levels:
            return ()
        if asked.required == HOSTNAME_LABEL:
            return ()
        return topology.levels[: topology.levels.index(asked.required) + 1]

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


# -- other places for lost ones

UNKNOWN: Final[Domain] = ()
"""The place of a rank that stays, on a node that lacks labels by now."""


def are_on(given: DomainAssignment, lost: Collection[str]) -> bool:
    """Return whether pods were given any of these hosts."""
    return given.levels == (HOSTNAME_LABEL,) and any(host in lost for (host,), _ in given.domains)


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


@dataclass(frozen=True, slots=True)
class Replacement:
    """A place for each rank, if all that were lost have another one."""

    ranks: tuple[Domain, ...] = ()
    fits: int = 0
    """The number of lost places that can be replaced."""
    wanted: int = 0
    """The number of lost places."""

    @property
    def complete(self) -> bool:
        """Return whether all lost places can be replaced."""
        return self.fits >= self.wanted


def replaced(
    ranks: Sequence[Domain | None], capacity: Mapping[Domain, int], asked: LevelRequest
) -> Replacement:
    """Return places for the ranks that have none, by how many pods each smallest domain takes more.

    `ranks` are the places that stay, None for those that were lost.
    """
    wanted = sum(place is None for place in ranks)
    if wanted == len(ranks):
        found = spread(capacity, wanted, asked)
        places = tuple(domain for domain, count in found.counts for _ in range(count))
        fits = wanted if found.complete else min(wanted, found.fits * asked.slice_size)
        return Replacement(places, fits, wanted)
    return _Replacing(ranks, capacity, asked).all()


class _Replacing:
    """Finds places for one group of ranks after the other: a slice, or neighbours."""

    def __init__(
        self, ranks: Sequence[Domain | None], capacity: Mapping[Domain, int], asked: LevelRequest
    ) -> None:
        self._ranks, self._asked = [*ranks], asked
        kept = next(filter(None, ranks), UNKNOWN)
        self._within = kept[: asked.level + 1] if asked.required else UNKNOWN
        may_be = kept or not asked.required  # else it is not known where the others are
        self._left = {
            d: n for d, n in capacity.items() if may_be and n > 0 and _inside(d, self._within)
        }
        self._lowest = len(next(iter(capacity), UNKNOWN)) - 1

    def all(self) -> Replacement:
        """Return a place for each rank."""
        wanted = self._ranks.count(None)
        # What has the least choice comes first: the rest of a slice, then whole slices.
        units = sorted(self._units(), key=lambda unit: (not self._of_slice(unit), -len(unit)))
        fits = sum(len(unit) for unit in units if self._place(unit))
        ranks = tuple(place or UNKNOWN for place in self._ranks) if fits == wanted else ()
        return Replacement(ranks, fits, wanted)

    def _units(self) -> Iterator[list[int]]:
        """Yield lost ranks that belong together: of a slice, or next to each other."""
        size = self._asked.slice_size
        lost = [rank for rank, place in enumerate(self._ranks) if place is None]
        for _, unit in groupby(
            enumerate(lost), lambda at: at[1] // size if size > 1 else at[1] - at[0]
        ):
            yield [rank for _, rank in unit]

    def _of_slice(self, unit: Sequence[int]) -> Domain:
        """Return the domain in which the rest of their slice stays, if any does."""
        size, level = self._asked.slice_size, self._asked.slice_level
        if size == 1 or level is None:
            return UNKNOWN
        first = unit[0] // size * size
        kept = next(filter(None, self._ranks[first : first + size]), UNKNOWN)
        return kept[: level + 1]

    def _place(self, unit: Sequence[int]) -> bool:
        """Give these ranks their places, and return whether there are any."""
        within, near = self._of_slice(unit), self._near(unit)
        floor = max(len(within), len(self._within))
        for depth in range(max(self._lowest, floor), floor - 1, -1):
            if depth > len(near):
                continue
            inside = {d: n for d, n in self._left.items() if _inside(d, near[:depth])}
            chosen = self._chosen(inside, len(unit), whole=not within)
            if chosen:
                for rank, place in zip(unit, chosen, strict=True):
                    self._ranks[rank] = place
                    self._left[place] -= 1
                return True
        return False

    def _near(self, unit: Sequence[int]) -> Domain:
        """Return the place of the nearest rank that has a known one, of its slice if possible."""
        if within := self._of_slice(unit):
            size = self._asked.slice_size
            first = unit[0] // size * size
            ranks = range(first, min(first + size, len(self._ranks)))
            return next((p for r in ranks if (p := self._ranks[r])), within)
        known = [rank for rank, place in enumerate(self._ranks) if place]
        if not known:
            return UNKNOWN
        nearest = min(known, key=lambda rank: min(abs(rank - unit[0]), abs(rank - unit[-1])))
        return self._ranks[nearest] or UNKNOWN

    def _chosen(self, inside: Mapping[Domain, int], count: int, *, whole: bool) -> list[Domain]:
        """Return places for so many, in as few domains as possible; none if there are too few.

        A slice that was lost as a `whole` goes to one domain of its level.
        """
        level = self._asked.slice_level
        if whole and level is not None and self._asked.slice_size > 1:
            groups: dict[Domain, dict[Domain, int]] = {}
            for domain, n in inside.items():
                groups.setdefault(domain[: level + 1], {})[domain] = n
            enough = [(sum(g.values()), d) for d, g in groups.items() if sum(g.values()) >= count]
            if not enough:
                return []
            inside = groups[min(enough)[1]]
        if sum(inside.values()) < count:
            return []
        places: list[Domain] = []
        for domain in fewest(inside, count):
            places += [domain] * min(inside[domain], count - len(places))
        return sorted(places)


def _inside(domain: Domain, outer: Domain) -> bool:
    return domain[: len(outer)] == outer
