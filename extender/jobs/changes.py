"""How the actions on a job and on its workloads are made."""

from collections.abc import Iterable

from extender.api import wellknown
from extender.api.reasons import JobReason
from extender.jobs.actions import (
    Action,
    Actions,
    DeleteWorkload,
    DropFinalizer,
    FinishWorkload,
    Note,
    StopJob,
    UpdateWorkload,
)
from extender.jobs.fields import Object
from extender.jobs.job import GenericJob
from extender.jobs.pod_sets import pod_sets_of
from extender.jobs.steps import with_annotation
from extender.state.queue.records import WorkloadInfo


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


def update(workload: WorkloadInfo, changes: Object) -> UpdateWorkload:
    """Return how the spec of a workload is changed."""
    what = ", ".join(sorted(changes))
    note = Note(JobReason.UPDATED_WORKLOAD, f"Updated {what} of the workload {workload.meta.name}")
    return UpdateWorkload(workload.key, workload.meta.uid, changes, note)
