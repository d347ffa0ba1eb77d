"""Real Jobs, by every side."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from typing_extensions import override

from tests.bench.jobs import report
from tests.bench.jobs.load import Load
from tests.bench.jobs.runs import Result, run
from tests.bench.jobs.sides import Side
from tests.bench.queue.runs import Limits
from tests.bench.series import Series


class Bench(Series[Side, Result]):
    """Runs a load through every side, `repeat` times."""

    def __init__(self, load: Load, sides: Sequence[Side], limits: Limits, repeat: int) -> None:
        super().__init__("Jobs", sides, repeat)
        self._load = load
        self._limits = limits

    @override
    def measure(self, side: Side, repeat: int) -> Result:
        return run(self._load, side, repeat=repeat, limits=self._limits, progress=self._progress)

    @override
    def summary(self, result: Result) -> str:
        done = f"{result.measures.complete} of {result.jobs} complete"
        return f"{result.jobs_per_second:.2f} Jobs/s, {done}"

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
