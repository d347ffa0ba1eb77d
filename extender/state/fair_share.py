"""A bounded look at a long queue: its first entries, and those behind them in turn.

Entries that wait at the front for ever must not keep those behind them from a look.
"""

from collections.abc import Iterable
from itertools import chain, islice, zip_longest

from extender.steps import PIECE, Steps


class FairShare:
    """Chooses which entries of a queue each look reads.

    A half of these are the first of the queue. The namespaces share the other half; each goes
    through its entries, first in turn first, before it begins anew.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._had: dict[str, set[str]] = {}
        """The keys of each namespace that had a look in this round; the one served last is last."""

    def choosing(self, queue: Iterable[str]) -> Steps[list[str]]:
        """Return which keys to read, in their order; each is `namespace/name`."""
        keys, half = [*queue], self._most // 2
        if len(keys) <= self._most:
            return keys
        behind: dict[str, list[str]] = {}
        for number, key in enumerate(keys[half:]):
            if number % PIECE == 0:
                yield
            behind.setdefault(key.partition("/")[0], []).append(key)
        turns = {namespace: number for number, namespace in enumerate(self._had)}
        lines = []
        for namespace in sorted(behind, key=lambda each: turns.get(each, -1)):
            had = self._had.get(namespace, set())
            line = [key for key in behind[namespace] if key not in had]
            if not line:
                had.clear()
            lines.append(line or behind[namespace])
        in_turn = filter(None, chain.from_iterable(zip_longest(*lines)))
        chosen = {*islice(in_turn, self._most - half)}
        for key in keys[half:]:
            if key in chosen:
                namespace = key.partition("/")[0]
                self._had[namespace] = self._had.pop(namespace, set())
                self._had[namespace].add(key)
        self._had = {each: had for each, had in self._had.items() if each in behind}
        return keys[:half] + [key for key in keys[half:] if key in chosen]
