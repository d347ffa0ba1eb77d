"""Unexpected errors, each confined to the object that causes it.

A loop that serves many objects must not end because of one. It reports the error here and goes on.
The log has the traceback, and a counter has the place, so that the bug stays visible.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, ParamSpec

import structlog
from cachetools import LRUCache

P = ParamSpec("P")

_log = structlog.get_logger(__name__)

LOG_AGAIN_SECONDS: Final = 600.0
"""Seconds after which the same error of the same object is logged again."""
REMEMBERED: Final = 10_000
"""The number of objects of which a process remembers what it has said of them."""


class Faults:
    """Counts unexpected errors by place, and logs each with its traceback."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._logged: LRUCache[tuple[str, str, str], float] = LRUCache(REMEMBERED)

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
        known, now = (where, str(key), repr(error)[:200]), self._clock()
        if now < self._logged.get(known, -LOG_AGAIN_SECONDS) + LOG_AGAIN_SECONDS:
            _log.debug("internal error again", where=where, key=key, error=repr(error))
            return
        self._logged[known] = now
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
