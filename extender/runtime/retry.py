"""Pauses that grow, and work that is tried again after them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from extender.runtime.clock import Clock

T = TypeVar("T")


class Backoff:
    """Doubles from `base` to at most `cap` seconds; `jitter` returns a factor, say 0.5 to 1."""

    def __init__(self, base: float, cap: float, *, jitter: Callable[[], float]) -> None:
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._attempts = 0

    @property
    def base(self) -> float:
        """The first pause, without jitter."""
        return self._base

    def next(self) -> float:
        """Return how long to wait before the next attempt, in seconds."""
        pause = min(self._cap, self._base * 2.0**self._attempts)
        self._attempts = min(self._attempts + 1, 32)
        return pause * self._jitter()

    def reset(self) -> None:
        """Start from `base` again."""
        self._attempts = 0


def asked_pause(error: Exception) -> float:
    """Return the pause in seconds that the server requested: an error's `retry_after`."""
    return getattr(error, "retry_after", None) or 0.0


@dataclass(frozen=True, slots=True)
class Retry:
    """A way to retry: the pauses between tries, and the clock that ends them."""

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
