"""Tables: measures as lines, what is compared as columns."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from rich.table import Table

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
