"""One load of both priorities, by every side."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from typing_extensions import override

from tests.bench.preempt import report
from tests.bench.preempt.load import Load
from tests.bench.preempt.runs import Result, run
from tests.bench.runs import Limits
from tests.bench.series import Series
from tests.bench.sides import Side


class Bench(Series[Side, Result]):
    """Runs a load through every side, `repeat` times."""

    def __init__(
        self, load: Load, qps: str, sides: Sequence[Side], *, limits: Limits, repeat: int
    ) -> None:
        super().__init__(report.title(load, qps), sides, repeat)
        self._load, self._qps, self._limits = load, qps, limits

    @override
    def measure(self, side: Side, repeat: int) -> Result:
        return run(
            self._load,
            side,
            qps=self._qps,
            repeat=repeat,
            limits=self._limits,
            progress=self._progress,
        )

    @override
    def summary(self, result: Result) -> str:
        return report.summary(result)

    def show(self, console: Console) -> None:
        """Print what was measured."""
        if self.results:
            console.print(report.table(self.results, self._load, self._qps))
        for each in self.results:
            if each.note:
                console.print(f"  {each.title}, repeat {each.repeat}: {each.note}")

    def as_builtins(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return report.as_builtins(self.results, self._load, self._qps)
