"""Growing pauses between attempts."""

from collections.abc import Callable


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
