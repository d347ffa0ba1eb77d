"""Long work with a result, in steps between which other tasks run."""

from typing import TypeVar

from extender.runtime.pacer import Pacer
from extender.steps import Steps

T = TypeVar("T")


async def in_slices(steps: Steps[T], pacer: Pacer) -> T:
    """Return the result of the work. Raises what a step raises.

    Each step is sent whether other tasks have run since the step before.
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
