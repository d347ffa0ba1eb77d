"""All controllers, one after the other; a run that fails does not end the others."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from tests.bench.progress import Progress
from tests.bench.queue import load as loads
from tests.bench.queue import report
from tests.bench.queue.controllers import Controller
from tests.bench.queue.load import Load
from tests.bench.queue.runs import Limits, Result, measure
from tests.harness.client import ApiError


class Bench:
    """Runs the load of a file through every controller, `repeat` times."""

    def __init__(
        self,
        load: Load,
        file: Path,
        controllers: Sequence[Controller],
        limits: Limits,
        repeat: int,
    ) -> None:
        self.results: list[Result] = []
        self.failures: list[str] = []
        self._load = load
        self._file = file
        self._controllers = controllers
        self._limits = limits
        self._repeat = repeat
        self._progress = Progress()

    def run(self, save: Callable[[], None]) -> None:
        """Measure all of them in turn; `save` is called after each run."""
        for number, controller in product(range(1, self._repeat + 1), self._controllers):
            self._run(controller, number)
            save()

    def show(self, console: Console) -> None:
        """Print what was measured."""
        if not self.results:
            return
        console.print(report.table(self.results, self._load, self._file.stem))
        lines = report.notes(self.results)
        whole = [each for each in self.results if not each.faults]
        if whole and self._load == loads.read(loads.BASELINE):
            lines += report.compared(whole, report.KUEUE)
        for line in lines:
            console.print(f"  {line}", soft_wrap=True, highlight=False)

    def as_builtins(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return report.as_builtins(self.results, self._load, self._file.stem)

    def _run(self, controller: Controller, repeat: int) -> None:
        name = f"{self._file.stem}, {controller.title} {repeat}/{self._repeat}"
        self._progress.title = name
        try:
            result = measure(
                self._file,
                controller,
                repeat=repeat,
                limits=self._limits,
                progress=self._progress,
            )
        except (RuntimeError, ApiError, httpx.TransportError) as error:
            self._progress.say(f"{name}: failed: {error}")
            self.failures.append(f"{name}: the run failed")
            return
        self.results.append(result)
        self.failures += [f"{name}: {fault}" for fault in result.faults]
        self._progress.say(
            f"{name}: {result.workloads_per_second:.1f} Workloads/s, "
            f"{result.measures.finished} of {result.workloads} finished"
        )
