"""Settings of the Python process: garbage collections, the depth of the stack, and the version.

Garbage collections must be short, however much a process holds. Nearly everything here is freed by
its reference count, and a collection walks all objects that may be in a cycle: with a hundred
thousand pods that takes a third of a second, while kube-scheduler waits. So long-lived objects are
frozen, which takes them out of all later collections: all objects once the first lists are in, and
from then on after each collection that took too long. Frozen objects are still freed when nothing
refers to them; only a cycle among them stays.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version as _version_of
from typing import Final, Self

from extender.runtime.clock import SLICE_SECONDS, Clock

DEEPEST: Final = 12_000
"""Nested calls: the API server takes objects that are nested 10,000 levels deep."""
THRESHOLDS: Final = (20_000, 5, 1)
"""New objects before a collection of the youngest generation, and how many of these before an older
one: large enough that a long collection cannot follow a short one."""


def version() -> str:
    """Return the version, as `0.1.0`, or `0.1.0.post1.dev7` between two releases."""
    return _version_of("gang-extender")


@contextmanager
def deep_stack() -> Iterator[None]:
    """Allow as many nested calls as the deepest object needs; nothing may be awaited inside."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Garbage:
    """Owns the collector of this process. Use as a context manager."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = 0.0

    def __enter__(self) -> Self:
        """Freeze what was imported, and watch collections from now on."""
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
        """Exclude all current objects from later collections; takes no time."""
        gc.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            self._began = self._clock.monotonic()
        elif self._clock.monotonic() - self._began >= SLICE_SECONDS:
            gc.freeze()
