"""Tables: measures as lines, what is compared as columns; and what figures come to."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from rich.table import Table

from tests.bench.series import Run

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Row(Generic[R]):
    """One line of a table: a number of every run, and how it is written."""

    name: str
    value: Callable[[R], float | None]
    form: str = "{:.0f}"


def columns(results: Iterable[R], key: Callable[[R], Hashable]) -> list[list[R]]:
    """Return the runs by what `key` says that they are of, in the order of the first ones."""
    found: dict[Hashable, list[R]] = {}
    for result in results:
        found.setdefault(key(result), []).append(result)
    return list(found.values())


def table(
    title: str,
    columns: Iterable[Sequence[R]],
    rows: Iterable[Row[R]],
    *,
    heading: Callable[[R], str],
) -> Table:
    """Return medians of the runs of each column, and their spread; no line that has no number."""
    shown = list(columns)
    made = Table(title=title, title_justify="left")
    made.add_column("")
    for runs in shown:
        made.add_column(heading(runs[0]), justify="right")
    for row in rows:
        cells = [cell([row.value(each) for each in runs], row.form) for runs in shown]
        if any(cells):
            made.add_row(row.name, *cells)
    return made


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
    for time, name, amount in changes:
        now = min(max(time, start), end)
        area += total * (now - before)
        before = now
        total += amount - amounts.get(name, 0)
        amounts[name] = amount
    return (area + total * (end - before)) / (end - start)
