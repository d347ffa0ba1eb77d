"""The same step again, after growing pauses."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from extender.runtime.backoff import Backoff

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how to pause."""

    attempts: int
    new_backoff: Callable[[], Backoff]
    sleep: Callable[[float], Awaitable[None]]

    async def run(self, step: Callable[[], Awaitable[T]], *, on: type[Exception]) -> T:
        """Return what the step returns; raises its last error after `attempts` of the kind `on`."""
        backoff = self.new_backoff()
        for _ in range(self.attempts - 1):
            try:
                return await step()
            except on:
                await self.sleep(backoff.next())
        return await step()
