"""Findings as text for a terminal."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from extender.check.findings import HEADS, Finding, FindingLevel, counts

_WORDS: Final = {
    FindingLevel.OK: "ok",
    FindingLevel.WARNING: "WARNING",
    FindingLevel.FAILURE: "FAILURE",
}
_LEAST_WIDTH: Final = 40
"""Of the sentences, however narrow the terminal is."""


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
    return "\n\n".join([*blocks, summary(found)]) + "\n"


def _lines(each: Finding, names: int, width: int) -> Iterator[str]:
    head = f"  {_WORDS[each.level]:<7}  {each.id:<{names}}  "
    room = max(_LEAST_WIDTH, width - len(head))
    mend = wrap(f"-> {each.mend}", room, subsequent_indent="   ") if each.mend else []
    for number, line in enumerate([*wrap(each.found, room), *mend]):
        yield (" " * len(head) if number else head) + line


def summary(found: Sequence[Finding]) -> str:
    """Return how many findings there are of each level."""
    said = counts(found)
    return ", ".join(
        f"{said[level]} {word}{'s' * (said[level] != 1 and level is not FindingLevel.OK)}"
        for level, word in (
            (FindingLevel.FAILURE, "failure"),
            (FindingLevel.WARNING, "warning"),
            (FindingLevel.OK, "ok"),
        )
    )
