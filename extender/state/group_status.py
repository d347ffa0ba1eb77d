"""The status of a PodGroup, as it is stored and as it is decided anew."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of a group; times in whole seconds since the epoch."""

    type: str
    holds: bool
    reason: str
    message: str = ""
    since: float = 0.0
    """When `holds` last changed."""
    generation: int = 0
    """The generation of the PodGroup that this was decided for."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What the API tells of a group; times in whole seconds since the epoch."""

    phase: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    occupied_by: str = ""
    schedule_start: float | None = None
    conditions: tuple[Condition, ...] = ()
    """By type, sorted."""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type."""
        return next((each for each in self.conditions if each.type == kind), None)

    def only(self, kinds: Iterable[str]) -> tuple[Condition, ...]:
        """Return the conditions of these types."""
        wanted = frozenset(kinds)
        return tuple(each for each in self.conditions if each.type in wanted)


NO_STATUS = GroupStatus()
