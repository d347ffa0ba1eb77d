"""Long work with a result, in steps between which others have the event loop."""

from collections.abc import Generator
from typing import TypeVar

from extender.runtime.pacer import Pacer

T = TypeVar("T")

Steps = Generator[None, bool, T]
"""Work that yields between its steps. What it is sent back tells whether others had their turn
meanwhile, so that what it read may have changed."""


async def in_slices(steps: Steps[T], pacer: Pacer) -> T:
    """Return what the work comes to. Raises what a step raises."""
    try:
        next(steps)
        while True:
            rests = pacer.is_due
            if rests:
                await pacer.rest()
            steps.send(rests)
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
