"""Actions on a job and its workload: values that a shell carries out in order.

A shell that fails at one leaves the rest: the next decision sees what is left to do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.api import wellknown
from extender.api.reasons import JobReason
from extender.jobs.fields import Object
from extender.jobs.job import ChildChange, GenericJob, Step, pod_sets_of, with_annotation
from extender.state.queue.records import WorkloadInfo
from extender.state.topology import DomainAssignment


@dataclass(frozen=True, slots=True)
class Note:
    """The content of an Event about the job."""

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
class PatchWorkload(_OnWorkload):
    """Change the spec or the metadata of a workload by a merge patch."""

    change: Object
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class DropFinalizer(_OnWorkload):
    """Remove our finalizer from a workload."""

    note: None = None


@dataclass(frozen=True, slots=True)
class DeleteWorkload(_OnWorkload):
    """Delete a workload. Its finalizer is removed by an action before."""

    note: Note


@dataclass(frozen=True, slots=True)
class FinishWorkload(_OnWorkload):
    """Set the condition Finished of a workload to True."""

    reason: str
    message: str
    note: Note


@dataclass(frozen=True, slots=True)
class MakePodGroup:
    """Make the PodGroup of a job's pods, or change its minMember."""

    namespace: str
    name: str
    min_member: int
    owners: list[Object]
    done: int = 0
    """The number of them that are done since."""
    room_of: str = ""
    """The key of the workload whose room, found at its admission, is granted to the PodGroup."""
    domains: Mapping[str, DomainAssignment] = field(default_factory=dict)
    """The domains of pods in flavors with a topology, by pod set."""
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
    """The Event; None if it was written when the stop began."""


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
    """True if it may be admitted again at once."""
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
    | PatchWorkload
    | DropFinalizer
    | DeleteWorkload
    | FinishWorkload
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
"""The actions that change the status of a workload."""
WorkloadChange = PatchWorkload | DropFinalizer | DeleteWorkload | StatusChange
"""The actions that change a workload that exists."""

NONE: Final[Actions] = ()


def stop(job: GenericJob, reason: str, message: str, *, workload: WorkloadInfo | None) -> Actions:
    """Return how a job that runs, or was only half stopped, is stopped; nothing where it is.

    Its templates are restored to those of the workload, where there is one. Where that has to wait
    until the pods have ended, a later decision does it.
    """
    if job.is_suspended() and not job.is_stopping():
        return ()
    restored = None if workload is None else pod_sets_of(workload)
    steps = tuple(job.stop_steps(restored))
    mark = "" if job.is_suspended() else job.stop_mark(restored)
    if steps and mark:
        steps = (with_annotation(steps[0], wellknown.STOPPED_ANNOTATION, mark), *steps[1:])
    note = None if job.is_suspended() else Note(JobReason.STOPPED, job.stop_message(message))
    return (StopJob(reason, message, steps, note),) if steps else ()


def delete(workloads: Iterable[WorkloadInfo]) -> tuple[Action, ...]:
    """Return how workloads that no job needs are deleted."""
    actions: list[Action] = []
    for each in workloads:
        actions += drop_finalizer(each)
        if not each.meta.terminating:
            note = Note(JobReason.DELETED_WORKLOAD, f"Deleted the workload {each.meta.name}")
            actions.append(DeleteWorkload(each.key, each.meta.uid, note))
    return tuple(actions)


def drop_finalizer(workload: WorkloadInfo) -> tuple[Action, ...]:
    """Return how our finalizer is removed, if it is there."""
    if wellknown.IN_USE_FINALIZER not in workload.meta.finalizers:
        return ()
    return (DropFinalizer(workload.key, workload.meta.uid),)


def finish(workload: WorkloadInfo, reason: str, message: str) -> FinishWorkload:
    """Return how a workload is marked as finished."""
    note = Note(
        JobReason.FINISHED_WORKLOAD, f"The workload {workload.meta.name} has ended: {reason}"
    )
    return FinishWorkload(workload.key, workload.meta.uid, reason, message, note)


def update(workload: WorkloadInfo, changes: Object) -> PatchWorkload:
    """Return how the spec of a workload is changed."""
    what = ", ".join(sorted(changes))
    note = Note(JobReason.UPDATED_WORKLOAD, f"Updated {what} of the workload {workload.meta.name}")
    return PatchWorkload(workload.key, workload.meta.uid, {"spec": changes}, note)
