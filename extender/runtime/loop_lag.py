"""The lag of the event loop: everything that is due waits for the running step.

A timer notes by how much it was late. A step that holds the loop shows up as a lag of its length,
less at most the interval of the timer. So does the load of other programs, where the machine has
too few processors: callers wait for that, too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from extender.runtime.clock import Clock

EVERY_SECONDS: Final = 0.05
WINDOW_SECONDS: Final = 60.0
COUNTED_SECONDS: Final = 1.0
"""Smaller lags are load, and no reason to end a process."""


class LoopLag:
    """Measures while `run` runs; `observe` takes each lag, in seconds."""

    def __init__(self, clock: Clock, observe: Callable[[float], None]) -> None:
        self._clock = clock
        self._observe = observe
        self._lags: deque[tuple[float, float]] = deque()
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
        self._last_minute(now)

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
