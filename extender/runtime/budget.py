"""Long computations in slices of time."""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from extender.runtime.clock import Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Computed(Generic[T]):
    """The result of a computation."""

    value: T


def advance(steps: Generator[None, None, T], clock: Clock, *, seconds: float) -> Computed[T] | None:
    """Return the result; None where the steps need more than so many seconds, and can go on.

    At least one step is taken, and no step is cut short.
    """
    until = clock.monotonic() + seconds
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return Computed(end.value)
        if clock.monotonic() >= until:
            return None


async def in_turns(
    steps: Generator[None, None, T], clock: Clock, *, seconds: float = SLICE_SECONDS
) -> T:
    """Return the result; after each slice other tasks run for as many seconds."""
    answer = advance(steps, clock, seconds=seconds)
    while answer is None:
        await asyncio.sleep(seconds)
        answer = advance(steps, clock, seconds=seconds)
    return answer.value
