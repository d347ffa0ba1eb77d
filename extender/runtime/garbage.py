"""Garbage collections that are short, however much a process holds.

Nearly everything here is freed by its reference count, and a collection walks all objects that may
be in a cycle: with a hundred thousand pods a third of a second, in which kube-scheduler waits. So
what lives long is frozen, which takes it out of all later collections: what there is when the first
lists are in, and from then on whatever made a collection take too long. Frozen objects are still
freed when nothing refers to them; only a cycle among them stays.
"""

import gc
from typing import Final, Self

from extender.runtime.clock import Clock

LONGEST_SECONDS: Final = 0.01
THRESHOLDS: Final = (20_000, 5, 1)
"""New objects until the youngest are looked at, and how often until older ones are too: so many
that a collection that follows a short one cannot be a long one."""


class Garbage:
    """Owns the collector of this process. Use as a context manager."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = 0.0

    def __enter__(self) -> Self:
        """Freeze what was imported, and look after collections from now on."""
        self._before = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the collector as it was."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._before)

    def freeze(self) -> None:
        """Take everything that there is now out of later collections; takes no time."""
        gc.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            self._began = self._clock.monotonic()
        elif self._clock.monotonic() - self._began >= LONGEST_SECONDS:
            gc.freeze()
