"""Room that a group which has waited long has a claim to, before it is free."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.resources.quantity import Resources


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
    fits_since: float | None = field(default=None, compare=False)
    """Since when the group could start, in seconds since the epoch."""
