"""Counts the pods of a gang that nodes can take if some units go. A search asks again and again.

For equal pods the count is exact, because the count of one node does not depend on the others. For
unlike pods the count of each shape is an upper bound, and the packer decides.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

from extender.fit.candidates import Feasibility, PodShape, clashes
from extender.fit.packer import Wanted
from extender.fit.room_left import Placed, slots
from extender.gang.fit import pod_shape
from extender.gang.preempt.units import Evictables, Rank, Unit, rank_of_plain
from extender.gang.room import is_of_system
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.records import NodeInfo, PodInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

NONE_GOES: Final = -(1 << 40)
"""A value below every priority: no unit goes."""

_NOTHING: Final[Mapping[str, int]] = {}

Regions = Mapping[str, Sequence[NodeInfo]]
"""The nodes by the domain in which all pods have to be, or that a queue has chosen for some of the
pods. If neither applies, all nodes are one region."""


class SearchedNode:
    """One node, and the room that it has now that some of its units are gone."""

    __slots__ = (
        *("_all", "_made", "_order", "info", "region", "room"),
        *("plain", "units", "stays"),
    )

    def __init__(self, info: NodeInfo, region: str, room: Resources) -> None:
        self.info, self.region, self.room = info, region, room
        self.plain: list[PodInfo] = []
        """The pods without a group that may go."""
        self.units: list[Unit] = []
        """The units of gangs and jobs that have pods on the node."""
        self.stays: list[PodShape] = []
        """The pods that stay and cannot share the node with every other pod."""
        self._all: list[Unit] | None = None
        self._made: dict[str, Unit] = {}
        """The units of pods without a group that were asked about, by UID."""
        self._order: list[Ranked] | None = None

    def in_order(self) -> "list[Ranked]":
        """Return its units, and the pods without a group that may go, the least important first.

        There may be very many such pods, and few of them are asked about.
        """
        if self._order is None:
            units: list[Ranked] = [(unit.rank, unit, self) for unit in self.units]
            pods: list[Ranked] = [(rank_of_plain(pod), pod, self) for pod in self.plain]
            self._order = sorted((*units, *pods), key=itemgetter(0))
        return self._order

    def unit_of(self, pod: PodInfo, units: Evictables) -> Unit | None:
        """Return the unit of a pod on the node that has no group; None if it stays."""
        found = self._made.get(pod.uid) or units.of(pod)
        if found is not None:
            self._made[pod.uid] = found
        return found

    def all(self, units: Evictables) -> list[Unit]:
        """Return all its units, the least important first."""
        if self._all is None:
            plain = filter(None, (self.unit_of(pod, units) for pod in self.plain))
            self._all = sorted((*self.units, *plain), key=lambda unit: unit.rank)
        return self._all

    def is_closed(self, pod: PodShape, beside: Iterable[PodInfo]) -> bool:
        """Return whether pods that stay, or those `beside`, keep pods of a shape off the node."""
        ports, name, key = pod.shape.host_ports, self.info.name, pod.anti_affinity
        return any(
            clashes(other.shape.host_ports, ports) or (key and other.anti_affinity == key)
            for other in self.stays
        ) or any(each.node == name and clashes(each.shape.host_ports, ports) for each in beside)


Ranked = tuple[Rank, Unit | PodInfo, SearchedNode]
"""A unit, or a pod without a group, on its node."""


class WhatIf:
    """The nodes that are of use to a gang, with the room that they have for its priority."""

    def __init__(
        self,
        wanted: Mapping[str, Sequence[Wanted]],
        group: str,
        *,
        view: ClusterView,
        units: Evictables,
    ) -> None:
        """`wanted` are the pods that each region is to take."""
        self.wanted, self.units = wanted, units
        self.nodes: dict[str, SearchedNode] = {}
        self.by_region: dict[str, list[SearchedNode]] = {region: [] for region in wanted}
        self.coming: list[Placed] = []
        """The pods that are leaving: their room is about to be free."""
        self.gains: dict[str, list[Counter[int]]] = {}
        """The number of further pods that fit when the units of a priority go too, by region, shape
        (in the order of `wanted`) and priority. Pods that fit already are under NONE_GOES."""
        self.total = Counter[str]()
        """The number of pods of the first shape that fit in each region now."""
        self.lacking = {*wanted}
        """The regions that have no room now for all pods of the first shape."""
        self.gone: dict[Unit, None] = {}
        self._group, self._priority = group, view.tally(group).priority
        self._view, self._feasible = view, Feasibility(view)
        self._has_one_per_node = False
        """True if some pods for the region being read cannot share a node with every other pod."""

    # -- reading the cluster

    def reading(self, regions: Regions) -> Steps[None]:
        """Read the nodes of all regions."""
        looked, units = 0, self.units
        for region, nodes in regions.items():
            wanted = self.wanted[region]
            gains = self.gains[region] = [Counter[int]() for _ in wanted]
            self._has_one_per_node = any(pod.shape.one_per_node for pod, _ in wanted)
            for info in nodes:
                looked += 1
                if looked + units.looked // PIECE >= PIECE:
                    looked = units.looked = 0
                    yield
                self._read(info, region, gains)
            self.total[region] = gains[0][NONE_GOES]
            self._compare(region)

    def least(self, region: str) -> int | None:
        """Return the lowest priority up to which units have to go before a region has room.

        For unlike pods there may be no room even then. Return None if all units are not enough.
        """
        highest = NONE_GOES
        for (_, count), gains in zip(self.wanted[region], self.gains[region], strict=True):
            found = 0
            for priority in sorted(gains):
                found += gains[priority]
                if found >= count:
                    highest = max(highest, priority)
                    break
            else:
                return None
        return highest

    def priorities(self) -> list[int]:
        """Return the priorities of the units that are of use, the lowest first."""
        every = (gains for of_region in self.gains.values() for gains in of_region)
        return sorted({priority for gains in every for priority in gains} - {NONE_GOES})

    def forgetting(self) -> Steps[None]:
        """Forget all nodes and units, piece by piece."""
        while self.nodes:
            for _ in range(min(PIECE, len(self.nodes))):
                _, node = self.nodes.popitem()
                self.by_region[node.region].pop()  # the last one too
            yield
        self.coming.clear()
        yield from self.units.forgetting()

    # -- trying units

    def go(self, unit: Unit) -> None:
        """Mark a unit as gone, with all units that go with it."""
        for part in [*unit.going()]:
            self._move(part, gone=True)

    def stay(self, unit: Unit) -> None:
        """Mark a unit as staying; the units that went with it are still gone."""
        self._move(unit, gone=False)

    def holds(self, node: SearchedNode, pod: PodShape) -> int:
        """Return how many pods of a shape a node takes now, without pods of other shapes."""
        count = slots(pod.shape, node.room)
        if not pod.shape.one_per_node or count <= 0:
            return count
        there = (unit for unit in node.all(self.units) if not unit.gone)
        return int(not node.is_closed(pod, (p for unit in there for p in unit.pods)))

    def _move(self, unit: Unit, *, gone: bool) -> None:
        change = add if gone else subtract
        nodes = [self.nodes[name] for name in unit.on if name in self.nodes]
        for node in nodes:
            self.total[node.region] -= self.holds(node, self.wanted[node.region][0][0])
        unit.gone = gone
        if gone:
            self.gone[unit] = None
        else:
            del self.gone[unit]
        self.units.budgets.take(unit.guarded, 1 if gone else -1)
        for node in nodes:
            change(node.room, unit.on[node.info.name])
            self.total[node.region] += self.holds(node, self.wanted[node.region][0][0])
        for node in nodes:
            self._compare(node.region)

    def _compare(self, region: str) -> None:
        """Update `lacking`: add a region that has no room for all pods of the first shape."""
        if self.total[region] >= self.wanted[region][0][1]:
            self.lacking.discard(region)
        else:
            self.lacking.add(region)

    # -- reading a node

    def _read(self, info: NodeInfo, region: str, gains: Sequence[Counter[int]]) -> None:
        shapes = [
            (pod, of_shape)
            for (pod, _), of_shape in zip(self.wanted[region], gains, strict=True)
            if self._feasible.of(pod.shape).allows(info)
        ]
        if not shapes:
            return
        view = self._view
        room = view.free(info, priority=self._priority, group=self._group)
        node = SearchedNode(info, region, room)
        levels = self._look_at_pods(node)
        if self._has_one_per_node:
            node.stays.extend(self._stays(node))
        # Count every shape first: `any` would stop at the first that finds room.
        gained = [self._count(node, pod, levels=levels, gains=of_shape) for pod, of_shape in shapes]
        if any(gained):
            self.nodes[info.name] = node
            self.by_region[region].append(node)

    def _look_at_pods(self, node: SearchedNode) -> Mapping[int, Resources]:
        """Sort the pods of a node; return the amounts of the pods that may go, by priority."""
        counts: dict[tuple[int, Shape], int] = {}
        pods, highest, going = self._view.pods, self._priority, self.units.going
        for uid in self._view.pods_on(node.info.name):
            pod = pods[uid]
            if going.leaves(pod):
                if going.is_in_time(pod):
                    add(node.room, pod.shape.requests)
                    self.coming.append(Placed(node.info, pod_shape(pod), 1))
            elif pod.priority < highest:
                priority = self._priority_of(node, pod)
                if priority is not None:
                    key = priority, pod.shape
                    counts[key] = counts.get(key, 0) + 1
        levels: dict[int, Resources] = {}
        for (priority, shape), count in counts.items():
            level = levels.setdefault(priority, {})
            for name, amount in shape.requests.items():
                level[name] = level.get(name, 0) + amount * count
        return levels

    def _priority_of(self, node: SearchedNode, pod: PodInfo) -> int | None:
        """Return the priority of the unit of a pod, and note it on the node; None if it stays."""
        if pod.group is None and pod.workload is None:
            if is_of_system(pod):
                return None
            node.plain.append(pod)
            return pod.priority
        unit = self.units.of(pod)
        if unit is None:
            return None
        if unit not in node.units:
            node.units.append(unit)
        return unit.rank.priority

    def _stays(self, node: SearchedNode) -> Iterator[PodShape]:
        """Yield the pods that cannot share the node with every other pod, and do not leave it.

        Pods that a plan of lower priority puts there are left out.
        """
        name, view = node.info.name, self._view
        kept = view.planned_on(name)
        for pod in view.shunning(name):
            goes = self.units.going.leaves(pod) or self.units.of(pod) is not None
            if pod.node == name and goes:
                continue
            if pod.priority >= self._priority or pod.uid not in kept:
                yield pod_shape(pod)

    def _count(
        self,
        node: SearchedNode,
        pod: PodShape,
        *,
        levels: Mapping[int, Resources],
        gains: Counter[int],
    ) -> bool:
        """Add the number of further pods of a shape that fit, priority by priority.

        Return whether any fits.
        """
        more = _NOTHING
        before = self._would_take(node, pod, NONE_GOES)
        if before:
            gains[NONE_GOES] += before
        for priority in sorted(levels) if len(levels) > 1 else levels:
            more = Resources(more)
            add(more, levels[priority])
            found = self._would_take(node, pod, priority, more=more)
            if found > before:
                gains[priority] += found - before
                before = found
        return before > 0

    def _would_take(
        self, node: SearchedNode, pod: PodShape, limit: int, *, more: Mapping[str, int] = _NOTHING
    ) -> int:
        """Return how many pods a node takes when the units up to a priority are gone."""
        found = max(0, _slots(pod.shape, node.room, more))
        if not found or not pod.shape.one_per_node:
            return found
        there = (u for u in node.all(self.units) if u.rank.priority > limit)
        return int(not node.is_closed(pod, (p for unit in there for p in unit.pods)))


def _slots(shape: Shape, room: Mapping[str, int], more: Mapping[str, int]) -> int:
    """Return how many pods fit into `room` plus `more`, without building their sum."""
    most = 1 << 30
    for name, amount in shape.requests.items():
        if amount:
            found = (room.get(name, 0) + more.get(name, 0)) // amount
            if found <= 0:
                return 0
            most = min(most, found)
    return most
