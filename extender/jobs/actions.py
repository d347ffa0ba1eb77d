"""What is to be done about a job and its workload: values that a shell carries out in order.

A shell that fails at one leaves the rest: the next decision sees what is left to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.jobs.fields import Object
from extender.jobs.generic_job import Step


@dataclass(frozen=True, slots=True)
class Note:
    """What the Event about the job says."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Make the workload of a job."""

    object: Object
    note: Note


@dataclass(frozen=True, slots=True)
class UpdateWorkload:
    """Change the spec of a workload: `spec` is a merge patch of it."""

    key: str
    uid: str
    spec: Object
    note: Note


@dataclass(frozen=True, slots=True)
class AdoptWorkload:
    """Make the job the controller of a workload that was there before: a patch of metadata."""

    key: str
    uid: str
    metadata: Object
    note: None = None


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete a workload. Its finalizer is dropped by an action before."""

    key: str
    uid: str
    note: Note


@dataclass(frozen=True, slots=True)
class FinishWorkload:
    """Say that a workload has ended for good: its condition Finished becomes True."""

    key: str
    uid: str
    reason: str
    message: str
    note: Note


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Take our finalizer away from a workload."""

    key: str
    uid: str
    note: None = None


@dataclass(frozen=True, slots=True)
class MakePodGroup:
    """Make a PodGroup for the pods of a job, or have it want as many as this."""

    namespace: str
    name: str
    min_member: int
    owners: list[Object]
    done: int = 0
    """How many of them are done since."""
    rooms: Mapping[str, Mapping[str, int]] | None = None
    """Amounts by node that were found for its pods, where nodes were asked."""
    note: None = None


@dataclass(frozen=True, slots=True)
class DropGrant:
    """Have no room kept for a PodGroup any more."""

    namespace: str
    name: str
    note: None = None


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start the job by these writes, in this order."""

    steps: tuple[Step, ...]
    note: Note


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop the job by these writes, in this order; there may be more to do when pods have ended."""

    reason: str
    """Why: the reason of an eviction, or a word of our own."""
    message: str
    steps: tuple[Step, ...]
    note: Note | None
    """None where it was told when the stop began."""


@dataclass(frozen=True, slots=True)
class FinalizeJob:
    """Tidy up by these writes, in this order."""

    steps: tuple[Step, ...]
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class ReleaseQuota:
    """Give the quota of an evicted workload back.

    The admission goes, QuotaReserved and Admitted become False, and Requeued what is said here.
    """

    key: str
    uid: str
    requeued: bool
    """Whether it may be admitted again at once."""
    reason: str
    message: str
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    """What stays told of the pods that are done."""
    note: None = None


@dataclass(frozen=True, slots=True)
class SetReclaimable:
    """Write which pods are done, by pod set."""

    key: str
    uid: str
    counts: Mapping[str, int]
    note: None = None


@dataclass(frozen=True, slots=True)
class SetPodsReady:
    """Write the condition PodsReady."""

    key: str
    uid: str
    ready: bool
    reason: str
    message: str
    note: None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the job why nothing is done for it."""

    reason: str
    message: str

    @property
    def note(self) -> Note:
        """The Event about it."""
        return Note(self.reason, self.message, warning=True)


Action = (
    CreateWorkload
    | UpdateWorkload
    | AdoptWorkload
    | DeleteWorkload
    | FinishWorkload
    | DropFinalizer
    | MakePodGroup
    | DropGrant
    | StartJob
    | StopJob
    | FinalizeJob
    | ReleaseQuota
    | SetReclaimable
    | SetPodsReady
    | Refuse
)
Actions = tuple[Action, ...]

NONE: Final[Actions] = ()
