"""Nodes by what they have of one resource, least first.

A packer that looks for a node with so much of a resource begins at the first one that has it, and
so passes the full ones without a look. The order is kept from one question to the next: only nodes
that changed meanwhile get another place.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_FEW: Final = 8
"""If more than one in this number of nodes changed, sorting all takes less time."""

Entry = tuple[int, str]
"""An amount, and the name of the node that has it; equal amounts are in the order of names."""


class NodeOrder:
    """Nodes in the order of an amount, by resource; `amounts` returns those of a node."""

    __slots__ = ("_amounts", "_changed", "_having", "_known", "_most", "_moved", "_orders")

    def __init__(self, amounts: Callable[[str], Mapping[str, int] | None]) -> None:
        self._amounts = amounts
        self._known: dict[str, Mapping[str, int]] = {}
        self._orders: dict[str, list[Entry]] = {}
        self._most: dict[str, int] = {}
        self._having = Counter[str]()
        """The number of nodes that have a resource; if none has it, all orders are the same."""
        self._changed: set[str] = set()
        """Nodes to be read again."""
        self._moved: dict[str, Mapping[str, int] | None] = {}
        """Nodes that were, and are to have other places: what they had when those were given."""

    def note(self, *nodes: str) -> None:
        """Note that nodes came, went, or have other amounts."""
        self._changed.update(nodes)

    def all(self) -> Mapping[str, Mapping[str, int]]:
        """Return the amounts of all nodes by name; the answer is the next one's too."""
        if self._changed:
            self._read()
        return self._known

    def by(self, resource: str) -> Sequence[Entry]:
        """Return all nodes, the one with the least of a resource first.

        The answer stays as it is when nodes change: a reader may go on with it.
        """
        amounts = self.all()
        if self._moved:
            self._sort()
        if not self._having[resource]:
            resource = ""
        found = self._orders.get(resource)
        if found is None:
            entries = ((each.get(resource, 0), name) for name, each in amounts.items())
            found = self._orders[resource] = sorted(entries)
        return found

    def most(self, resource: str) -> int:
        """Return the most that any node has of a resource, never less than zero."""
        amounts = self.all()
        if not self._having[resource]:
            return 0
        found = self._most.get(resource)
        if found is None:
            found = max((each.get(resource, 0) for each in amounts.values()), default=0)
            found = self._most[resource] = max(0, found)
        return found

    def _read(self) -> None:
        changed, self._changed = self._changed, set()
        self._most.clear()
        for name in changed:
            before = self._known.pop(name, None)
            self._moved.setdefault(name, before)
            self._having.subtract(before or ())
            amounts = self._amounts(name)
            if amounts is not None:
                self._known[name] = amounts
                self._having.update(amounts.keys())

    def _sort(self) -> None:
        """Give the nodes that changed their new places, in copies of the orders."""
        moved, self._moved = self._moved, {}
        if len(moved) > len(self._known) // _FEW:
            self._orders.clear()
        for resource, order in self._orders.items():
            self._orders[resource] = self._sorted(order.copy(), resource, moved)

    def _sorted(
        self, order: list[Entry], resource: str, moved: Mapping[str, Mapping[str, int] | None]
    ) -> list[Entry]:
        for name, before in moved.items():
            now = self._known.get(name)
            if before is not None:
                del order[bisect_left(order, (before.get(resource, 0), name))]
            if now is not None:
                insort(order, (now.get(resource, 0), name))
        return order
