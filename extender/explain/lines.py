"""Lines of text for a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

LABEL: Final = 14


def line(label: str, words: str) -> str:
    """Return words with what they are about in front of them."""
    return f"{label:<{LABEL}}{words}"


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, as wide as its cells."""
    lines = [names, *rows]
    widths = [max(len(row[column]) for row in lines) for column in range(len(names))]
    for row in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def ago(at: datetime, now: datetime) -> str:
    """Return an age with its two largest units, such as 3m12s."""
    seconds = max(0, int((now - at).total_seconds()))
    parts: list[str] = []
    for letter, unit in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, unit)
        if number or parts:
            parts.append(f"{number}{letter}")
    return f"{''.join(parts[:2]) or '0s'} ago"
