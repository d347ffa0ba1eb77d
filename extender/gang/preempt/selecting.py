"""Which units to try: those of little importance that make much room.

Node after node is bought with the units that have to go for one more pod: where the least important
ones are enough, then where the fewest pods go for each pod that comes. What a gang leaves elsewhere
counts too. What is selected is enough, and may be more than is needed: the search puts units back.
"""

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from extender.fit.candidates import PodShape
from extender.gang.preempt.units import Evictable
from extender.gang.preempt.what_if import SearchedNode, WhatIf
from extender.resources.quantity import Resources, add, subtract
from extender.steps import PIECE, Steps

POOL: Final = 64
"""Nodes that are compared with each other, at least."""
SLACK: Final = 3
"""Or so many times the pods that have no room."""
_AT_ONCE: Final = 16
"""Nodes for which it is worked out in one piece what has to go."""


class Price(NamedTuple):
    """What one more pod on a node costs: the lowest price is paid first."""

    violations: int
    """Evictions beyond what budgets allow."""
    priority: int
    cost: int
    pods: float
    """Pods that go for each one that comes: room beyond what is needed makes no unit cheaper."""
    rest: int
    """Where gangs go whole, for how many pods they leave no room yet: few gangs before many."""
    age: float
    """Of the oldest unit, as in its rank."""
    node: str


class _Bundle:
    """Units of one node that go together, and what they leave of it."""

    def __init__(self, node: SearchedNode) -> None:
        self.node = node
        self.units: list[Evictable] = []
        self.parts: dict[Evictable, int] = {}
        """What goes with them and has not gone, with the number of units that each goes with."""
        self.room: Resources = {}
        self._name = node.info.name

    def put(self, unit: Evictable) -> None:
        self.units.append(unit)
        for part in unit.going():
            if part not in self.parts:
                add(self.room, part.on.get(self._name, {}))
            self.parts[part] = self.parts.get(part, 0) + 1

    def take(self, unit: Evictable) -> None:
        self.units.remove(unit)
        for part in unit.going():
            self.parts[part] -= 1
            if not self.parts[part]:
                del self.parts[part]
                subtract(self.room, part.on.get(self._name, {}))

    @property
    def guarded(self) -> Counter[str]:
        """How many evictions there would be of each budget."""
        found = Counter[str]()
        for part in self.parts:
            found.update(part.guarded)
        return found


class Selection:
    """One selection, in a region, of units up to a priority."""

    def __init__(self, what_if: WhatIf, region: str, limit: int, *, keep_budgets: bool) -> None:
        self.units: list[Evictable] = []
        """Those that go, without what goes with them."""
        self._what_if, self._limit, self._keep_budgets = what_if, limit, keep_budgets
        self._region = region
        self._nodes = what_if.by_region[region]
        self._gain: dict[Evictable, int] = {}
        """For how many pods each gang leaves room, where that is known."""
        self._offers: list[tuple[Price, int, SearchedNode]] = []
        self._looks = self._paused = 0
        """How many prices were worked out, and how many before the last pause."""

    def making(self) -> Steps[bool]:
        """Have units go until all pods have a place; return whether they have."""
        try:
            for pod, count in self._what_if.wanted[self._region]:
                left = yield from self._fill(pod, count)
                if left and not (yield from self._buy(pod, left)):
                    return False
            return True
        finally:
            for node in self._nodes:
                if node.taken:
                    node.clear()

    def _fill(self, pod: PodShape, count: int) -> Steps[int]:
        """Place pods where there is room; return how many have none."""
        for number, node in enumerate(self._nodes):
            if number % PIECE == PIECE - 1:
                yield
            count -= self._place(node, pod, count)
            if not count:
                break
        return count

    def _place(self, node: SearchedNode, pod: PodShape, count: int) -> int:
        most = min(count, self._what_if.takes(node, pod)) if count else 0
        if most <= 0:
            return 0
        node.take(pod, most)
        return most

    def _buy(self, pod: PodShape, count: int) -> Steps[bool]:
        """Have units go until so many pods more have a place; return whether they have."""
        self._gain.clear()
        self._offers.clear()
        rest = iter((yield from self._most_promising_first()))
        while count:
            if not self._offers and not (yield from self._look_at_more(rest, pod, count)):
                return False
            found = self._best(pod, count)
            if self._is_due():
                yield
            if found is not None:
                count = yield from self._pay(found, pod, count)
        return True

    def _most_promising_first(self) -> Steps[list[SearchedNode]]:
        promises = {}
        for number, node in enumerate(self._nodes):
            if number % PIECE == PIECE - 1:
                yield
            promises[node.info.name] = node.promise
        return sorted(self._nodes, key=lambda node: promises[node.info.name])

    def _look_at_more(self, rest: Iterator[SearchedNode], pod: PodShape, count: int) -> Steps[bool]:
        """Work out prices of more nodes; return whether there were any."""
        some = [*islice(rest, max(POOL, SLACK * count))]
        for node in some:
            self._offer(node, pod, count)
            if self._is_due():
                yield
        return bool(some)

    def _best(self, pod: PodShape, count: int) -> "_Bundle | None":
        """Return what is cheapest, as things are now; None where that has to be looked at again."""
        if not self._offers:
            return None
        node = heappop(self._offers)[2]
        found = self._cheapest(node, pod, count)  # what went since may have changed it
        if found is not None and self._offers and found[0] > self._offers[0][0]:
            heappush(self._offers, (found[0], self._looks, node))
            return None
        return found[1] if found is not None else None

    def _pay(self, bundle: "_Bundle", pod: PodShape, count: int) -> Steps[int]:
        """Have units go, and place pods; return how many still have no place."""
        changed: dict[str, SearchedNode] = {bundle.node.info.name: bundle.node}
        for unit in bundle.units:
            changed |= self._go(unit)
        for node in changed.values():
            count -= self._place(node, pod, count)
        for node in changed.values() if count else ():
            self._offer(node, pod, count)
            if self._is_due():
                yield
        return count

    def _is_due(self) -> bool:
        """Return whether as many prices were worked out as are in one piece."""
        due = self._looks - self._paused >= _AT_ONCE
        if due:
            self._paused = self._looks
        return due

    def _offer(self, node: SearchedNode, pod: PodShape, count: int) -> None:
        """Note what one more pod on a node costs, if there is room to be made."""
        found = self._cheapest(node, pod, count)
        if found is not None:
            heappush(self._offers, (found[0], self._looks, node))

    def _go(self, unit: Evictable) -> dict[str, SearchedNode]:
        """Have a unit go; return the nodes of the region that have more room."""
        if unit.gone:  # with the rest of its gang
            return {}
        self.units.append(unit)
        moved = [node for node in self._what_if.go(unit) if node.region == self._region]
        for node in moved:
            for other in node.units:
                self._gain.pop(other, None)
        return {node.info.name: node for node in moved}

    # -- prices

    def _cheapest(
        self, node: SearchedNode, pod: PodShape, count: int
    ) -> tuple[Price, _Bundle] | None:
        """Return units that have to go for one more pod on a node, and the price of it."""
        self._looks += 1
        bundle, now = _Bundle(node), self._what_if.takes(node, pod)
        for unit in node.all(self._what_if.units):
            if unit.rank.priority > self._limit:
                return None
            if unit.gone:
                continue
            bundle.put(unit)
            if self._keep_budgets and self._breaks_budget(bundle):
                bundle.take(unit)
            elif self._takes_without(pod, bundle) > now:
                break
        else:
            return None
        for unit in bundle.units[-2::-1]:
            bundle.take(unit)
            if self._takes_without(pod, bundle) <= now:
                bundle.put(unit)
        gained = self._takes_without(pod, bundle) - now
        return self._price(pod, bundle, count=count, gained=gained), bundle

    def _takes_without(self, pod: PodShape, bundle: _Bundle) -> int:
        return self._what_if.takes(bundle.node, pod, more=bundle.room, without=bundle.parts)

    def _price(self, pod: PodShape, bundle: _Bundle, *, count: int, gained: int) -> Price:
        """Return what units cost that leave room for so many pods on this node, of `count`."""
        units, violations = bundle.units, 0
        if not self._keep_budgets:
            violations = self._what_if.units.budgets.violated_by(bundle.guarded)
        of_gangs = [self._gained(unit, pod) for unit in units if unit.whole]
        served = max(1, min(count, max([gained, *of_gangs])))
        pods = sum(len(part.pods) for part in bundle.parts)
        ranks = [unit.rank for unit in units]
        return Price(
            violations,
            max(rank.priority for rank in ranks),
            max(rank.cost for rank in ranks),
            pods / served,
            count - served if of_gangs else 0,
            max(rank.age for rank in ranks),
            bundle.node.info.name,
        )

    def _gained(self, unit: Evictable, pod: PodShape) -> int:
        """Return for how many pods a gang leaves room by itself."""
        found = self._gain.get(unit)
        if found is None:
            found, what_if = 0, self._what_if
            for name in unit.on:
                node = what_if.nodes.get(name)
                if node is not None and node.region == self._region:
                    bundle = _Bundle(node)
                    bundle.put(unit)
                    found += self._takes_without(pod, bundle) - what_if.takes(node, pod)
            self._gain[unit] = found
        return found

    def _breaks_budget(self, bundle: _Bundle) -> bool:
        guarded = bundle.guarded
        return bool(guarded) and self._what_if.units.budgets.would_break(guarded)
