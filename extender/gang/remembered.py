"""What the extender alone knows of a group: it is in no object of the API server."""

from dataclasses import dataclass
from typing import Final

from extender.gang.verdicts import Refuse


@dataclass(frozen=True, slots=True)
class Remembered:
    """A group in the memory of the process that kube-scheduler asks; times since the epoch."""

    denied: Refuse | None = None
    """Its last failure, while the group is refused for it without a look."""
    denied_until: float | None = None
    last_failure: Refuse | None = None
    permitted: bool = False
    """Whether its minResources were there not long ago."""
    is_being_planned: bool = False
    rests_until: float | None = None
    """When the plan is made again that took long and came to nothing."""
    starts_by: float | None = None
    """When its planned and held members are sent away if it has not started."""
    stale: str | None = None
    """A kind of object of which nothing was heard for too long."""


NOTHING: Final = Remembered()
