"""Places equal pods of a group by its placement: on as few nodes as possible, or on as many.

Counts decide, and for equal pods they are exact: what one node takes does not depend on the others.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from typing import Final

from extender.api.wellknown import ZONE_LABEL
from extender.fit.candidates import Candidates, Placed, PodShape, RoomLeft
from extender.state.cluster.records import NodeInfo
from extender.steps import PIECE, Steps

MIN_SAMPLE: Final = 100
"""kube-scheduler sends all feasible nodes if there are fewer than this (minFeasibleNodesToFind)."""


class GangPlacement(StrEnum):
    """The placement of the pods of one gang relative to each other."""

    PACK = "pack"
    """Use as few nodes as possible, and of equal ones those that have least left."""
    SPREAD = "spread"
    """Put as few pods on one node as possible, then spread them over zones, then use nodes that
    have most left."""


@dataclass(slots=True)  # thousands are made for one answer, as of `Placed`
class Spot:
    """One node that has room."""

    node: NodeInfo
    slots: int
    """The number of pods it takes."""
    siblings: int
    """The number of pods of the group on it."""
    slack: float
    """The share of the node that is left."""
    sent: bool = False
    """Set if kube-scheduler sent the node for these pods. One of them has to go to such a node."""


Chosen = list[tuple[Spot, int]]
"""The number of pods for each node. Nodes that were sent come first."""


def are_enough(spots: Sequence[Spot], count: int, placement: GangPlacement) -> bool:
    """Return whether other nodes need not be looked at for so many pods.

    To spread pods needs as many nodes without siblings; and at least as many to choose from as
    kube-scheduler would have.
    """
    if sum(spot.slots for spot in spots) < count:
        return False
    if placement is GangPlacement.PACK:
        return True
    return len(spots) >= MIN_SAMPLE and sum(not spot.siblings for spot in spots) >= count


def choosing(
    spots: Sequence[Spot], count: int, placement: GangPlacement, *, zones: Mapping[str, int]
) -> Steps[Chosen]:
    """Return how many of so many equal pods go where; fewer where there is too little room.

    `zones` has the pods of the group in each zone, those too on nodes that have no room.
    """
    count = min(count, sum(spot.slots for spot in spots))
    if placement is GangPlacement.PACK:
        found = _packed(spots, count)
    else:
        found = yield from _spread(spots, count, zones)
    yield
    return sorted(found, key=lambda each: not each[0].sent)


def _packed(spots: Sequence[Spot], count: int) -> Chosen:
    """Return the nodes that have siblings, and then as few others as possible."""
    home = sorted(
        (spot for spot in spots if spot.siblings),
        key=lambda spot: (not spot.sent, -spot.siblings, spot.slack, spot.node.name),
    )
    others = [spot for spot in spots if not spot.siblings]
    found, count = _fill(home, count)
    sent = [spot for spot in others if spot.sent]
    if count and sent and len(sent) < len(others) and not any(spot.sent for spot, _ in found):
        first = min(sent, key=lambda spot: (-spot.slots, spot.slack, spot.node.name))
        others.remove(first)
        more, count = _fill([first], count)
        found += more
    return found + _fill(fewest(others, count), count)[0]


def fewest(spots: Sequence[Spot], count: int) -> list[Spot]:
    """Return as few nodes as take so many pods, all where they take too few.

    Of as many nodes the smaller ones are taken, and of equal ones those that have least left: so
    large rooms stay whole.
    """
    order = sorted(spots, key=lambda s: (s.slots, not s.sent, s.slack, s.node.name))
    most = [0, *accumulate(spot.slots for spot in reversed(order))]
    """The number of pods that the largest nodes take, by the number of these nodes."""
    chosen: list[Spot] = []
    slots = [spot.slots for spot in order]
    for others in range(min(bisect_left(most, count), len(order)) - 1, -1, -1):
        # The largest of those that are left are enough beside this one, and none of them is it.
        place = min(bisect_left(slots, count - most[others]), len(order) - 1)
        chosen.append(order.pop(place))
        count -= slots.pop(place)
    return chosen


def _fill(spots: Sequence[Spot], count: int) -> tuple[Chosen, int]:
    """Return how many pods go on each of these nodes, one after the other, and how many are left.

    A node that is not needed is left out.
    """
    found: Chosen = []
    for spot in spots:
        taken = min(spot.slots, count)
        if taken:
            found.append((spot, taken))
            count -= taken
    return found, count


def _spread(spots: Sequence[Spot], count: int, siblings: Mapping[str, int]) -> Steps[Chosen]:
    """Return where the highest number on one node is as low as it can be."""
    highest, zones = _level(spots, count), Counter(siblings)
    yield
    taken = {spot.node.name: min(spot.slots, max(0, highest - 1 - spot.siblings)) for spot in spots}
    for spot in spots:
        zones[zone_of(spot.node)] += taken[spot.node.name]
    yield

    def takes_one_more(spot: Spot) -> bool:
        there = taken[spot.node.name]
        return there < spot.slots and spot.siblings + there < highest

    more = [spot for spot in spots if takes_one_more(spot)]
    has_sent = any(spot.sent for spot in spots if taken[spot.node.name])
    for spot in _by_zone(more, count - sum(taken.values()), zones, needs_sent=not has_sent):
        taken[spot.node.name] += 1
    return [(spot, taken[spot.node.name]) for spot in spots if taken[spot.node.name]]


def _level(spots: Sequence[Spot], count: int) -> int:
    """Return the lowest number of pods on a node with which so many find room."""
    low, high = 0, max((spot.siblings + min(spot.slots, count) for spot in spots), default=0)
    while low < high:
        level = (low + high) // 2
        room = sum(min(spot.slots, max(0, level - spot.siblings)) for spot in spots)
        low, high = (low, level) if room >= count else (level + 1, high)
    return low


def _by_zone(
    spots: Sequence[Spot], count: int, zones: Counter[str], *, needs_sent: bool
) -> list[Spot]:
    """Return so many nodes: always the next one of the zone with the fewest pods, by `zones`.

    In a zone the nodes come first that have most left. Where one must have been sent, the first is.
    """
    order = sorted(spots, key=lambda spot: (-spot.slack, spot.node.name))
    sent = [spot for spot in order if spot.sent] if needs_sent and count > 0 else []
    first = min(sent, key=lambda spot: zones[zone_of(spot.node)], default=None)
    chosen = [first] if first is not None else []
    waiting: dict[str, list[Spot]] = {}
    for spot in reversed(order):
        if spot is not first:
            waiting.setdefault(zone_of(spot.node), []).append(spot)
    there = zones + Counter(zone_of(spot.node) for spot in chosen)
    heap = [(there[zone], zone) for zone in waiting]
    heapify(heap)
    while heap and len(chosen) < count:
        pods, zone = heap[0]
        chosen.append(waiting[zone].pop())
        if waiting[zone]:
            heapreplace(heap, (pods + 1, zone))
        else:
            heappop(heap)
    return chosen


def zone_of(node: NodeInfo) -> str:
    """Return the zone of a node; those without the label are in one."""
    return node.labels.get(ZONE_LABEL, "")


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """The placement of a group, and the number of its pods that are on each node already."""

    placement: GangPlacement
    siblings: Mapping[str, int]


LOOKS: Final = 50_000
"""Nodes that are compared for all kinds of pods of one plan together, some hundred milliseconds."""


class Placer:
    """Takes nodes for one plan; it counts what it has placed as siblings of what comes next.

    With very many kinds of pods each compares fewer nodes: the plan of a gang has its time.
    """

    def __init__(
        self, candidates: Candidates, left: RoomLeft, choice: PlacementChoice, *, kinds: int = 1
    ) -> None:
        self._candidates, self._left = candidates, left
        self._placement, self._siblings = choice.placement, Counter(choice.siblings)
        self._zones = Counter[str]()
        """Siblings by zone, wherever they are."""
        for name, some in self._siblings.items():
            if name in candidates.nodes:
                self._zones[zone_of(candidates.nodes[name])] += some
        self._most = max(PIECE, LOOKS // kinds)

    def take(self, pod: PodShape, count: int) -> Generator[Placed | None, None, None]:
        """Place as many equal pods as there is room for, and yield None after each piece."""
        spots = yield from self._spots(pod, count)
        yield None
        chosen = yield from choosing(spots, count, self._placement, zones=self._zones)
        for number, (spot, taken) in enumerate(chosen, 1):
            placed = self._left.take(spot.node, pod, taken)
            if placed is not None:
                self._siblings[spot.node.name] += placed.count
                self._zones[zone_of(spot.node)] += placed.count
                yield placed
            if number % PIECE == 0:
                yield None

    def _spots(self, pod: PodShape, count: int) -> Steps[list[Spot]]:
        """Return nodes that have room: those that were sent, then those that were found good.

        Others only where these are not enough. What was sent was judged by kube-scheduler, and on
        nodes that are good for equal pods members are bound together.
        """
        candidates, spots, best, room = self._candidates, list[Spot](), 0, 0
        sent, good = candidates.offered(pod), candidates.preferred(pod)
        for looks, node in enumerate(self._in_turn(pod), 1):
            if node is None or looks % PIECE == 0:
                yield
            if node is None:
                continue
            if looks > self._most and room >= count:
                break
            worth = 0 if node.name in sent else 1 if node.name in good else 2
            if worth > best:
                best = worth
                if are_enough(spots, count, self._placement):
                    break
            spot = self._spot(node, pod, sent=worth == 0)
            if spot is not None:
                spots.append(spot)
                room += spot.slots
        return spots

    def _in_turn(self, pod: PodShape) -> Iterator[NodeInfo | None]:
        """Yield the nodes in the order in which they are compared, and None after each piece.

        Where not all are, those come first that have siblings to pack, and few of them to spread;
        and of the others those that have most left.
        """
        candidates = self._candidates
        if self._most >= len(candidates.nodes):
            yield from candidates.of(pod).all_from_here()
            return
        packs = self._placement is GangPlacement.PACK
        if packs:
            yield from self._home(pod)
        yield None
        for node in candidates.emptiest_first(pod):
            if node is None or node.name not in self._siblings:
                yield node
        if not packs:
            yield from reversed(self._home(pod))

    def _home(self, pod: PodShape) -> Sequence[NodeInfo]:
        """Return the nodes that have siblings, those with the most first."""
        allows, siblings = self._candidates.allows, self._siblings
        there = (self._candidates.nodes.get(name) for name in siblings)
        home = [node for node in there if node is not None and allows(pod, node)]
        return sorted(home, key=lambda node: -siblings[node.name])

    def _spot(self, node: NodeInfo, pod: PodShape, *, sent: bool) -> Spot | None:
        there = self._left.slots(node, pod)
        if not there:
            return None
        siblings, slack = self._siblings[node.name], self._left.slack(node, pod.shape)
        return Spot(node, there, siblings, slack, sent)
