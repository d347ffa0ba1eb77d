"""Long work in pieces: a generator yields after each piece, and returns the answer.

A piece takes well below a millisecond, or a few where it cannot be shorter, so that a shell can
check its clock in between and go on later. State may change between two pieces: an answer that took
several turns of the event loop is about the past, and is checked before it is acted upon.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
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
