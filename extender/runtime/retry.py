"""Retries of a step, after growing pauses."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from extender.runtime.backoff import Backoff
from extender.runtime.clock import Clock

T = TypeVar("T")


def asked_pause(error: Exception) -> float:
    """Return the pause in seconds that the server requested: an error's `retry_after`."""
    return getattr(error, "retry_after", None) or 0.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How to pause between tries, and by which clock to stop."""

    new_backoff: Callable[[], Backoff]
    sleep: Callable[[float], Awaitable[None]]
    clock: Clock

    async def run(
        self, step: Callable[[], Awaitable[T]], *, on: type[Exception], until: float
    ) -> T:
        """Return what the step returns.

        Errors of the kind `on` are retried as long as the next attempt begins before `until`,
        in the clock's monotonic seconds; then the last one is raised.
        """
        backoff = self.new_backoff()
        while True:
            try:
                return await step()
            except on as error:
                pause = max(backoff.next(), asked_pause(error))
                if self.clock.monotonic() + pause >= until:
                    raise
                await self.sleep(pause)
