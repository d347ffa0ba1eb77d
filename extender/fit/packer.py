"""Places counts of equal pods on nodes; what it places can be taken back.

A gang's plan, claims and the queue ask the same packer, so that their answers do not differ. For
equal pods the answer is exact: what one node takes does not depend on the other nodes. Unlike pods
are bin packing. Pod shapes that may use few nodes come first then, and shapes that ask for much.
Where that finds too little room, a second try looks at what each shape has left.

Thousands of nodes and many shapes take long, so the work is done in pieces. Between two pieces what
was placed so far counts as placed, and the caller must not change the packer. Pieces that are not
driven to their end leave nothing behind.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from extender.fit.candidates import (
    CandidateNodes,
    Candidates,
    FeasibleNodes,
    Placed,
    PodShape,
    RoomLeft,
    slots,
)
from extender.fit.placement import PlacementChoice, Placer
from extender.resources.quantity import Resources, subtract
from extender.state.cluster.records import NodeInfo, Shape
from extender.steps import PIECE, Steps, cut

Wanted = tuple[PodShape, int]
SHAPES: Final = 16
"""Pod shapes that are placed in one piece, at most."""
Promised = Mapping[str, Mapping[str, int]]
"""Amounts by node that pods use before others."""
_NOWHERE: Final[Promised] = {}


@dataclass(slots=True)
class Found:
    """The places that pods got, and the number of pods of each shape that found no room."""

    placed: list[Placed] = field(default_factory=list)
    missing: list[Wanted] = field(default_factory=list)
    began: list[tuple[CandidateNodes, int]] = field(default_factory=list, repr=False, compare=False)
    """The node at which the search of each shape began."""
    ended: list[tuple[CandidateNodes, int]] = field(default_factory=list, repr=False, compare=False)
    """The node at which it ended."""

    @property
    def count(self) -> int:
        """Return the number of pods that were placed."""
        return sum(each.count for each in self.placed)

    def has(self, pod: PodShape | None) -> bool:
        """Return whether a pod of a shape was placed."""
        return any(each.pod == pod for each in self.placed)


_Taking = Iterator[Placed | None]
"""The places of pods one after the other, and None after each piece of work."""
_Take = Callable[[PodShape, int], _Taking]


class Packer:
    """Nodes in their order, and what is left on them."""

    def __init__(self, candidates: Candidates, left: RoomLeft) -> None:
        self._candidates, self._left = candidates, left

    def offer(self, pod: PodShape, names: Collection[str], *, only: bool) -> None:
        """Offer pods nodes that are feasible for them: they use these first, or `only` these."""
        self._candidates.offer(pod, names, only=only)

    def prefer(self, pod: PodShape, names: Collection[str]) -> None:
        """Put nodes for pods before others, those that are offered aside."""
        self._candidates.prefer(pod, names)

    # -- questions

    def fill(
        self,
        wanted: Collection[Wanted],
        *,
        first: Promised = _NOWHERE,
        most: int | None = None,
        lead: PodShape | None = None,
        choice: PlacementChoice | None = None,
    ) -> Steps[Found]:
        """Place as many pods as there is room for, or `most` of them.

        They use these amounts on nodes `first`; or the nodes of a `choice`, unless some would find
        no room so. Where `most` leaves some pods out, a pod of the shape `lead` is among those that
        are placed; if it finds no room, none is placed.
        """
        shapes = [*wanted]
        if len(shapes) > 1:
            shapes = yield from self._hardest_first(shapes)
        total = sum(count for _, count in shapes)
        needed = total if most is None else min(most, total)
        if len(shapes) > 1 and lead and not (yield from self._by_itself((lead, 1), first)):
            return Found(missing=shapes)
        among = lead if needed < total else None
        if choice is not None:
            placer = Placer(self._candidates, self._left, choice, kinds=len(shapes))
            found = yield from self._try(shapes, needed, placer.take, first=_NOWHERE, lead=among)
            if found.count >= needed:
                return found
            self.undo(found)
            yield
        best = yield from self._try(shapes, needed, self._in_order, first=first, lead=among)
        if best.count >= needed or len(shapes) == 1:
            return best
        self.undo(best)
        yield
        hopeless = yield from self._is_hopeless(shapes, best, needed, first=first)
        for take, order in () if hopeless else self._other_tries(shapes, best, among):
            found = yield from self._try(order, needed, take, first=first, lead=among)
            if found.count >= needed:
                return found
            self.undo(found)
            yield
            best = max(best, found, key=lambda each: (each.has(lead), each.count))
        self.redo(best)
        return best

    def short(self, missing: Iterable[Wanted]) -> Steps[Resources]:
        """Return, by name, what pods ask for that no node they may use has left."""
        short: Resources = {}
        for number, (pod, count) in enumerate(missing):
            if number % SHAPES == SHAPES - 1:
                yield
            feasible = self._candidates.feasible.of(pod.shape)
            for resource, amount in pod.shape.requests.items():
                if amount and not (yield from self._is_left(resource, amount, feasible)):
                    short[resource] = short.get(resource, 0) + amount * count
        return short

    def total(self, shapes: Iterable[Shape], resources: Collection[str]) -> Steps[Resources]:
        """Return what is left in all on the nodes that any of these shapes may use.

        A node that has less than nothing left counts as full, not as a debt.
        """
        asked = {self._candidates.feasible.of(shape) for shape in shapes}
        there, at_once = dict.fromkeys(resources, 0), max(1, PIECE // max(1, len(asked)))
        for number, node in enumerate(list(self._candidates.nodes.values())):
            if number % at_once == at_once - 1:
                yield
            if any(each.would_allow(node) for each in asked):
                left = self._left.on(node)
                for resource in resources:
                    there[resource] += max(0, left.get(resource, 0))
        return there

    # -- views

    @contextmanager
    def without(self, placed: Collection[Placed]) -> Iterator[None]:
        """Count pods as gone meanwhile."""
        if not placed:
            yield
            return
        self._left.take_back(placed)
        try:
            with self._left.apart(), self._candidates.apart(e.node.name for e in placed):
                yield
        finally:
            self._left.put(placed)

    @contextmanager
    def beside(self, placed: Collection[Placed]) -> Iterator[None]:
        """Count pods as there meanwhile; a node may have less than nothing left then."""
        if not placed:
            yield
            return
        self._left.put(placed)
        try:
            with self._left.apart():
                yield
        finally:
            self._left.take_back(placed)

    def in_order(self, candidates: Candidates) -> "Packer":
        """Return the same nodes, with what is left of them, in another order."""
        return Packer(candidates, self._left)

    def apart_from(self, gone: Mapping[str, Collection[Placed]]) -> "Packer":
        """Return a packer of its own for which these pods of each node are gone.

        It may be dropped at any time. Nothing may be placed or looked at here before that.
        """
        return Packer(self._candidates.copy(gone), self._left.apart_from(gone))

    def put(self, placed: Collection[Placed]) -> None:
        """Place pods where they are, whether there is room or not."""
        self._left.put(placed)

    def take_off(self, placed: Collection[Placed]) -> None:
        """Take pods off again that were put there since the last placement."""
        self._left.take_back(placed)

    def is_overdrawn(self, nodes: Iterable[NodeInfo], resources: Iterable[str]) -> bool:
        """Return whether one of these nodes has less than nothing left of a resource."""
        return any(self._left.on(node).get(name, 0) < 0 for node in nodes for name in resources)

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """Return all nodes by name, whatever their room."""
        return self._candidates.nodes

    def capacity(self, pod: PodShape, nodes: Iterable[NodeInfo]) -> int:
        """Return how many pods of a shape these nodes take now."""
        allows, slots_on = self._candidates.allows, self._left.slots
        return sum(slots_on(node, pod) for node in nodes if allows(pod, node))

    # -- what was placed

    def put_on(self, nodes: Iterable[NodeInfo], pod: PodShape, count: int) -> list[Placed]:
        """Place pods on these nodes, one node after the other, as far as there is room."""
        placed: list[Placed] = []
        for node in nodes:
            taken = (
                self._left.take(node, pod, count) if self._candidates.allows(pod, node) else None
            )
            if taken is not None:
                placed.append(taken)
                count -= taken.count
            if not count:
                break
        return placed

    def undo(self, found: Found) -> None:
        """Undo the last placement."""
        for candidates, at in reversed(found.began):
            candidates.at = at
        self._left.take_back(found.placed)

    @contextmanager
    def undoing(self, found: Found) -> Iterator[None]:
        """Undo a placement at the end, whatever it is by then."""
        try:
            yield
        finally:
            self.undo(found)

    def redo(self, found: Found) -> None:
        """Place again what was taken back, where nothing else has changed since."""
        for candidates, at in found.ended:
            candidates.at = at
        self._left.put(found.placed)

    def place(self, wanted: Iterable[Placed]) -> bool:
        """Place pods where they had room before; return whether they have it still, or do nothing.

        Nodes that went, or take these pods no more, have none.
        """
        done: list[Placed] = []
        for each in wanted:
            node = self._candidates.feasible.still(each.node, each.pod.shape)
            taken = None if node is None else self._left.take(node, each.pod, each.count)
            if taken is not None:
                done.append(taken)
            if taken is None or taken.count < each.count:
                self._left.take_back(done)
                return False
        return True

    def still_fits(self, wanted: Collection[Placed]) -> bool:
        """Return whether pods have room still where they had it before."""
        fits = self.place(wanted)
        if fits:
            self._left.take_back(wanted)
        return fits

    def give_back(self, placed: Collection[Placed]) -> None:
        """Undo a placement, whenever it was made."""
        if placed:
            self._candidates.start_again()
        self._left.take_back(placed)

    # -- what changes

    def look_at(self, node: NodeInfo) -> bool:
        """Read again how much a node has; what was placed on it stays there.

        Return whether it has less than before, and less than was placed on it.
        """
        return self._left.look_at(node)

    def look_anew(self) -> None:
        """Forget which nodes had no room, for nodes have gained some.

        Also those that lost room and gained it again since: a search may have passed over them.
        """
        self._candidates.clear()

    def look_at_places(self) -> None:
        """Forget which nodes there are: nodes came, went or take other pods."""
        self._candidates.clear()
        self._left.forget_refused()

    # -- tries

    def _hardest_first(self, wanted: Iterable[Wanted]) -> Steps[list[Wanted]]:
        """Return the shapes in their order, each with all of its pods."""
        counts, hardness = Counter[PodShape](), dict[PodShape, tuple[object, ...]]()
        for number, (pod, count) in enumerate(wanted):
            if number % SHAPES == SHAPES - 1:
                yield
            counts[pod] += count
            hardness[pod] = self._candidates.hardness(pod.shape)
        return sorted(counts.items(), key=lambda each: hardness[each[0]])

    def _other_tries(
        self, shapes: Sequence[Wanted], found: Found, lead: PodShape | None
    ) -> Iterator[tuple[_Take, Sequence[Wanted]]]:
        """Yield other ways in which nodes are taken, and orders of shapes.

        Shapes that found too little room go first in the last one, or else the lead.
        """
        yield self._fullest_first, shapes
        if lead is not None:
            yield self._in_order, [(lead, 1), *((pod, n - (pod == lead)) for pod, n in shapes)]
        else:
            late = {pod for pod, _ in found.missing}
            yield self._in_order, sorted(shapes, key=lambda each: each[0] not in late)

    def _is_hopeless(
        self, shapes: Sequence[Wanted], found: Found, needed: int, *, first: Promised
    ) -> Steps[bool]:
        """Return whether shapes that found too little room would do so if there were no others."""
        counts, at_most = dict(shapes), sum(count for _, count in shapes)
        for pod in dict.fromkeys(pod for pod, _ in found.missing):
            at_most -= counts[pod] - (yield from self._by_itself((pod, counts[pod]), first))
            if at_most < needed:
                return True
        return False

    def _by_itself(self, wanted: Wanted, first: Promised) -> Steps[int]:
        """Return how many pods of a shape find room, and place none."""
        yield
        found = yield from self._try([wanted], wanted[1], self._in_order, first=first)
        self.undo(found)
        return found.count

    def _try(
        self,
        shapes: Sequence[Wanted],
        needed: int,
        take: _Take,
        *,
        first: Promised,
        lead: PodShape | None = None,
    ) -> Steps[Found]:
        """Place one shape after the other; nothing, where no pod of the shape `lead` finds room."""
        promised = {name: dict(amounts) for name, amounts in first.items()}
        found = Found()
        try:
            for number, (pod, count) in enumerate(shapes):
                if number % SHAPES == SHAPES - 1:
                    yield
                asked = min(count, needed - (lead is not None and pod != lead))
                if asked <= 0:
                    continue
                left = yield from self._place(pod, asked, found, take=take, promised=promised)
                needed -= asked - left
                if pod == lead and left == asked:
                    self.undo(found)
                    return Found(missing=[*shapes])
                lead = None if pod == lead else lead
        except BaseException:  # the pieces end early
            self.undo(found)
            raise
        return found

    def _place(
        self,
        pod: PodShape,
        count: int,
        found: Found,
        *,
        take: _Take,
        promised: Mapping[str, Resources],
    ) -> Steps[int]:
        """Add to what was found where pods go; return how many find no room."""
        candidates = self._candidates.of(pod)
        found.began.append((candidates, candidates.at))
        for placed in self._where_promised(promised, pod, count) if promised else ():
            found.placed.append(placed)
            count -= placed.count
        for each in take(pod, count) if count else ():
            if each is None:
                yield
            else:
                found.placed.append(each)
                count -= each.count
        found.ended.append((candidates, candidates.at))
        if count:
            found.missing.append((pod, count))
        return count

    def _where_promised(
        self, promised: Mapping[str, Resources], pod: PodShape, count: int
    ) -> Iterator[Placed]:
        """Yield where pods go in the room that is promised, and take them off it."""
        for name, left in promised.items():
            node, most = self._candidates.nodes.get(name), min(count, slots(pod.shape, left))
            if node is None or most <= 0 or not self._candidates.allows(pod, node):
                continue
            placed = self._left.take(node, pod, most)
            if placed is not None:
                count -= placed.count
                subtract(left, placed.amounts)
                yield placed

    def _in_order(self, pod: PodShape, count: int) -> _Taking:
        feasible = self._candidates.feasible_of(pod)
        if feasible is not None and self._left.refuse(feasible, pod.shape):
            return
        left = yield from self._take_each(self._candidates.of(pod).ahead(), pod, count)
        if left and feasible is not None:
            yield from self._left.refused(feasible, self._candidates)

    def _fullest_first(self, pod: PodShape, count: int) -> _Taking:
        """Place pods on the nodes first that have the least left now."""
        yield from self._take_each(self._by_slack(pod), pod, count)

    def _take_each(
        self, nodes: Iterable[NodeInfo | None], pod: PodShape, count: int
    ) -> Generator[Placed | None, None, int]:
        """Place pods on one node after the other; return how many find no room."""
        take = self._left.take
        for looks, node in enumerate(nodes, 1):
            placed = None if node is None else take(node, pod, count)
            if placed is not None:
                count -= placed.count
                yield placed
                if not count:
                    break
            if node is None or looks % PIECE == 0:
                yield None
        return count

    def _by_slack(self, pod: PodShape) -> Iterator[NodeInfo | None]:
        """Yield the nodes that have room, those with the least left now first."""
        candidates, sent = self._candidates.of(pod), self._candidates.offered(pod)
        for node in candidates.rest:
            if node is None:
                yield None
            else:
                candidates.nodes.append(node)
        slack: list[tuple[bool, float, int]] = []
        for number in range(candidates.at, len(candidates.nodes)):
            if number % PIECE == PIECE - 1:
                yield None
            node = candidates.nodes[number]
            if slots(pod.shape, self._left.on(node)):
                slack.append((node.name not in sent, self._left.slack(node, pod.shape), number))
        slack.sort()
        yield from (candidates.nodes[number] for _, _, number in slack)

    def _is_left(self, resource: str, amount: int, feasible: FeasibleNodes) -> Steps[bool]:
        """Return whether a node has so much left of a resource."""
        if self._left.lacks(feasible, resource, amount):
            return False
        nodes, left_on = self._candidates.nodes, self._left.on
        for number, name in enumerate(self._candidates.richest_first(resource, amount)):
            if number % PIECE == PIECE - 1:
                yield
            node = nodes.get(name)
            if node is None or not feasible.allows(node):
                continue
            if left_on(node).get(resource, 0) >= amount:
                return True
        self._left.learn(feasible, resource, amount)
        return False


# --- which pods have to go so that others fit; the rest may stay --------------------------------
#
# All of them count as gone first. If the others fit then, each unit of pods is put back in turn,
# the one first that is to stay most, as long as the others still fit. A unit that is in the way
# nowhere where they fit stays without a question. Of others several are put back at once: where
# that is possible twice as many are tried next, and else half of them.
#
# The packer is exact for equal pods, and then so is this: a unit goes only where no other answer
# lets it stay together with all that stay before it, and no unit goes that could stay beside the
# rest.


Unit = Sequence[Placed]
"""Pods that go or stay together."""
_NONE: Final[Mapping[int, Collection[int]]] = {}


def fewest_to_leave(
    packer: Packer,
    wanted: Collection[Wanted],
    units: Sequence[Unit],
    *,
    along: Mapping[int, Collection[int]] = _NONE,
) -> Steps[list[int] | None]:
    """Return the numbers of the units that have to leave; None where not all pods fit even then.

    If a unit leaves, all units that go `along` leave too; these have higher numbers. The packer
    counts all units as gone, and is of no use after this.
    """
    if len(wanted) == 1:
        return (yield from _of_equal(packer, *wanted, units=units, along=along))
    found = yield from packer.fill(wanted)
    if found.missing:
        return None
    search = _Reprieve(packer, wanted, found)
    going = set[int]()
    at, batch, grows = 0, 1, True
    while at < len(units):
        yield
        if at in going or search.stays(units[at]):
            at += 1
            continue
        end = min(at + batch, len(units))
        some = [units[number] for number in range(at, end) if number not in going]
        if (yield from search.stay_together(some)):
            at, batch = end, 2 * batch if grows else max(1, batch // 2)
            grows = grows or batch == 1
        elif end - at > 1:
            batch, grows = (end - at) // 2, False
        else:
            going.update([at], along.get(at, ()))
            at, batch, grows = end, 1, True
    return sorted(going)


def _of_equal(
    packer: Packer,
    wanted: Wanted,
    *,
    units: Sequence[Unit],
    along: Mapping[int, Collection[int]],
) -> Steps[list[int] | None]:
    """Return the same for equal pods, from how many of them each node takes.

    To look for their places anew for each unit that has to leave would take minutes where thousands
    do.
    """
    pod, count = wanted
    spare, going = -count, set[int]()
    for some in cut([*packer.nodes.values()]):
        spare += packer.capacity(pod, some)
        yield
    if spare < 0:
        return None
    for number, unit in enumerate(units):
        yield
        if number in going:
            continue
        nodes = {each.node.name: each.node for each in unit}.values()
        before = packer.capacity(pod, nodes)
        packer.put(unit)
        lost = before - packer.capacity(pod, nodes)
        if lost > spare:
            packer.take_off(unit)
            going.update([number], along.get(number, ()))
        else:
            spare -= lost
    return sorted(going)


class _Reprieve:
    """The places of the pods while some units are put back and the others are gone."""

    def __init__(self, packer: Packer, wanted: Collection[Wanted], found: Found) -> None:
        self._packer, self._wanted = packer, wanted
        shapes = [pod.shape for pod, _ in wanted]
        self._asked = {name for each in shapes for name, amount in each.requests.items() if amount}
        self._shares_not = any(each.one_per_node for each in shapes)
        self._found = found
        self._used = _nodes_of(found)

    def stays(self, unit: Unit) -> bool:
        """Put a unit back if it is in the way of no pod; return whether it was put back."""
        both = [self._used[each.node.name] for each in unit if each.node.name in self._used]
        if both and self._shares_not and any(each.pod.shape.one_per_node for each in unit):
            return False
        self._packer.put(unit)
        if both and self._packer.is_overdrawn(both, self._asked):
            self._packer.take_off(unit)
            return False
        return True

    def stay_together(self, units: Sequence[Unit]) -> Steps[bool]:
        """Put units back if the pods then fit elsewhere, and return whether they do."""
        packer = self._packer
        packer.undo(self._found)
        for unit in units:
            packer.put(unit)
            yield
        found = yield from packer.fill(self._wanted)
        if not found.missing:
            self._found, self._used = found, _nodes_of(found)
            return True
        packer.undo(found)
        for unit in units:
            packer.take_off(unit)
            yield
        packer.redo(self._found)
        return False


def _nodes_of(found: Found) -> dict[str, NodeInfo]:
    return {each.node.name: each.node for each in found.placed}
