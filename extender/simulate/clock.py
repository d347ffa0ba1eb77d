"""Time that only the simulation moves."""

from typing import Final

EPOCH: Final = 1_767_225_600.0
"""When a simulation begins that starts from no cluster: 2026-01-01, in seconds since the epoch."""


class VirtualClock:
    """A clock that stands still until it is set; time is in seconds since the beginning."""

    def __init__(self, began: float = EPOCH) -> None:
        """`began` is the time since the epoch at the beginning."""
        self.began = began
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def wall(self) -> float:
        """Return the time since the epoch."""
        return self.began + self.now
