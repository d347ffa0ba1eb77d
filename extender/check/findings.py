"""What a check has found, and what mends it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class FindingLevel(StrEnum):
    """How much a finding is against running here."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    id: str
    """Stable, so that a script can look for it; the part before the first dot is its group."""
    level: FindingLevel
    found: str
    mend: str = ""
    """What to do about it; empty where nothing is to be done."""

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


HEADS: Final[Mapping[str, str]] = {
    "server": "API server",
    "crds": "CRDs",
    "rights": "Rights",
    "policies": "Policies",
    "scheduler": "kube-scheduler",
    "others": "What else is installed",
    "extender": "Extender",
    "reconciler": "Reconciler",
    "webhooks": "Webhooks",
    "certificates": "Certificates",
    "smoke": "A gang of two",
}
"""The groups in the order in which they are shown."""
