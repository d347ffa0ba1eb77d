"""Gangs that are enough together with the fewest pods: what a price for each pod does not find.

Of gangs of two, three and four pods two leave room for five with five pods; bought one by one at
the same price for each pod, the largest would go first, and six pods with it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from extender.gang.preempt.units import Evictable
from extender.gang.preempt.what_if import WhatIf
from extender.steps import PIECE, Steps

COMPARED: Final = 256
"""So many gangs are compared, at most."""
AT_ONCE: Final = 2000
"""So many sums are compared in one piece."""


class Bid(NamedTuple):
    """One gang that may go."""

    pods: int
    room: int
    """For how many pods it leaves room."""


class _Sum(NamedTuple):
    """Gangs that leave so much room together."""

    pods: int
    gangs: int
    chosen: "tuple[int, _Sum] | None"
    """The last of them, and the sum without it."""


def fewest(bids: Sequence[Bid], wanted: int, *, below: int) -> Steps[list[int] | None]:
    """Return which of the bids leave room for so many pods with the fewest pods that go.

    Of equal sums that with the fewest gangs, and then with those that come first. None where it
    takes `below` pods, or more, or where all are not enough.
    """
    best: list[_Sum | None] = [_Sum(0, 0, None), *[None] * wanted]
    done = 0
    for number, bid in enumerate(bids):
        done += wanted
        if done >= AT_ONCE:
            done = 0
            yield
        for has in range(wanted - 1, -1, -1):
            before, room = best[has], min(wanted, has + bid.room)
            if before is None or room == has or before.pods + bid.pods >= below:
                continue
            there = best[room]
            pods, gangs = before.pods + bid.pods, before.gangs + 1
            if there is None or (pods, gangs) < (there.pods, there.gangs):
                best[room] = _Sum(pods, gangs, (number, before))
    found = best[wanted]
    if found is None:
        return None
    numbers = list[int]()
    while found.chosen is not None:
        number, found = found.chosen
        numbers.append(number)
    return numbers[::-1]


class Exchange:
    """Other gangs in the place of the most important ones that go: of their priority and cost."""

    def __init__(
        self, what_if: WhatIf, region: str, going: Sequence[Evictable], *, keep_budgets: bool
    ) -> None:
        self._what_if, self._region, self._keep_budgets = what_if, region, keep_budgets
        self._highest = max((unit.rank.priority, unit.rank.cost) for unit in going)
        self._old = [unit for unit in going if self._is_meant(unit)]
        self.kept = [unit for unit in going if not self._is_meant(unit)]
        """Those that go in any case."""

    def finding(self, missing: int) -> Steps[list[Evictable] | None]:
        """Return gangs of fewer pods that leave room for so many members; those before stay then.

        None where there are none.
        """
        if not self._old:
            return None
        for unit in self._old:
            self._have_back([unit, *unit.beyond])
        wanted = missing - self._what_if.total[self._region]
        below = sum(unit.size for unit in self._old)
        bids = yield from self._bids(below)
        chosen = yield from fewest([*bids.values()], wanted, below=below)
        gangs = [*bids]
        return [gangs[number] for number in chosen] if chosen is not None else None

    def _is_meant(self, unit: Evictable) -> bool:
        return unit.whole and (unit.rank.priority, unit.rank.cost) == self._highest

    def _bids(self, below: int) -> Steps[dict[Evictable, Bid]]:
        """Return for how many pods each gang with fewer pods leaves room by itself."""
        what_if, region, bids, looked = self._what_if, self._region, dict[Evictable, Bid](), 0
        for unit in (yield from self._gangs(below)):
            looked += len(unit.on)
            if looked >= PIECE:
                looked = 0
                yield
            before, parts = what_if.total[region], [*unit.going()]
            what_if.go(unit)
            room = what_if.total[region] - before
            if room > 0 and not (self._keep_budgets and what_if.units.budgets.violations):
                bids[unit] = Bid(unit.size, room)
            self._have_back(parts)
        return bids

    def _gangs(self, below: int) -> Steps[list[Evictable]]:
        """Return the gangs that may go in place of those before, the least important first."""
        found = dict[Evictable, None]()
        for number, node in enumerate(self._what_if.nodes.values()):
            if number % PIECE == PIECE - 1:
                yield
            if node.region == self._region:
                found |= dict.fromkeys(u for u in node.units if not u.gone and self._is_meant(u))
        fewer = (unit for unit in found if unit.size < below)
        return sorted(fewer, key=lambda unit: unit.rank)[:COMPARED]

    def _have_back(self, parts: Sequence[Evictable]) -> None:
        for part in parts:
            self._what_if.stay(part)
