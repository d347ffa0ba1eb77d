"""The findings of a check, each with what mends it, and their text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from typing import Any, Final


class FindingLevel(StrEnum):
    """The weight of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


HEADS: Final[Mapping[str, str]] = {
    "server": "API server",
    "crds": "CRDs",
    "rights": "Rights",
    "policies": "Policies",
    "scheduler": "kube-scheduler",
    "others": "What else is installed",
    "queue": "Queues and jobs",
    "extender": "Extender",
    "reconciler": "Reconciler",
    "webhooks": "Webhooks",
    "certificates": "Certificates",
    "smoke": "A gang of two",
}
"""The groups in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands in place of a fact that could not be read."""

    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    id: str
    """Stable, so that a script can look for it; the part before the first dot is its group."""
    level: FindingLevel
    found: str
    mend: str = ""
    """The command or change that mends it; empty where nothing is to be done."""

    @property
    def group(self) -> str:
        """The group under which it is shown."""
        return self.id.partition(".")[0]

    def as_json(self) -> dict[str, Any]:
        """Return it as a script reads it."""
        return {"id": self.id, "level": self.level, "found": self.found, "mend": self.mend}


def ok(name: str, found: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(name, FindingLevel.OK, found)


def warning(name: str, found: str, mend: str) -> Finding:
    """Return that something may cost something, or could not be looked at."""
    return Finding(name, FindingLevel.WARNING, found, mend)


def failure(name: str, found: str, mend: str) -> Finding:
    """Return that something does not work as it is."""
    return Finding(name, FindingLevel.FAILURE, found, mend)


def counts(found: Iterable[Finding]) -> dict[FindingLevel, int]:
    """Return how many findings there are of each level, the worst first."""
    levels = [each.level for each in found]
    return {level: levels.count(level) for level in reversed(FindingLevel)}


def exit_code(found: Iterable[Finding]) -> int:
    """Return the exit code of the command: a warning is no failure."""
    return int(any(each.level is FindingLevel.FAILURE for each in found))


def text(found: Sequence[Finding], width: int) -> str:
    """Return the findings in lines of at most `width`, by group, and how many there are."""
    names = max((len(each.id) for each in found), default=0)
    blocks = []
    for group, head in HEADS.items():
        lines = [
            line for each in found if each.group == group for line in _lines(each, names, width)
        ]
        if lines:
            blocks.append("\n".join([head, *lines]))
    total = ", ".join(
        f"{count} {level}{'s' * (count != 1 and level is not FindingLevel.OK)}"
        for level, count in counts(found).items()
    )
    return "\n\n".join([*blocks, total]) + "\n"


def _lines(each: Finding, names: int, width: int) -> Iterator[str]:
    word = each.level if each.level is FindingLevel.OK else each.level.upper()
    head = f"  {word:<7}  {each.id:<{names}}  "
    room = max(40, width - len(head))  # readable, however narrow the terminal is
    mend = wrap(f"-> {each.mend}", room, subsequent_indent="   ") if each.mend else []
    for number, line in enumerate([*wrap(each.found, room), *mend]):
        yield (" " * len(head) if number else head) + line
