"""Workloads under quota, by every controller."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from typing_extensions import override

from tests.bench.queue import load as loads
from tests.bench.queue import report
from tests.bench.queue.controllers import Controller
from tests.bench.queue.load import Load
from tests.bench.queue.runs import Limits, Result, measure
from tests.bench.series import Series


class Bench(Series[Controller, Result]):
    """Runs the load of a file through every controller, `repeat` times."""

    def __init__(
        self,
        load: Load,
        file: Path,
        controllers: Sequence[Controller],
        limits: Limits,
        repeat: int,
    ) -> None:
        super().__init__(file.stem, controllers, repeat)
        self._load = load
        self._file = file
        self._limits = limits

    @override
    def measure(self, side: Controller, repeat: int) -> Result:
        return measure(
            self._file, side, repeat=repeat, limits=self._limits, progress=self._progress
        )

    @override
    def summary(self, result: Result) -> str:
        done = f"{result.measures.finished} of {result.workloads} finished"
        return f"{result.workloads_per_second:.1f} Workloads/s, {done}"

    def show(self, console: Console) -> None:
        """Print what was measured."""
        if not self.results:
            return
        console.print(report.table(self.results, self._load, self._name))
        lines = report.notes(self.results)
        whole = [each for each in self.results if not each.faults]
        if whole and self._load == loads.read(loads.BASELINE):
            lines += report.compared(whole, report.KUEUE)
        for line in lines:
            console.print(f"  {line}", soft_wrap=True, highlight=False)

    def as_builtins(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return report.as_builtins(self.results, self._load, self._name)
