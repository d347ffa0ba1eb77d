"""Room by node that is set aside: for groups that have waited long, or that a queue admitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.resources.quantity import Resources

LONGEST_SECONDS: Final = 1200.0
"""Nobody has room granted for longer than this."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Room that a queue has found for a group: nobody else has it until the group has its plan."""

    rooms: Mapping[str, Resources]
    """By node."""
    until: float
    """Should its pods not come, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Amounts by node that nobody of the same or a lower priority may take.

    One without rooms remembers that there is no place for a claim beside the earlier ones.
    """

    group: str
    priority: int
    rooms: Mapping[str, Resources]
    made_for: tuple[object, ...] = ()
    """What the choice of nodes was based on; a claim lasts as long as this is the same."""
    barred: frozenset[str] = frozenset()
    """Nodes on which those behind it get no claim, because this group could use them."""
    limit: int | None = None
    """On how many nodes its namespace may have claims, where that is why this one has no rooms."""
    fits_since: float | None = field(default=None, compare=False)
    """Since when the group could start, in seconds since the epoch."""
