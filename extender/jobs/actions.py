"""Actions on a job and its workload: values that a shell carries out in order.

A shell that fails at one leaves the rest: the next decision sees what is left to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.jobs.fields import Object
from extender.jobs.steps import ChildChange, Step
from extender.state.topology import DomainAssignment


@dataclass(frozen=True, slots=True)
class Note:
    """What the Event about the job says."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class _OnWorkload:
    key: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Make the workload of a job."""

    object: Object
    note: Note


@dataclass(frozen=True, slots=True)
class UpdateWorkload(_OnWorkload):
    """Change the spec of a workload: `spec` is a merge patch of it."""

    spec: Object
    note: Note


@dataclass(frozen=True, slots=True)
class UpdateMetadata(_OnWorkload):
    """Change the metadata of a workload: `metadata` is a merge patch of it."""

    metadata: Object
    note: None = None


@dataclass(frozen=True, slots=True)
class DeleteWorkload(_OnWorkload):
    """Delete a workload. Its finalizer is dropped by an action before."""

    note: Note


@dataclass(frozen=True, slots=True)
class FinishWorkload(_OnWorkload):
    """Set the condition Finished of a workload to True."""

    reason: str
    message: str
    note: Note


@dataclass(frozen=True, slots=True)
class DropFinalizer(_OnWorkload):
    """Remove our finalizer from a workload."""

    note: None = None


@dataclass(frozen=True, slots=True)
class MakePodGroup:
    """Make the PodGroup of a job's pods, or change its minMember."""

    namespace: str
    name: str
    min_member: int
    owners: list[Object]
    done: int = 0
    """How many of them are done since."""
    room_of: str = ""
    """The key of the workload whose room, found at its admission, is granted to the PodGroup."""
    domains: Mapping[str, DomainAssignment] = field(default_factory=dict)
    """Where the pods go, by pod set: those of flavors with a topology."""
    note: None = None


@dataclass(frozen=True, slots=True)
class DropGrant:
    """Withdraw the room that a PodGroup was granted."""

    namespace: str
    name: str
    note: None = None


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start the job by these writes, in this order."""

    steps: tuple[Step, ...]
    note: Note
    refused: FinishWorkload
    """The end of its workload where the API server will never accept them; its message is added."""
    children: tuple[ChildChange, ...] = ()
    """The child Jobs that are changed before."""


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop the job by these writes, in this order; there may be more to do when pods have ended."""

    reason: str
    """The reason of the eviction, or a `JobReason`."""
    message: str
    steps: tuple[Step, ...]
    note: Note | None
    """None where the Event was written when the stop began."""


@dataclass(frozen=True, slots=True)
class FinalizeJob:
    """Tidy up by these writes, in this order."""

    steps: tuple[Step, ...]
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class AwaitPods:
    """Look at the job again soon: its pods run on, and nothing reports their end."""

    note: Note


@dataclass(frozen=True, slots=True)
class ReleaseQuota(_OnWorkload):
    """Give the quota of an evicted workload back.

    The admission goes, QuotaReserved and Admitted become False, and Requeued what is said here.
    """

    requeued: bool
    """Whether it may be admitted again at once."""
    reason: str
    message: str
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    """The `reclaimablePods` that stay."""
    note: None = None


@dataclass(frozen=True, slots=True)
class SetReclaimable(_OnWorkload):
    """Write which pods are done, by pod set."""

    counts: Mapping[str, int]
    note: None = None


@dataclass(frozen=True, slots=True)
class SetPodsReady(_OnWorkload):
    """Write the condition PodsReady."""

    ready: bool
    reason: str
    message: str
    note: None = None


@dataclass(frozen=True, slots=True)
class SetBlocked(_OnWorkload):
    """Write why a workload is not queued; without a reason it is queued again."""

    reason: str = ""
    message: str = ""
    note: None = None


@dataclass(frozen=True, slots=True)
class ReportRefusal:
    """Report in an Event why nothing is done for the job."""

    reason: str
    message: str

    @property
    def note(self) -> Note:
        """The Event about it."""
        return Note(self.reason, self.message, warning=True)


Action = (
    CreateWorkload
    | UpdateWorkload
    | UpdateMetadata
    | DeleteWorkload
    | FinishWorkload
    | DropFinalizer
    | MakePodGroup
    | DropGrant
    | StartJob
    | StopJob
    | FinalizeJob
    | AwaitPods
    | ReleaseQuota
    | SetReclaimable
    | SetPodsReady
    | SetBlocked
    | ReportRefusal
)
Actions = tuple[Action, ...]
StatusChange = FinishWorkload | ReleaseQuota | SetReclaimable | SetPodsReady | SetBlocked
"""What changes the status of a workload."""
WorkloadChange = UpdateWorkload | UpdateMetadata | DeleteWorkload | DropFinalizer | StatusChange
"""What changes a workload that exists."""

NONE: Final[Actions] = ()
