"""Clocks, so that tests can pass in time."""

import time
from typing import Protocol


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
