"""Places pods of a group by its placement: on nodes that are compared before one is used."""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.fit.candidates import PIECE, Candidates
from extender.fit.conflicts import PodShape
from extender.fit.placement import GangPlacement, Spot, are_enough, choosing, zone_of
from extender.fit.room_left import Placed, RoomLeft
from extender.state.cluster.records import NodeInfo
from extender.steps import Steps


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """How a group's pods stand to each other, and how many of them are on nodes already."""

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
