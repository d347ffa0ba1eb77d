"""Real Jobs on nodes that are partly used, in every mode."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from rich.console import Console
from typing_extensions import override

from tests.bench.room import report
from tests.bench.room.load import Load
from tests.bench.room.modes import MODES, Mode
from tests.bench.room.runs import Result, run
from tests.bench.series import Series


class Bench(Series[Mode, Result]):
    """Runs a load in every mode, `repeat` times."""

    def __init__(self, load: Load, file: Path, repeat: int, *, modes: Collection[str] = ()) -> None:
        """Without `modes` it has all of them."""
        chosen = [each for each in MODES if not modes or each.key in modes]
        super().__init__(file.stem, chosen, repeat)
        self._load = load

    @override
    def measure(self, side: Mode, repeat: int) -> Result:
        return run(self._load, side, repeat=repeat, progress=self._progress)

    @override
    def summary(self, result: Result) -> str:
        return f"{result.jobs_per_second:.2f} Jobs/s"

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
