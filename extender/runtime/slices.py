"""Long work on an event loop in slices, so that everything else has its turn in between."""

import asyncio
from collections.abc import Callable, Generator
from typing import Final, TypeVar

T = TypeVar("T")

Steps = Generator[None, bool, T]
"""Work that yields between its steps, each far shorter than a slice. What it is sent back tells
whether others had their turn meanwhile, so that what it read may have changed."""

SLICE: Final = 0.01
"""Seconds after which others have their turn."""


async def in_slices(steps: Steps[T], clock: Callable[[], float], *, each: float = SLICE) -> T:
    """Return what the work comes to; `clock` in seconds, `each` the length of a slice.

    Raises what a step raises.
    """
    try:
        began = clock()
        next(steps)
        while True:
            rested = clock() - began >= each
            if rested:
                await asyncio.sleep(0)
                began = clock()
            steps.send(rested)
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        steps.close()


def at_once(steps: Steps[T]) -> T:
    """Return what the work comes to without a rest; for who has no loop to share."""
    try:
        next(steps)
        while True:
            steps.send(False)  # noqa: FBT003 - the protocol of generators
    except StopIteration as end:
        found: T = end.value
        return found
