"""The facts that a decision about a job is given, and the actions that it returns.

Actions are values that a shell carries out in order. A shell that fails at one leaves the rest: the
next decision sees what is left to do. Pods are ready or not (KEP-349), and pods that are done give
their quota back (KEP-78).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from extender.api import wellknown
from extender.api.reasons import JobReason, PodsReadyReason
from extender.api.values import Overrides, ignored, limited
from extender.api.wellknown import WorkloadCondition
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.job import ChildChange, GenericJob, Step, pod_sets_of
from extender.state.cluster.records import ConditionInfo, DomainAssignment
from extender.state.queue.records import (
    FlavorInfo,
    Meta,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)


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
    note: None = None


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
    note: Note | None


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
    """Withdraw the room that is kept for a PodGroup."""

    group: str
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
    """Look at the job again soon: nothing reports what it waits for."""

    note: Note | None = None


@dataclass(frozen=True, slots=True)
class ReleaseQuota(_OnWorkload):
    """Give the quota of an evicted workload back.

    The admission goes, and QuotaReserved and Admitted become False.
    """

    requeued: bool
    """True if it may be admitted again at once."""
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


def stop(job: GenericJob, message: str, *, workload: WorkloadInfo | None) -> Actions:
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
        metadata = fields.mapping(steps[0].patch, "metadata")
        said = {**fields.mapping(metadata, "annotations"), wellknown.STOPPED_ANNOTATION: mark}
        patch = {**steps[0].patch, "metadata": {**metadata, "annotations": said}}
        steps = (replace(steps[0], patch=patch), *steps[1:])
    note = None if job.is_suspended() else Note(JobReason.STOPPED, job.stop_message(message))
    return (StopJob(steps, note),) if steps else ()


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


# -- the facts, and what they mean for pods and quota

_MESSAGES = {
    PodsReadyReason.STARTED: "All pods are ready or have succeeded",
    PodsReadyReason.RECOVERED: "All pods are ready again",
    PodsReadyReason.WAIT_FOR_START: "Not all pods are ready yet",
    PodsReadyReason.WAIT_FOR_RECOVERY: "Pods that were ready no longer are",
}


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The number of pods of a job that were done for good, if that is known."""

    began: int | None = None
    """The number when it was first seen running with its quota."""
    missed: int | None = None
    """The number when pods were missed last."""


def readiness(
    job: GenericJob, workload: WorkloadInfo, progress: JobProgress
) -> SetPodsReady | None:
    """Return the condition to write, or None where it is stored already."""
    stored = workload.condition(WorkloadCondition.PODS_READY)
    runs = workload.admitted and not workload.evicted
    if not runs and stored is None:
        return None  # no condition yet, and no pods to wait for
    reason = _reason(job, stored, progress) if runs else PodsReadyReason.WAIT_FOR_START
    ready = reason in (PodsReadyReason.STARTED, PodsReadyReason.RECOVERED)
    if stored is not None and (stored.status, stored.reason) == (str(ready), reason):
        return None
    message = _MESSAGES[reason]
    return SetPodsReady(workload.key, workload.meta.uid, ready, reason, message)


def is_ready(job: GenericJob, before: ConditionInfo | None, progress: JobProgress) -> bool:
    """Return whether a job has its pods; `before` is the condition as it is stored.

    Where pods are followed by others there may be no moment at which all are ready. So before the
    first time those count too that are done since the start; afterwards it is as good that more
    are done than when pods were missed.
    """
    if job.is_suspended():
        return False
    if job.pods_ready():
        return True
    if not _were_ready(before):
        return progress.began is not None and job.pods_ready_since(progress.began)
    missed = (
        progress.missed if before and before.reason == PodsReadyReason.WAIT_FOR_RECOVERY else None
    )
    return missed is not None and job.pods_done() > missed


def _reason(
    job: GenericJob, before: ConditionInfo | None, progress: JobProgress
) -> PodsReadyReason:
    if is_ready(job, before, progress):
        again = before is not None and before.reason in (
            PodsReadyReason.WAIT_FOR_RECOVERY,
            PodsReadyReason.RECOVERED,
        )
        return PodsReadyReason.RECOVERED if again else PodsReadyReason.STARTED
    return (
        PodsReadyReason.WAIT_FOR_RECOVERY if _were_ready(before) else PodsReadyReason.WAIT_FOR_START
    )


def _were_ready(before: ConditionInfo | None) -> bool:
    return before is not None and (
        before.status == "True" or before.reason == PodsReadyReason.WAIT_FOR_RECOVERY
    )


QuotaRelease = Literal["OnTerminating", "OnTerminal"]
"""The time when pods that are being deleted give their quota back: at once, or when they end."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A job up the chain of owners that is queued itself."""

    name: str
    admitted: bool
    workload: WorkloadInfo | None = None
    """Its Workload, where the job is the pods of a service."""
    late: Collection[str] | None = None
    """The pod sets of a service whose pods are made only when others run; None if not known."""
    fitting: Collection[str] = ()
    """The UIDs of pods of a service that wait and ask for no more than its Workload says."""
    larger: Collection[str] = ()
    """The UIDs of such pods that ask for more."""
    starts_it: bool = False
    """True if the controller of the job above starts and stops this one."""


@dataclass(frozen=True, slots=True)
class PodGroupState:
    """The facts about the PodGroup of a workload's pods, if it exists or not."""

    made_by_queue: bool = False
    """True if the ClusterQueue that admitted it makes a PodGroup for pods that bring none."""
    granted: bool = False
    """True if room is kept for it."""
    size: tuple[int, int] | None = None
    """The PodGroup's minMember and how many of these are known to be done; None without one."""
    domains: Mapping[str, DomainAssignment] = field(default_factory=dict)
    """The domains that it gives to its pods, by pod set."""


@dataclass(frozen=True, slots=True)
class Context:
    """The settings, and the objects that the job refers to."""

    flavors: Mapping[str, FlavorInfo] = field(default_factory=dict)
    workload_priority_classes: Mapping[str, WorkloadPriorityClassInfo] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClassInfo] = field(default_factory=dict)
    manage_without_queue_name: bool = False
    namespace_selected: bool = True
    """True if the namespace is one of those in which jobs without a queue name are held."""
    ancestor: Ancestor | None = None
    prebuilt: WorkloadInfo | None = None
    """The workload that the job names, where it names one and it is there."""
    is_taken: Callable[[str], bool] = lambda _: False
    """Tells whether a Workload of another job, or of none, has a name in the job's namespace."""
    has_pods: Callable[[WorkloadInfo], bool] = lambda _: False
    """Tells whether a workload has pods that have not ended."""
    has_stopped: bool = True
    """True if the job's controller has noticed the last stop, as far as it is waited for."""
    may_start: bool = True
    """False while the job's controller still waits for pods from before the stop."""
    pod_groups: Mapping[str, PodGroupState] = field(default_factory=dict)
    """The PodGroups, by key of the job's workloads."""
    overdue: bool = False
    """True if the pods of a stopped job have not ended, or pods of a group not come, for long."""
    pods_gone: bool = False
    """True if there is no pod of a stopped job whose status has said for long that pods run."""
    wait_for_pods_ready: bool = False
    progress: JobProgress = field(default_factory=JobProgress)
    release_quota: QuotaRelease = "OnTerminating"
    """The strategy of the ClusterQueue, or else of the settings."""
    overrides: Overrides = field(default_factory=Overrides)
    """The settings that the ClusterQueue lets the job change."""

    def pod_group(self, workload: WorkloadInfo) -> PodGroupState:
        """Return what is known of the PodGroup of a workload's pods."""
        return self.pod_groups.get(workload.key, PodGroupState())


_STRATEGIES: Final = get_args(QuotaRelease)


def release_strategy(annotations: Mapping[str, str], otherwise: QuotaRelease) -> QuotaRelease:
    """Return when quota is released, as an annotation says. Unknown values are ignored."""
    said = annotations.get(wellknown.RELEASE_QUOTA)
    return next((each for each in _STRATEGIES if each == said), otherwise)


def unreadable_release(meta: Meta) -> Iterator[str]:
    """Yield a message about an unknown value in the annotation of a job or a ClusterQueue."""
    said = meta.annotations.get(wellknown.RELEASE_QUOTA)
    if said and said not in _STRATEGIES:
        yield ignored(wellknown.RELEASE_QUOTA, said, " or ".join(_STRATEGIES))


def release_limits(meta: Meta, ruled: QuotaRelease, overrides: Overrides) -> Iterator[str]:
    """Yield a message about a value that the ClusterQueue does not allow its jobs."""
    asked = release_strategy(meta.annotations, ruled)
    counts = overrides.limited(wellknown.RELEASE_QUOTA, asked, ruled)
    if counts != asked:
        yield limited(wellknown.RELEASE_QUOTA, asked, counts)


def holds_quota(job: GenericJob, context: Context) -> bool:
    """Return whether pods run that the quota of a stopped job is still needed for."""
    return runs(job, context) or bool(_terminating(job, context))


def runs(job: GenericJob, context: Context) -> bool:
    """Return whether pods run, as the job's status says unless that was seen to be outdated."""
    return (job.is_active() or not context.has_stopped) and not context.pods_gone


def reclaim(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Return the `reclaimablePods` to write, where they differ from those that are stored."""
    counts = _counted(job, workload, context)
    if counts is None or (workload.evicted and workload.admission is not None):
        return NONE  # what is given back as a whole needs no parts
    before = workload.reclaimable
    if workload.admission is None:
        return _set(workload, {name: done for name, done in counts.items() if done > 0})
    # What was given back stays so; the API server demands each name again, one with a zero too.
    kept = {name: max(done, before.get(name, 0)) for name, done in counts.items()}
    ends_now = not job.is_composed and not any(job.terminating_pods().values())
    if ends_now and all(kept[p.name] >= p.count for p in workload.pod_sets):
        return NONE  # the job ends now, and its end gives back all quota
    return _set(workload, {name: n for name, n in kept.items() if n > 0 or name in before})


def with_reclaimable(workload: WorkloadInfo, said: Actions) -> WorkloadInfo:
    """Return a workload as it is after these actions on its `reclaimablePods`."""
    for action in said:
        if isinstance(action, SetReclaimable):
            workload = replace(workload, reclaimable=action.counts)
    return workload


def lowered(job: GenericJob, workload: WorkloadInfo, context: Context) -> dict[str, int]:
    """Return the `reclaimablePods` that stay when a workload gives all of its quota back.

    Pods that will run again have to be asked for with the rest, from the first moment on.
    """
    before = {name: done for name, done in workload.reclaimable.items() if done > 0}
    counts = _counted(job, workload, context)
    if counts is None:
        return before
    left = {name: min(done, counts.get(name, 0)) for name, done in before.items()}
    return {name: done for name, done in left.items() if done > 0}


def fitting(workload: WorkloadInfo, counts: Mapping[str, int]) -> Actions:
    """Return how `reclaimablePods` follow pod sets of these sizes, which they cannot exceed."""
    before = workload.reclaimable.items()
    kept = {name: min(done, counts[name]) for name, done in before if counts.get(name)}
    return _set(workload, kept)


def _set(workload: WorkloadInfo, counts: Mapping[str, int]) -> Actions:
    if _positive(counts) == _positive(workload.reclaimable):
        return NONE
    return (SetReclaimable(workload.key, workload.meta.uid, counts),)


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: done for name, done in counts.items() if done}


def _counted(job: GenericJob, workload: WorkloadInfo, context: Context) -> dict[str, int] | None:
    """Return by pod set how many pods need no quota any more, or None where the kind cannot say.

    A number is below zero where there are more pods than the workload asks for.
    """
    found = job.reclaimable_pods()
    if found is None:
        return None
    counts = _done(found, job, workload)
    for name, still in _terminating(job, context).items():
        counts[name] = counts.get(name, 0) - still
    return {each.name: min(counts.get(each.name, 0), each.count) for each in workload.pod_sets}


def _done(found: Mapping[str, int], job: GenericJob, workload: WorkloadInfo) -> dict[str, int]:
    """Return the pods that are done, out of those that the workload asks for.

    A job that was given less than that counts from what it was given.
    """
    if not found or workload.admission is None or job.is_composed:
        return dict(found)
    runs = {each.name: each.count for each in job.pod_sets()}
    asked = {each.name: each.count for each in workload.pod_sets}
    never = {name: asked[name] - runs.get(name, asked[name]) for name in asked}
    return {name: done + never.get(name, 0) for name, done in found.items()}


def _terminating(job: GenericJob, context: Context) -> dict[str, int]:
    """Return the pods that take their time to end, where their quota waits for it."""
    annotations = fields.strings(job.object, "metadata", "annotations")
    asked = release_strategy(annotations, context.release_quota)
    if (
        context.overrides.limited(wellknown.RELEASE_QUOTA, asked, context.release_quota)
        != "OnTerminal"
    ):
        return {}
    return {name: count for name, count in job.terminating_pods().items() if count}
