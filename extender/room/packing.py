"""What is left on each node, with pods put there and taken back many at a time.

The order of pods is the gangs' (`gang/fit.py`): the bound ones first, then the large ones. Nodes
come in the order of what is left of them, so that those stay whole that others will ask for; where
pods differ a second try looks at what is left after each kind.

That takes long for thousands of nodes and many kinds of pods, so it is done in pieces. Between them
what was placed so far counts as placed: the caller that drives the pieces asks and changes nothing
else of the packing meanwhile. Pieces that are not driven to their end leave nothing behind.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from extender.gang.fit import hardest_first
from extender.resources.quantity import Resources, raise_to
from extender.room.occupied import Like, Occupied
from extender.room.places import Place, Places
from extender.state.nodes import NodeInfo
from extender.steps import Steps, at_once

Wanted = tuple[Like, int]
_NOWHERE: Final[Mapping[str, Resources]] = {}
_PIECE: Final = 512
"""Nodes that are looked at in one piece, at most."""


@dataclass(frozen=True, slots=True)
class Placed:
    """So many equal pods on one node."""

    node: NodeInfo
    like: Like
    count: int


@dataclass(frozen=True, slots=True)
class Found:
    """Where pods went, and how many of which did not fit."""

    placed: Sequence[Placed]
    missing: Sequence[Wanted]
    began: Mapping[Like, int] = field(default_factory=dict, repr=False)
    ended: Mapping[Like, int] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """How many were placed."""
        return sum(each.count for each in self.placed)


_Taking = Iterator[Placed | None]
"""Where pods go one after the other, and None after each piece of work."""


class Packing:
    """Rooms, and how far each kind of pods has looked: rooms only shrink, but for what is undone.

    `room` says how much a node has to begin with.
    """

    def __init__(
        self, places: Places, room: Callable[[NodeInfo], Resources], occupied: Occupied
    ) -> None:
        self._places, self._room, self._occupied = places, room, occupied
        self._left: dict[str, Resources] = {}
        self._read: dict[str, Resources] = {}
        """What a node had to begin with when it was looked at last."""
        self._cursors: dict[Like, int] = {}
        self._orders: dict[tuple[Place, tuple[str, ...]], Sequence[NodeInfo]] = {}
        self._most: dict[Place, Resources] = {}
        """At most so much is left on one node, where somebody has looked in vain."""

    def fill(
        self, wanted: Collection[Wanted], *, first: Mapping[str, Resources] = _NOWHERE
    ) -> Found:
        """Place as many pods as there is room for, in so much of these nodes first of all."""
        return at_once(self.filling(wanted, first=first))

    def filling(
        self, wanted: Collection[Wanted], *, first: Mapping[str, Resources] = _NOWHERE
    ) -> Steps[Found]:
        """Do what `fill` does, in pieces; nothing stays placed where they end early."""
        promised: dict[str, Resources] = {}

        def in_order(like: Like, count: int) -> _Taking:
            for placed in self._on(promised, like, count):
                count -= placed.count
                yield placed
            yield from self._in_order(like, count)

        promised.update((name, dict(amounts)) for name, amounts in first.items())
        found = yield from self._fill(wanted, in_order)
        if len(wanted) == 1 or not found.missing or not found.placed:
            return found
        self.undo(found)
        yield
        other = yield from self._fill(wanted, self._fullest_first)
        if other.count > found.count:
            return other
        self.undo(other)
        yield
        self.redo(found)
        return found

    def redo(self, found: Found) -> None:
        """Place again what was taken back, where nothing else has changed since."""
        self._cursors.update(found.ended)
        self._place(found.placed)

    def place(self, wanted: Sequence[Placed]) -> bool:
        """Place pods where they had room before; return whether they have it still, or do nothing.

        Nodes that went, or take these pods no more, have none.
        """
        done: list[Placed] = []
        for each in wanted:
            node = self._places.still(each.node, each.like.shape)
            taken = None if node is None else self._take(node, each.like, each.count)
            if taken is not None:
                done.append(taken)
            if taken is None or taken.count < each.count:
                self._take_back(done)
                return False
        return True

    def still_fits(self, wanted: Sequence[Placed]) -> bool:
        """Return whether pods have room still where they had it before."""
        fits = self.place(wanted)
        if fits:
            self._take_back(wanted)
        return fits

    def look_at(self, node: NodeInfo) -> bool:
        """Take note of how much a node has now; what was placed on it stays there.

        Return whether it has less than before, and less than was placed on it.
        """
        before = self._read.get(node.name)
        if before is None:
            self._free(node)
            return False
        left, now = self._left[node.name], self._room(node)
        self._read[node.name] = now
        grown = overdrawn = False
        for name in {*before, *now}:
            more = now.get(name, 0) - before.get(name, 0)
            left[name] = left.get(name, 0) + more
            grown = grown or more > 0
            overdrawn = overdrawn or (more < 0 and left[name] < 0)
        if grown:
            self._cursors.clear()
            for most in self._most.values():
                raise_to(most, left)
        return overdrawn

    def look_at_places(self) -> None:
        """Take note that nodes came, went or take other pods."""
        self._cursors.clear()
        self._orders.clear()
        self._most.clear()

    def give_back(self, placed: Collection[Placed]) -> None:
        """Take back what was placed at any time."""
        if placed:
            self._cursors.clear()
        self._take_back(placed)

    def undo(self, found: Found) -> None:
        """Take back what was placed last."""
        self._cursors.update(found.began)
        self._take_back(found.placed)

    @contextmanager
    def without(self, placed: Collection[Placed]) -> Iterator[None]:
        """Count pods as gone meanwhile."""
        cursors, self._cursors = self._cursors, {}
        self._take_back(placed)
        try:
            yield
        finally:
            self._place(placed)
            self._cursors = cursors

    def short(self, missing: Iterable[Wanted]) -> Steps[Resources]:
        """Return, in pieces and by name, what pods ask for that no node they may use has left."""
        short: Resources = {}
        largest: dict[Place, Resources] = {}
        for like, count in missing:
            place = self._places.of(like.shape)
            most = largest.get(place)
            if most is None:
                most = largest[place] = yield from self._most_left(place)
            for name, amount in like.shape.requests.items():
                if most.get(name, 0) < amount:
                    short[name] = short.get(name, 0) + amount * count
        return short

    def _most_left(self, place: Place) -> Steps[Resources]:
        """Return by name the most that is left on one node."""
        most: Resources = {}
        for number, node in enumerate(place.nodes):
            if number % _PIECE == _PIECE - 1:
                yield
            raise_to(most, self._free(node))
        return most

    def _fill(self, wanted: Iterable[Wanted], take: Callable[[Like, int], _Taking]) -> Steps[Found]:
        placed: list[Placed] = []
        missing: list[Wanted] = []
        began: dict[Like, int] = {}
        try:
            for like, count in sorted(wanted, key=lambda each: hardest_first(each[0].shape)):
                began.setdefault(like, self._cursors.get(like, 0))
                left = count - (yield from _collected(take(like, count), placed))
                if left:
                    missing.append((like, left))
        except BaseException:  # the pieces end early
            self.undo(Found(placed, missing, began))
            raise
        return Found(placed, missing, began, {like: self._cursors.get(like, 0) for like in began})

    def _place(self, placed: Iterable[Placed]) -> None:
        for each in placed:
            self._put(each.node, each.like, each.count)

    def _take_back(self, placed: Iterable[Placed]) -> None:
        for each in placed:
            self._put(each.node, each.like, -each.count)

    def _on(self, rooms: Mapping[str, Resources], like: Like, count: int) -> Iterator[Placed]:
        for node in self._places.named(rooms, like.shape):
            most = min(count, _slots(rooms[node.name], like))
            placed = self._take(node, like, most) if most > 0 else None
            if placed is not None:
                count -= placed.count
                left = rooms[node.name]
                for name, amount in like.shape.requests.items():
                    left[name] = left.get(name, 0) - amount * placed.count
                yield placed

    def _in_order(self, like: Like, count: int) -> _Taking:
        place = self._places.of(like.shape)
        most = self._most.get(place)
        if most is not None and not _slots(most, like):
            return
        nodes = yield from self._order(place, like)
        number = self._cursors.get(like, 0)
        while count and number < len(nodes):
            placed = self._take(nodes[number], like, count)
            if placed is not None:
                count -= placed.count
                yield placed
            number += bool(count)
            if number % _PIECE == _PIECE - 1:
                yield None
        self._cursors[like] = number
        if count and most is None:
            self._most[place] = yield from self._most_left(place)

    def _order(self, place: Place, like: Like) -> Generator[None, None, Sequence[NodeInfo]]:
        """Return nodes, those with least left first as it was when it was asked for first."""
        key = (place, tuple(like.shape.requests))
        known = self._orders.get(key)
        if known is None:
            largest: Resources = {}
            for node in place.nodes:
                raise_to(largest, node.allocatable)
            known = self._orders[key] = yield from self._fullest(place.nodes, like, largest)
        return known

    def _fullest_first(self, like: Like, count: int) -> _Taking:
        usable: list[NodeInfo] = []
        for number, node in enumerate(self._places.of(like.shape).nodes):
            if number % _PIECE == _PIECE - 1:
                yield None
            if _slots(self._free(node), like):
                usable.append(node)
        nodes = yield from self._fullest(usable, like)
        for number, node in enumerate(nodes):
            if not count:
                return
            if number % _PIECE == _PIECE - 1:
                yield None
            placed = self._take(node, like, count)
            if placed is not None:
                count -= placed.count
                yield placed

    def _fullest(
        self, nodes: Sequence[NodeInfo], like: Like, largest: Resources | None = None
    ) -> Generator[None, None, Sequence[NodeInfo]]:
        """Return nodes, those with the least room first."""
        slack: list[float] = []
        for number, node in enumerate(nodes):
            if number % _PIECE == _PIECE - 1:
                yield
            slack.append(self._slack(node, like, largest))
        return [nodes[number] for number in sorted(range(len(nodes)), key=slack.__getitem__)]

    def _slack(self, node: NodeInfo, like: Like, largest: Resources | None = None) -> float:
        """Return how much of what the pods ask for is left, in parts of the node or the largest."""
        left, whole = self._free(node), largest or node.allocatable
        return sum(left.get(name, 0) / max(1, whole.get(name, 1)) for name in like.shape.requests)

    def _take(self, node: NodeInfo, like: Like, count: int) -> Placed | None:
        slots = min(count, _slots(self._free(node), like))
        if slots <= 0 or self._occupied.bars(node.name, like):
            return None
        slots = 1 if like.shape.one_per_node else slots
        self._put(node, like, slots)
        return Placed(node, like, slots)

    def _put(self, node: NodeInfo, like: Like, count: int) -> None:
        left = self._free(node)
        for name, amount in like.shape.requests.items():
            left[name] = left.get(name, 0) - amount * count
        self._occupied.put(node.name, like, count)
        if count < 0:
            for most in self._most.values():
                raise_to(most, left)

    def _free(self, node: NodeInfo) -> Resources:
        left = self._left.get(node.name)
        if left is None:
            self._read[node.name] = self._room(node)
            left = self._left[node.name] = dict(self._read[node.name])
        return left


def _collected(taking: _Taking, placed: list[Placed]) -> Steps[int]:
    """Add where pods go, in pieces, and return how many go anywhere."""
    count = 0
    for each in taking:
        if each is None:
            yield
        else:
            placed.append(each)
            count += each.count
    return count


def _slots(left: Mapping[str, int], like: Like) -> int:
    """Return for how many pods there is room by amounts; any number where they ask for nothing."""
    most = 1 << 30
    for name, amount in like.shape.requests.items():
        if amount:
            most = min(most, left.get(name, 0) // amount)
            if most <= 0:
                return 0
    return most
