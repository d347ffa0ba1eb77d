"""As much of a long computation as there is time for now."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

from extender.runtime.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a computation has returned."""

    value: T


def advance(steps: Generator[None, None, T], clock: Clock, *, seconds: float) -> Answer[T] | None:
    """Return the answer; None where there is none after so many seconds: the steps can go on.

    At least one step is taken, and no step is cut short.
    """
    until = clock.monotonic() + seconds
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return Answer(end.value)
        if clock.monotonic() >= until:
            return None
