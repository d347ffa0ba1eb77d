"""Which of the nodes that have room equal pods use: as few as possible, or as many.

Counts decide, and for equal pods they are exact: what one node takes does not depend on the others.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from typing import Final

from extender.api.wellknown import ZONE_LABEL
from extender.state.cluster.records import NodeInfo
from extender.steps import Steps

_SAMPLE: Final = 100
"""kube-scheduler itself chooses from so many good nodes at least, where there are so many."""


class GangPlacement(StrEnum):
    """How the pods of one gang stand to each other."""

    PACK = "pack"
    """On as few nodes as possible; of equal ones on those that have least left."""
    SPREAD = "spread"
    """As few on one node as possible, then evenly over zones, then where most is left."""


@dataclass(slots=True)  # thousands are made for one answer, as of `Placed`
class Spot:
    """One node that has room."""

    node: NodeInfo
    slots: int
    """How many pods it takes."""
    siblings: int
    """How many pods of the group it has."""
    slack: float
    """How much of it is left, to compare."""
    sent: bool = False
    """Whether kube-scheduler has sent it for these pods: one of them is to go to such a node."""


Chosen = list[tuple[Spot, int]]
"""How many pods go where: nodes that were sent come first."""


def are_enough(spots: Sequence[Spot], count: int, placement: GangPlacement) -> bool:
    """Return whether other nodes need not be looked at for so many pods.

    To spread pods needs as many nodes without siblings; and at least as many to choose from as
    kube-scheduler would have.
    """
    if sum(spot.slots for spot in spots) < count:
        return False
    if placement is GangPlacement.PACK:
        return True
    return len(spots) >= _SAMPLE and sum(not spot.siblings for spot in spots) >= count


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
    """How many pods the largest nodes take, by their number."""
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
