"""`python -m tests.words`: words for people stand for people, and things are not told.

A pod, a job, a workload and a queue are each "it", and have conditions and Events. `words.json` has
how many such words each part of the project may still have: a part with fewer passes without a
change of that file, and a part that it does not name may have none. `--lower` writes what is there.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MOST: Final = Path(__file__).with_suffix(".json")
READ: Final = ("extender", "docs", "manifests", "overlays", "scheduler-config")
SUFFIXES: Final = {".py", ".md", ".yaml"}
PEOPLE: Final = (
    "people", "person", "user", "users", "administrator", "administrators", "operator", "operators",
    "newcomer", "newcomers", "developer", "developers", "reader", "readers", "anybody", "anyone",
)  # fmt: skip
WORDS: Final = re.compile(
    r"(?<![a-z*])(who|whom|whoever|nobody|somebody|everybody|told|tell|tells)(?![a-z*])",
    re.IGNORECASE,
)
OF_PEOPLE: Final = re.compile(rf"\b({'|'.join(PEOPLE)}),?\s+(with \w+ )?whom?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """A line with such words."""

    part: str
    """The folder of the root, or the file of the root."""
    where: str
    words: tuple[str, ...]


def places(root: Path) -> Iterator[Place]:
    """Yield the lines of a project that have such words, in order."""
    files = [*root.glob("*.md"), *(file for name in READ for file in (root / name).rglob("*"))]
    for file in sorted(files):
        path = file.relative_to(root)
        lines = file.read_text().splitlines() if file.suffix in SUFFIXES else []
        for number, line in enumerate(lines, 1):
            if found := WORDS.findall(OF_PEOPLE.sub("", line)):
                yield Place(path.parts[0], f"{path}:{number}: {line.strip()}", tuple(found))


def counted(found: list[Place]) -> dict[str, int]:
    """Return how many such words each part has, by its name in order."""
    return dict(sorted(Counter(x.part for x in found for _ in x.words).items()))


def complaints(found: list[Place], most: Mapping[str, int]) -> list[str]:
    """Return a sentence about each part that has more such words than it may, and the places."""
    lines = []
    for part, count in counted(found).items():
        if count > most.get(part, 0):
            lines.append(f"{part} has {count} of these words, and may have {most.get(part, 0)}:")
            lines += [f"  {each.where}" for each in found if each.part == part]
    return lines


def main() -> int:
    """Check the counts, or lower them, or print the places of some files; return the exit code."""
    found, most = [*places(ROOT)], json.loads(MOST.read_bytes())
    match sys.argv[1:]:
        case ["--lower"]:
            lower = {k: n for k, v in counted(found).items() if (n := min(v, most.get(k, 0)))}
            MOST.write_text(json.dumps(lower, indent=2) + "\n")
            return 0
        case []:
            pass
        case chosen:
            print("\n".join(x.where for x in found if x.where.startswith(tuple(chosen))))
            return 0
    lines = complaints(found, most)
    print("\n".join(lines) or f"{sum(counted(found).values())} of these words, no more than before")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
