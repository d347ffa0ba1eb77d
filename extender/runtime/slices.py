"""Long work with a result, in steps between which others have the event loop."""

from typing import TypeVar

from extender.runtime.pacer import Pacer
from extender.steps import Steps

T = TypeVar("T")


async def in_slices(steps: Steps[T], pacer: Pacer) -> T:
    """Return what the work comes to. Raises what a step raises.

    Each step is sent whether others had their turn since the one before.
    """
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
