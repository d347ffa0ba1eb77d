"""What a group that has not started waits for."""

from dataclasses import dataclass

from extender.api.wellknown import Reason


@dataclass(frozen=True, slots=True)
class Pending:
    """What a group waits for."""

    reason: Reason
    message: str
