"""All modes, one after the other; one that fails does not end the others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from tests.bench.progress import Progress
from tests.bench.room import report
from tests.bench.room.load import Load
from tests.bench.room.modes import MODES
from tests.bench.room.runs import Result, run
from tests.harness.client import ApiError


class Bench:
    """Runs a load in every mode."""

    def __init__(self, load: Load, file: Path) -> None:
        self.results: list[Result] = []
        self.failures: list[str] = []
        self._load = load
        self._name = file.stem
        self._progress = Progress()

    def run(self, save: Callable[[], None]) -> None:
        """Measure once in each mode, and `save`."""
        for number, mode in enumerate(MODES, 1):
            self._progress.title = f"{self._name}, {mode.title} {number}/{len(MODES)}"
            try:
                result = run(self._load, mode, self._progress)
            except (RuntimeError, ApiError, httpx.TransportError) as error:
                self._progress.say(f"{self._progress.title}: failed: {error}")
                self.failures.append(f"{self._progress.title}: the run failed")
                continue
            self.results.append(result)
            self._progress.say(f"{self._progress.title}: {result.jobs_per_second:.2f} Jobs/s")
        self.failures += report.faults(self.results)
        save()

    def show(self, console: Console) -> None:
        """Print what was measured."""
        if not self.results:
            return
        console.print(report.table(self.results, self._load, self._name))
        for line in report.notes(self._load):
            console.print(f"  {line}", soft_wrap=True, highlight=False)

    def as_builtins(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return report.as_builtins(self.results, self._load, self._name)
