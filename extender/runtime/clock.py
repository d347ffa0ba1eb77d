"""Time as something that is passed in."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that never go back, and seconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch, for what is written for people to read."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()  # noqa: TID251 - the one place
