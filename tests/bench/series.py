"""What the benchmarks share: runs of a load by several sides in turn, then a table, JSON, an exit.

In a table measures are lines, and what is compared are columns.

Progress goes to standard error: one line that changes on a terminal, few lines elsewhere.
"""

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import httpx
import msgspec
from rich.console import Console
from rich.table import Table

from tests.harness.client import ApiError
from tests.harness.process import Component

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 2.0
_POLL_SECONDS = 0.1
_FILE_WIDTH = 200


class Progress:
    """Writes what is new every little while; `title` says which run it is about."""

    def __init__(self) -> None:
        self.title = ""
        self._terminal = sys.stderr.isatty()
        self._written = time.monotonic()

    def __call__(self, text: str) -> None:
        """Write `text`, unless a text was written just now; several lines are always written."""
        now = time.monotonic()
        due = now - self._written >= (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS)
        if due or "\n" in text:
            self._written = now
            self._write(f"{self.title}: {text}", lasting="\n" in text)

    def say(self, text: str) -> None:
        """Write `text` in any case, on a line that stays."""
        self._write(text, lasting=True)

    def _write(self, text: str, *, lasting: bool) -> None:
        start = "\r\x1b[K" if self._terminal else ""
        end = "" if self._terminal and not lasting else "\n"
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run is ended although not everything is done, in seconds."""

    run: float = 300.0
    stall: float = 60.0
    """Without anything that happens."""


def await_count(
    count: Callable[[], int],
    wanted: int,
    what: str,
    *,
    limits: Limits,
    process: Component,
    say: Callable[[str], None],
) -> str:
    """Return "" when so many are there, otherwise why it is not waited any longer.

    `process` is the one that makes them, and `what` they are.
    """
    began = changed = time.monotonic()
    before = 0
    while (found := count()) < wanted:
        now, standing = time.monotonic(), f"{found} of {wanted} {what}"
        if found > before:
            before, changed = found, now
        say(f"{standing} in {now - began:.0f} s")
        if not process.running:
            return f"{process.name} ended with {process.exit_code}: {standing}"
        if now - began > limits.run:
            return f"ended at the limit of {limits.run:g} s: {standing}"
        if now - changed > limits.stall:
            return f"stalled for {limits.stall:g} s: {standing}"
        time.sleep(_POLL_SECONDS)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run of a side gave; CPU seconds and MiB by process."""

    derived: ClassVar[Sequence[str]] = ()
    """Properties that are written as JSON, too."""
    side: str
    title: str
    repeat: int
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]
    notes: Sequence[str] = ()
    """Sentences that a reader of the figures must know."""

    @property
    def faults(self) -> Sequence[str]:
        """What must not be, as sentences."""
        return ()

    def as_builtins(self) -> dict[str, Any]:
        """Return all of it, as JSON has it."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made | {name: getattr(self, name) for name in ("faults", *self.derived)}


R = TypeVar("R", bound=Run)


@dataclass(frozen=True, slots=True)
class Row(Generic[R]):
    """One line of a table: a number of every run, and how it is written."""

    name: str
    value: Callable[[R], float | None]
    form: str = "{:.0f}"


class _Titled(Protocol):
    @property
    def title(self) -> str: ...


S = TypeVar("S", bound=_Titled)


class Series(ABC, Generic[S, R]):
    """Measures every side, `repeat` times; a run that fails does not end the others."""

    def __init__(self, name: str, sides: Sequence[S], repeat: int, *, load: Any) -> None:
        """`name` is that of the load, and `load` what is written of it as JSON."""
        self.name = name
        self._load_as_builtins = msgspec.to_builtins(load)
        self.results: list[R] = []
        self.failures: list[str] = []
        self.progress = Progress()
        self._sides = sides
        self._repeat = repeat

    @abstractmethod
    def measure(self, side: S, repeat: int) -> R:
        """Return what one run came to. RuntimeError and errors of the client where it failed."""

    @abstractmethod
    def summary(self, result: R) -> str:
        """Return one line about a run."""

    @abstractmethod
    def rows(self) -> Iterable[Row[R]]:
        """Return the lines of the table."""

    def table(self) -> Table:
        """Return medians of the runs of each side, and their spread; no line without a number."""
        by_title: dict[str, list[R]] = {}
        for run in self.results:
            by_title.setdefault(run.title, []).append(run)
        made = Table(title=self.name, title_justify="left")
        made.add_column("")
        for title in by_title:
            made.add_column(title, justify="right")
        for row in self.rows():
            cells = [cell([row.value(run) for run in runs], row.form) for runs in by_title.values()]
            if any(cells):
                made.add_row(row.name, *cells)
        return made

    def notes(self) -> list[str]:
        """Return what is said below the table."""
        return [
            f"{run.title}, repeat {run.repeat}: {note}"
            for run in self.results
            for note in run.notes
        ]

    def run(self, save: Callable[[], None]) -> None:
        """Measure all of them in turn; `save` is called after each run."""
        for number, side in product(range(1, self._repeat + 1), self._sides):
            self._run(side, number)
            save()

    def show(self, console: Console) -> None:
        """Print what was measured."""
        if self.results:
            console.print(self.table())
        for line in self.notes() if self.results else ():
            console.print(f"  {line}", soft_wrap=True, highlight=False)

    def as_builtins(self) -> dict[str, Any]:
        """Return everything that was measured, as JSON has it."""
        runs = [each.as_builtins() for each in self.results]
        return {"title": self.name, "load": self._load_as_builtins, "runs": runs}

    def _run(self, side: S, repeat: int) -> None:
        name = f"{self.name}, {side.title} {repeat}/{self._repeat}"
        self.progress.title = name
        try:
            result = self.measure(side, repeat)
        except (RuntimeError, AssertionError, ApiError, httpx.TransportError) as error:
            self.progress.say(f"{name}: failed: {error}")
            self.failures.append(f"{name}: the run failed")
            return
        self.results.append(result)
        self.failures += [f"{name}: {fault}" for fault in result.faults]
        self.progress.say(f"{name}: {self.summary(result)}")


def play(series: Sequence[Series[Any, Any]], file: Path | None) -> int:
    """Run all, write the results after each run, print them, and return the exit code."""

    def save() -> None:
        if file is not None:
            document = [each.as_builtins() for each in series if each.results]
            file.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))

    for each in series:
        each.run(save)
    save()
    # In a file or a pipe no line is broken in two.
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    for each in series:
        each.show(console)
    failures = [sentence for each in series for sentence in each.failures]
    for sentence in failures:
        console.print(f"FAILED: {sentence}", style="bold red", soft_wrap=True, highlight=False)
    return 1 if failures else 0


def cell(values: Sequence[float | None], form: str) -> str:
    """Return the median, with lowest and highest where they differ from it; "" without any."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    text, low, high = (form.format(value) for value in (median(known), min(known), max(known)))
    return text if low == text == high else f"{text} ({low}..{high})"


def of_processes(names: Sequence[str]) -> list[Row[Run]]:
    """Return the lines of CPU and memory of processes; the benchmark's own memory says nothing."""

    def cpu(name: str) -> Callable[[Run], float | None]:
        return lambda run: run.cpu_seconds.get(name)

    def peak(name: str) -> Callable[[Run], float | None]:
        return lambda run: run.peak_mib.get(name)

    return [
        *(Row(f"CPU s, {name}", cpu(name), "{:.1f}") for name in names),
        *(Row(f"peak MiB, {name}", peak(name)) for name in names if name != "bench"),
    ]


def percentile(values: Sequence[float], q: float) -> float:
    """Return the smallest of the values that at least the share `q` of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(q * len(ordered)) - 1, 0)]


def mean_over_time(changes: Iterable[tuple[float, str, int]], *, start: float, end: float) -> float:
    """Return the mean of the sum of all amounts between two times; 0.0 where none is between.

    `changes` are in their order: from that time on the thing of that name has that amount. What
    came before the start counts, what comes after the end does not.
    """
    if end <= start:
        return 0.0
    amounts: dict[str, int] = {}
    total, area, before = 0, 0.0, start
    for at, name, amount in changes:
        now = min(max(at, start), end)
        area += total * (now - before)
        before = now
        total += amount - amounts.get(name, 0)
        amounts[name] = amount
    return (area + total * (end - before)) / (end - start)
