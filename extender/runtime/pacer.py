"""Long work in short steps, so that other tasks run in between."""

import asyncio
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from extender.runtime.clock import Clock
from extender.steps import Steps

T = TypeVar("T")

AT_ONCE_SECONDS: Final = 0.005
"""The longest time for all users of a pacer together: a tenth of what may hold the loop."""
SLICE_SECONDS: Final = 2 * AT_ONCE_SECONDS
"""The length of a slice of one computation, after which other tasks run for as long."""


class Pacer:
    """Limits how long its users work, all together, before other tasks run.

    Between two items of work a user checks `is_due` and, if it is, awaits `rest`.
    """

    def __init__(self, clock: Clock, at_once: float = AT_ONCE_SECONDS) -> None:
        self._clock = clock
        self._at_once = at_once
        self._until = 0.0
        self._ends = False

    @property
    def is_due(self) -> bool:
        """Return whether the time is up."""
        return self._clock.monotonic() >= self._until

    async def rest(self) -> None:
        """Return when other tasks have run."""
        if not self._ends:
            self._ends = True
            # It runs before all users that rest now: they share the next period.
            asyncio.get_running_loop().call_soon(self._begin)
        await asyncio.sleep(0)

    def _begin(self) -> None:
        self._ends = False
        self._until = self._clock.monotonic() + self._at_once

    async def go_through(self, steps: Iterable[object]) -> None:
        """Run all steps, with pauses between them."""
        for _ in steps:
            if self.is_due:
                await self.rest()


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
    return (await timed(steps, clock, seconds=seconds))[0]


async def timed(
    steps: Generator[None, None, T], clock: Clock, *, seconds: float = SLICE_SECONDS
) -> tuple[T, float]:
    """Return the result as `in_turns` does, and the seconds of work without the pauses."""
    spent = 0.0
    while True:
        began = clock.monotonic()
        answer = advance(steps, clock, seconds=seconds)
        spent += clock.monotonic() - began
        if answer is not None:
            return answer.value, spent
        await asyncio.sleep(seconds)


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
