"""As much of a long computation as there is time for now."""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from extender.runtime.clock import Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a computation has returned."""

    value: T


def advance(steps: Generator[None, None, T], clock: Clock, *, seconds: float) -> Answer[T] | None:
    """Return the answer; None where there is none after so many seconds: the steps can go on.

    At least one step is taken, and no step is cut short.
    """
    until = clock.monotonic() + seconds
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return Answer(end.value)
        if clock.monotonic() >= until:
            return None


async def in_turns(
    steps: Generator[None, None, T], clock: Clock, *, seconds: float = SLICE_SECONDS
) -> T:
    """Return the answer; others have as long a turn after each slice of so many seconds."""
    answer = advance(steps, clock, seconds=seconds)
    while answer is None:
        await asyncio.sleep(seconds)
        answer = advance(steps, clock, seconds=seconds)
    return answer.value
