"""The time, and how the work of a process shares it.

Everything that is due waits for the running step of the event loop. So long work runs in short
steps, with other tasks in between, and `LoopLag` measures how long what is due has to wait.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from extender.steps import Steps

T = TypeVar("T")


class Clock(Protocol):
    """A monotonic clock, and the time since the epoch."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""

    def wall(self) -> float:
        """Return seconds since the epoch, for times that people read."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()  # noqa: TID251 - the one place


# --- long work in short steps ----------------------------------------------------------------

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


# --- the lag of the event loop ---------------------------------------------------------------

EVERY_SECONDS: Final = 0.05
"""The longest that a step may hold the loop, and the interval of the timer that notices it."""
WINDOW_SECONDS: Final = 60.0
COUNTED_SECONDS: Final = 1.0
"""Smaller lags are load, and no reason to end a process."""


class LoopLag:
    """Measures by how much a timer is late; `observe` takes each lag, in seconds.

    A step that holds the loop shows up as a lag of its length, less at most the interval of the
    timer. So does the load of other programs, where the machine has too few processors: callers
    wait for that, too.
    """

    def __init__(self, clock: Clock, observe: Callable[[float], None]) -> None:
        self._clock = clock
        self._observe = observe
        self._lags = deque[tuple[float, float]](maxlen=round(WINDOW_SECONDS / EVERY_SECONDS))
        """The time and the length of each lag of the last minute."""

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock.monotonic() + EVERY_SECONDS
            await asyncio.sleep(EVERY_SECONDS)
            now = self._clock.monotonic()
            self.note(now, max(0.0, now - due))

    def note(self, now: float, lag: float) -> None:
        """Add a lag."""
        self._observe(lag)
        self._lags.append((now, lag))

    @property
    def longest(self) -> float:
        """The longest lag of the last minute, in seconds."""
        return max(self._last_minute(self._clock.monotonic()), default=0.0)

    def behind(self, limit: float) -> float:
        """Return for how many seconds of the last minute the loop was late by a second or more.

        One lag counts for a third of the limit at most: a machine that stood still for a moment is
        no process that cannot keep up.
        """
        large = [n for n in self._last_minute(self._clock.monotonic()) if n >= COUNTED_SECONDS]
        return sum(min(lag, limit / 3) for lag in large)

    def _last_minute(self, now: float) -> list[float]:
        while self._lags and self._lags[0][0] < now - WINDOW_SECONDS:
            self._lags.popleft()
        return [lag for _, lag in self._lags]
