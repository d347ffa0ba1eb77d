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
        self._recent: deque[tuple[float, float]] = deque()
        """The time and the length of each lag in the window that no later lag exceeds."""
        self._large: deque[tuple[float, float]] = deque()
        """The time and the length of each lag in the window that is at least COUNTED_SECONDS."""

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
        while self._recent and self._recent[-1][1] <= lag:
            self._recent.pop()
        self._recent.append((now, lag))
        if lag >= COUNTED_SECONDS:
            self._large.append((now, lag))
        self._forget(now)

    @property
    def longest(self) -> float:
        """The longest lag of the last minute, in seconds."""
        self._forget(self._clock.monotonic())
        return self._recent[0][1] if self._recent else 0.0

    def behind(self, limit: float) -> float:
        """Return for how many seconds of the last minute the loop was late by a second or more.

        One lag counts for a third of the limit at most: a machine that stood still for a moment is
        no process that cannot keep up.
        """
        self._forget(self._clock.monotonic())
        return sum(min(lag, limit / 3) for _, lag in self._large)

    def _forget(self, now: float) -> None:
        for noted in (self._recent, self._large):
            while noted and noted[0][0] < now - WINDOW_SECONDS:
                noted.popleft()
