"""Runs of one load by several sides, in turn; one that fails does not end the others."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import product
from typing import Generic, Protocol, TypeVar

import httpx

from tests.bench.progress import Progress
from tests.harness.client import ApiError


class _Titled(Protocol):
    @property
    def title(self) -> str: ...


class _Judged(Protocol):
    @property
    def faults(self) -> Sequence[str]: ...


S = TypeVar("S", bound=_Titled)
R = TypeVar("R", bound=_Judged)


class Series(ABC, Generic[S, R]):
    """Measures every side, `repeat` times."""

    def __init__(self, name: str, sides: Sequence[S], repeat: int) -> None:
        """`name` is that of the load."""
        self.results: list[R] = []
        self.failures: list[str] = []
        self._name = name
        self._sides = sides
        self._repeat = repeat
        self._progress = Progress()

    @abstractmethod
    def measure(self, side: S, repeat: int) -> R:
        """Return what one run came to. RuntimeError and errors of the client where it failed."""

    @abstractmethod
    def summary(self, result: R) -> str:
        """Return one line about a run."""

    def run(self, save: Callable[[], None]) -> None:
        """Measure all of them in turn; `save` is called after each run."""
        for number, side in product(range(1, self._repeat + 1), self._sides):
            self._run(side, number)
            save()

    def _run(self, side: S, repeat: int) -> None:
        name = f"{self._name}, {side.title} {repeat}/{self._repeat}"
        self._progress.title = name
        try:
            result = self.measure(side, repeat)
        except (RuntimeError, ApiError, httpx.TransportError) as error:
            self._progress.say(f"{name}: failed: {error}")
            self.failures.append(f"{name}: the run failed")
            return
        self.results.append(result)
        self.failures += [f"{name}: {fault}" for fault in result.faults]
        self._progress.say(f"{name}: {self.summary(result)}")
