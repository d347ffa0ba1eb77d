"""Places pods of a group by its placement: on nodes that are compared before one is used."""

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from extender.fit.candidates import PIECE, Candidates
from extender.fit.conflicts import PodShape
from extender.fit.placement import GangPlacement, Spot, are_enough, choose
from extender.fit.room_left import Placed, RoomLeft
from extender.state.cluster.records import NodeInfo
from extender.steps import Steps


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """How a group's pods stand to each other, and how many of them are on nodes already."""

    placement: GangPlacement
    siblings: Mapping[str, int]


class Placer:
    """Takes nodes for one plan; it counts what it has placed as siblings of what comes next."""

    def __init__(self, candidates: Candidates, left: RoomLeft, choice: PlacementChoice) -> None:
        self._candidates, self._left = candidates, left
        self._placement, self._siblings = choice.placement, Counter(choice.siblings)

    def take(self, pod: PodShape, count: int) -> Generator[Placed | None, None, None]:
        """Place as many equal pods as there is room for, and yield None after each piece."""
        spots = yield from self._spots(pod, count)
        yield None
        for number, (spot, taken) in enumerate(choose(spots, count, self._placement), 1):
            placed = self._left.take(spot.node, pod, taken)
            if placed is not None:
                self._siblings[spot.node.name] += placed.count
                yield placed
            if number % PIECE == 0:
                yield None

    def _spots(self, pod: PodShape, count: int) -> Steps[list[Spot]]:
        """Return nodes that have room: those that were sent, then those that were found good.

        Others only where these are not enough. What was sent was judged by kube-scheduler, and on
        nodes that are good for equal pods members are bound together.
        """
        candidates, spots, best = self._candidates, list[Spot](), 0
        sent, good = candidates.offered(pod), candidates.preferred(pod)
        for looks, node in enumerate(candidates.of(pod).all_from_here(), 1):
            if node is None or looks % PIECE == 0:
                yield
            if node is None:
                continue
            worth = 0 if node.name in sent else 1 if node.name in good else 2
            if worth > best:
                best = worth
                if are_enough(spots, count, self._placement):
                    break
            spot = self._spot(node, pod, sent=worth == 0)
            if spot is not None:
                spots.append(spot)
        return spots

    def _spot(self, node: NodeInfo, pod: PodShape, *, sent: bool) -> Spot | None:
        there = self._left.slots(node, pod)
        if not there:
            return None
        siblings, slack = self._siblings[node.name], self._left.slack(node, pod.shape)
        return Spot(node, there, siblings, slack, sent)
