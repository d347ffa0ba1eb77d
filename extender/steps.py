"""Long work in pieces, and bounded looks: a generator yields after each piece, then answers.

A piece takes well below a millisecond, or a few where it cannot be shorter, so that a shell can
check its clock in between and go on later. State may change between two pieces: an answer that took
several turns of the event loop is about the past, and is checked before it is acted upon.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final, TypeVar

T = TypeVar("T")
Steps = Generator[None, bool | None, T]
"""The caller may send back whether other tasks have run meanwhile."""

PIECE: Final = 64
"""Nodes or pods that are handled in one piece."""


def at_once(steps: Steps[T]) -> T:
    """Return the answer, however long it takes."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def cut(items: Iterable[T], size: int = PIECE) -> Iterator[Sequence[T]]:
    """Yield items in order, so many at a time."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


class FairShare:
    """Chooses which entries of a long queue each look reads.

    Entries that wait at the front forever must not keep those behind them from a look. So a half
    are the first of the queue. The namespaces share the other half; each goes through its entries,
    first in turn first, before it begins anew.
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
