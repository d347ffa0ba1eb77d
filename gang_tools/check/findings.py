"""The findings of a check, each with what mends it, and their text for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from textwrap import wrap
from typing import Final


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
    "autoscalers": "Autoscalers",
    "queue": "Queues and jobs",
    "extender": "Extender",
    "reconciler": "Reconciler",
    "webhooks": "Webhooks",
    "certificates": "Certificates",
    "smoke": "A gang of two",
}
"""The groups in the order in which they are shown."""
RENEWAL: Final = "renew it (docs/tasks/admin/credentials.md)"


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


def ok(name: str, found: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(name, FindingLevel.OK, found)


def warning(name: str, found: str, mend: str) -> Finding:
    """Return that something may cost something, or could not be looked at."""
    return Finding(name, FindingLevel.WARNING, found, mend)


def failure(name: str, found: str, mend: str) -> Finding:
    """Return that something does not work as it is."""
    return Finding(name, FindingLevel.FAILURE, found, mend)


def certificate(
    name: str, title: str, ends: float, *, mend: str, now: float, is_brief: bool = False
) -> Finding:
    """Return when a certificate or a token ends; one that `is_brief` is renewed every hour."""
    name = f"certificates.{name}"
    days = (ends - now) / 86400
    day = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if days <= 0:
        return failure(name, f"{title} ended {day}", mend)
    if days < 7 and not is_brief:
        return warning(name, f"{title} ends {day}, in {days:.1f} days", mend)
    return ok(name, f"{title} ends {day}")


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
        lines = [head]
        for each in (each for each in found if each.group == group):
            word = each.level if each.level is FindingLevel.OK else each.level.upper()
            start = f"  {word:<7}  {each.id:<{names}}  "
            room = max(40, width - len(start))  # readable, however narrow the terminal is
            mend = wrap(f"-> {each.mend}", room, subsequent_indent="   ") if each.mend else []
            for number, line in enumerate((*wrap(each.found, room), *mend)):
                lines.append((" " * len(start) if number else start) + line)
        if lines[1:]:
            blocks.append("\n".join(lines))
    total = ", ".join(
        f"{count} {level}{'s' * (count != 1 and level is not FindingLevel.OK)}"
        for level, count in counts(found).items()
    )
    return "\n\n".join([*blocks, total]) + "\n"
