"""Room that a group which has waited long has a claim to, before it is free."""

from collections.abc import Mapping
from dataclasses import dataclass

from extender.resources.quantity import Resources


@dataclass(frozen=True, slots=True)
class Claim:
    """Amounts by node that nobody of the same or a lower priority may take."""

    group: str
    priority: int
    rooms: Mapping[str, Resources]
    made_for: tuple[object, ...] = ()
    """What the choice of nodes was based on; a claim lasts as long as this is the same."""
