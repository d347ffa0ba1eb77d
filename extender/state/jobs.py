"""What decisions know of a Job whose pods are members of a group."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One Job as last seen."""

    uid: str
    group: str | None = None
    """`namespace/name` of the PodGroup that its pod template names."""
    done: int = 0
    """How many of the pods that it began with it will not start again; 0 once it has ended, for
    another Job may use the same group then."""
