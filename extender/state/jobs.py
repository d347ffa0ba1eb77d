"""What decisions know of a Job: of its group, and of its queue."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One Job as last seen; nothing of one that has ended, for another may use its group then."""

    uid: str
    group: str | None = None
    """`namespace/name` of the PodGroup that its pod template names."""
    begun: int = 0
    """How many pods it begins with."""
    done: int = 0
    """How many of them it will not start again."""
    more: int = 0
    """How many pods it starts in the place of others that succeeded."""
    held_by_queue: str | None = None
    """`namespace/name` of itself where it has a queue: its pods start only when it is admitted."""
    maker: str | None = None
    """The UID of what made it: its pods may be those of a job of another kind."""
