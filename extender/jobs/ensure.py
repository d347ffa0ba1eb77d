"""Exactly one workload for a job: which one it is, and what becomes of others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extender.jobs import fields, names
from extender.jobs.actions import (
    Action,
    AdoptWorkload,
    DeleteWorkload,
    DropFinalizer,
    FinishWorkload,
    Note,
    Refuse,
    UpdateWorkload,
)
from extender.jobs.context import Context
from extender.jobs.fields import Object
from extender.jobs.generic_job import GenericJob, is_composed
from extender.jobs.names import Word
from extender.jobs.reclaim import fitting, holds_quota
from extender.jobs.steps import is_stopping
from extender.jobs.stopping import stop
from extender.jobs.workload import (
    PriorityClassNotFoundError,
    owners,
    prebuilt_name,
    priority_of,
    spec,
)
from extender.state.queues.records import WorkloadInfo


@dataclass(frozen=True, slots=True)
class Found:
    """The workload of a job, and what is to be done about its workloads."""

    workload: WorkloadInfo | None = None
    actions: tuple[Action, ...] = ()
    settled: bool = True
    """Whether one may go on from here; else it is decided again when this is done."""


def ensure_one(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Found:
    """Return the one workload that a job has, or that it has none."""
    if prebuilt_name(job.object):
        return _prebuilt(job, context)
    own = sorted(workloads, key=_rank)
    if own and is_stopping(job):
        # Half of what was injected is still there: nothing that one could compare.
        return Found(own[0])
    match = next((each for each in own if job.equivalent_to_workload(each)), None)
    if match is None and own and job.finished() is not None:
        match = own[0]
    if match is None and own:
        return _none_matches(job, own, context)
    kept = () if match is None else _owned(job, match)
    return Found(match, (*kept, *delete(each for each in own if each is not match)))


def _owned(job: GenericJob, workload: WorkloadInfo) -> tuple[Action, ...]:
    """Return how a workload gets other owners, where most of those that it has are leaving.

    The garbage collector deletes it with the last one, and pods of a group are replaced one by one.
    """
    if not is_composed(job) or not workload.is_of_pods or workload.meta.terminating:
        return ()
    known = {each.uid for each in workload.owners}
    lasting = set(job.lasting())
    if not lasting - known or 2 * len(lasting & known) > len(known):
        return ()
    body: Object = {"ownerReferences": owners(job)}
    return (AdoptWorkload(workload.key, workload.meta.uid, body),)


def delete(workloads: Iterable[WorkloadInfo]) -> tuple[Action, ...]:
    """Return how workloads that no job needs are got rid of."""
    actions: list[Action] = []
    for each in workloads:
        actions += drop_finalizer(each)
        if not each.meta.terminating:
            note = Note(Word.DELETED_WORKLOAD, f"Deleted the workload {each.meta.name}")
            actions.append(DeleteWorkload(each.key, each.meta.uid, note))
    return tuple(actions)


def drop_finalizer(workload: WorkloadInfo) -> tuple[Action, ...]:
    """Return how our finalizer is taken away, if it is there."""
    if names.RESOURCE_IN_USE not in workload.meta.finalizers:
        return ()
    return (DropFinalizer(workload.key, workload.meta.uid),)


def finish(workload: WorkloadInfo, reason: str, message: str) -> FinishWorkload:
    """Return how a workload is said to have ended."""
    note = Note(Word.FINISHED_WORKLOAD, f"The workload {workload.meta.name} has ended: {reason}")
    return FinishWorkload(workload.key, workload.meta.uid, reason, message, note)


def update(workload: WorkloadInfo, changes: Object) -> UpdateWorkload:
    """Return how the spec of a workload is changed."""
    what = ", ".join(sorted(changes))
    note = Note(Word.UPDATED_WORKLOAD, f"Updated {what} of the workload {workload.meta.name}")
    return UpdateWorkload(workload.key, workload.meta.uid, changes, note)


def _rank(workload: WorkloadInfo) -> tuple[bool, bool, bool, float, str]:
    meta, idle = workload.meta, workload.admission is None
    return meta.terminating, workload.finished, idle, meta.created, meta.name


def _none_matches(job: GenericJob, own: list[WorkloadInfo], context: Context) -> Found:
    first = own[0]
    if not job.is_suspended():
        message = f"It no longer asks for what its workload {first.meta.name} does"
        return Found(
            None, stop(job, Word.NO_MATCHING_WORKLOAD, message, workload=first), settled=False
        )
    if holds_quota(job, context):  # the quota is in use until its pods are gone
        return Found(None, settled=False)
    if not _may_change(first):
        return Found(None, delete(own), settled=False)
    try:
        priority = priority_of(job, context)
    except PriorityClassNotFoundError as error:
        return Found(None, (Refuse(Word.PRIORITY_CLASS_NOT_FOUND, str(error)),), settled=False)
    absent: Object = {"maximumExecutionTimeSeconds": None, "queueName": None}
    wanted = {**absent, **spec(job, priority)}
    if priority.source is None:
        wanted["priorityClassRef"] = None
    counts = {each.name: each.count for each in job.pod_sets()}
    changed = (*fitting(first, counts), update(first, wanted))
    return Found(None, (*changed, *delete(own[1:])), settled=False)


def _may_change(workload: WorkloadInfo) -> bool:
    return workload.admission is None and not workload.finished and not workload.meta.terminating


def _prebuilt(job: GenericJob, context: Context) -> Found:
    found, wanted = context.prebuilt, prebuilt_name(job.object)
    if found is None:
        message = f"Its workload {wanted} is not there yet"
        return Found(
            None, stop(job, Word.WORKLOAD_NOT_FOUND, message, workload=None), settled=False
        )
    uid = fields.text(job.object, "metadata", "uid")
    if found.owner is not None and found.owner.uid != uid:
        message = f"The workload {wanted} belongs to {found.owner.kind} {found.owner.name}"
        stopped = stop(job, Word.WORKLOAD_OWNED, message, workload=None)
        return Found(None, (*stopped, Refuse(Word.WORKLOAD_OWNED, message)), settled=False)
    if _is_out_of_sync(job, found):
        message = "The job asks for something else than its prebuilt workload"
        stopped = stop(job, Word.OUT_OF_SYNC, message, workload=found)
        return Found(None, (*stopped, finish(found, Word.OUT_OF_SYNC, message)), settled=False)
    if found.owner is None:
        labels: Object = {names.JOB_UID: uid}
        body: Object = {
            "labels": labels,
            "ownerReferences": owners(job),
            "finalizers": [*dict.fromkeys((*found.meta.finalizers, names.RESOURCE_IN_USE))],
        }
        return Found(None, (AdoptWorkload(found.key, found.meta.uid, body),), settled=False)
    return Found(found)


def _is_out_of_sync(job: GenericJob, workload: WorkloadInfo) -> bool:
    ended = workload.finished or job.finished() is not None
    if ended or is_stopping(job):
        return False
    return not job.equivalent_to_workload(workload)
