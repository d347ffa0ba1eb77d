"""A queue that holds each key once, now or later."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys to handle, in order of arrival; adding one that waits already changes nothing."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        """When a key is due, by the time of the loop. The handle may not know: for a pause that
        rounds to zero uvloop returns one without a time."""
        self._wakeup = asyncio.Event()

    def add(self, key: K) -> None:
        """Add a key."""
        self._ready.setdefault(key)
        self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after so many seconds, or earlier where that was requested before."""
        loop = asyncio.get_running_loop()
        at, known = loop.time() + seconds, self._timers.get(key)
        if known is not None:
            before, timer = known
            if before <= at:
                return
            timer.cancel()
        self._timers[key] = at, loop.call_at(at, self._due, key)

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    async def get(self) -> K:
        """Return the next key, waiting for one."""
        # A worker that handles many keys without a write awaits nothing else.
        await asyncio.sleep(0)
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        key = next(iter(self._ready))
        del self._ready[key]
        return key
