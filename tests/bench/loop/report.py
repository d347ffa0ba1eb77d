"""The rows beside those that were measured before, as a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from tests.bench.loop.scenes import Row
from tests.bench.loop.steps import SLOW_SECONDS

BEFORE: Final = Path(__file__).parent / "before.json"
LIMIT: Final = 1000 * SLOW_SECONDS


def read(path: Path) -> Mapping[str, Row]:
    """Return measured rows by name."""
    found: dict[str, Any] = json.loads(path.read_text())
    return {each["name"]: Row(**each) for each in found["rows"]}


def write(path: Path, rows: Sequence[Row], *, how: str) -> None:
    """Keep rows, and how they were measured."""
    kept = {"how": how, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(kept, indent=1) + "\n")


def table(rows: Sequence[Row], before: Mapping[str, Row]) -> Table:
    """Return a table; what is over the limit is marked."""
    made = Table(title="Longest step and sum of all, in ms of CPU", title_justify="left")
    for name in ("", "longest", "before", "sum", "before", "over", "garbage", "MiB", "before"):
        made.add_column(name, justify="left" if not name else "right")
    for row in rows:
        old = before.get(row.name)
        made.add_row(
            row.name,
            f"{row.longest:.0f}{' !' if row.longest > LIMIT else ''}",
            f"{old.longest:.0f}" if old else "-",
            f"{row.total:.0f}",
            f"{old.total:.0f}" if old else "-",
            str(row.slow),
            f"{row.collection:.0f}",
            f"{row.resident / 2**20:.0f}",
            f"{old.resident / 2**20:.0f}" if old else "-",
        )
    return made


def too_long(rows: Sequence[Row]) -> list[str]:
    """Return, as sentences, which steps were too long."""
    return [
        f"{row.name}: a step of {row.longest:.0f} ms in {row.where}"
        for row in rows
        if row.longest > LIMIT
    ]
