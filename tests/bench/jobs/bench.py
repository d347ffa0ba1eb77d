"""All sides, one after the other; one that fails does not end the others."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import httpx
from rich.console import Console

from tests.bench.jobs import report
from tests.bench.jobs.load import Load
from tests.bench.jobs.runs import Result, run
from tests.bench.jobs.sides import Side
from tests.bench.progress import Progress
from tests.bench.queue.runs import Limits
from tests.harness.client import ApiError


class Bench:
    """Runs a load through every side, `repeat` times."""

    def __init__(self, load: Load, sides: Sequence[Side], limits: Limits, repeat: int) -> None:
        self.results: list[Result] = []
        self.failures: list[str] = []
        self._load = load
        self._sides = sides
        self._limits = limits
        self._repeat = repeat
        self._progress = Progress()

    def run(self, save: Callable[[], None]) -> None:
        """Measure all of them in turn; `save` is called after each run."""
        for number, side in product(range(1, self._repeat + 1), self._sides):
            self._run(side, number)
            save()

    def show(self, console: Console) -> None:
        """Print what was measured."""
        if not self.results:
            return
        console.print(report.table(self.results, self._load))
        for line in report.notes(self.results):
            console.print(f"  {line}", soft_wrap=True, highlight=False)

    def as_builtins(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return report.as_builtins(self.results, self._load)

    def _run(self, side: Side, repeat: int) -> None:
        name = f"Jobs, {side.title} {repeat}/{self._repeat}"
        self._progress.title = name
        try:
            result = run(
                self._load, side, repeat=repeat, limits=self._limits, progress=self._progress
            )
        except (RuntimeError, ApiError, httpx.TransportError) as error:
            self._progress.say(f"{name}: failed: {error}")
            self.failures.append(f"{name}: the run failed")
            return
        self.results.append(result)
        self.failures += [f"{name}: {fault}" for fault in result.faults]
        self._progress.say(
            f"{name}: {result.jobs_per_second:.2f} Jobs/s, "
            f"{result.measures.complete} of {result.jobs} complete"
        )
