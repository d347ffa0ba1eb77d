"""Long work in short steps, so that other tasks run in between."""

import asyncio
from collections.abc import Iterable
from typing import Final

from extender.runtime.clock import Clock

AT_ONCE_SECONDS: Final = 0.005


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
        """Whether the time is up."""
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
