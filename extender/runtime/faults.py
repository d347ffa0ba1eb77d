"""Errors: the unexpected ones are noted, and after those that pass, work is tried again.

A loop that serves many objects must not end because of one. It reports an error that it did not
expect and goes on. The log has the traceback, and a counter has the place, so that the bug stays
visible.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import structlog
from cachetools import TTLCache

from extender.runtime.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")

_log = structlog.get_logger(__name__)

LOG_AGAIN_SECONDS: Final = 600.0
"""Seconds after which the same error of the same object is logged again."""
REMEMBERED: Final = 10_000
"""The number of objects of which a process remembers what it has said of them."""


class Faults:
    """Counts unexpected errors by place, and logs each with its traceback."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._counts: Counter[str] = Counter()
        self._logged: TTLCache[tuple[str, str, str], None] = TTLCache(
            REMEMBERED, LOG_AGAIN_SECONDS, clock
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many errors there were, by place."""
        return self._counts

    def count(self, where: str) -> None:
        """Count an error of a place of which nothing is to be logged."""
        self._counts[where] += 1

    def report(self, where: str, error: BaseException, *, key: object = "") -> None:
        """Count an error of a place, and log it; `key` names the object that caused it."""
        self.count(where)
        known = where, str(key), repr(error)[:200]
        if known in self._logged:
            _log.debug("internal error again", where=where, key=key, error=repr(error))
            return
        self._logged[known] = None
        _log.error("internal error", where=where, key=key, error=repr(error), exc_info=error)


FAULTS: Final = Faults()
"""The faults of this process: one table, because an error may occur anywhere."""


def harmless(where: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator for what is only noted: its errors are those of a place, not its caller's.

    A caller may be in the middle of a decision, which must be carried out whole.
    """

    def decorate(noting: Callable[P, None]) -> Callable[P, None]:
        @wraps(noting)
        def note(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                noting(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - nothing depends on it
                FAULTS.report(where, error)

        return note

    return decorate


# --- work that is tried again ----------------------------------------------------------------


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
