"""Exactly one workload for a job: which one it is, and what becomes of others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from extender.api import wellknown
from extender.api.reasons import FinishReason, JobReason
from extender.jobs import fields
from extender.jobs.actions import Action, ReportRefusal, UpdateMetadata
from extender.jobs.changes import delete, finish, stop, update
from extender.jobs.context import Context
from extender.jobs.fields import Object
from extender.jobs.job import GenericJob
from extender.jobs.reclaim import fitting, holds_quota
from extender.jobs.refusals import refusal
from extender.jobs.workload import (
    PriorityClassNotFoundError,
    prebuilt_name,
    priority_of,
    spec,
)
from extender.state.queue.records import WorkloadInfo


@dataclass(frozen=True, slots=True)
class Ensured:
    """The workload of a job, and what is to be done about its workloads."""

    workload: WorkloadInfo | None = None
    actions: tuple[Action, ...] = ()
    settled: bool = True
    """Whether the decision goes on from here; else it is made again after these actions."""


def _unsettled(*actions: Action) -> Ensured:
    return Ensured(None, actions, settled=False)


def ensure_one(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Ensured:
    """Return the one workload that a job has, or that it has none."""
    own, brought = sorted(workloads, key=_rank), prebuilt_name(job.object)
    others = [each for each in own if context.prebuilt is None or each.key != context.prebuilt.key]
    if brought and not any(each.admission for each in others if not each.finished):
        found = _prebuilt(job, context)
        return replace(found, actions=(*delete(others), *found.actions))
    if own and job.is_stopping():
        # Half of what was injected is still there: nothing that one could compare.
        return Ensured(own[0])
    match = next((each for each in own if job.equivalent_to_workload(each)), None)
    if match is None and own and (job.finished() is not None or _lacks_pods(job, own[0])):
        match = own[0]
    if match is None and own:
        return _none_matches(job, own, context)
    kept = () if match is None else _owned(job, match)
    return Ensured(match, (*kept, *delete(each for each in own if each is not match)))


def _lacks_pods(job: GenericJob, workload: WorkloadInfo) -> bool:
    """Return whether a job is to be compared with its workload only when all its pods are there."""
    return job.is_suspended() and workload.admission is None and bool(job.incomplete())


def _owned(job: GenericJob, workload: WorkloadInfo) -> tuple[Action, ...]:
    """Return how a workload gets other owners, where most of those that it has are leaving.

    The garbage collector deletes it with the last one, and pods of a group are replaced one by one.
    """
    if not workload.is_of_pods or workload.meta.terminating:
        return ()
    known = {each.uid for each in workload.owners}
    lasting = set(job.lasting())
    if not lasting - known or 2 * len(lasting & known) > len(known):
        return ()
    body: Object = {"ownerReferences": job.owners()}
    return (UpdateMetadata(workload.key, workload.meta.uid, body),)


def _rank(workload: WorkloadInfo) -> tuple[bool, bool, bool, float, str]:
    meta, idle = workload.meta, workload.admission is None
    return meta.terminating, workload.finished, idle, meta.created, meta.name


def _none_matches(job: GenericJob, own: list[WorkloadInfo], context: Context) -> Ensured:
    first = own[0]
    if not job.is_suspended():
        message = f"It no longer asks for what its workload {first.meta.name} does"
        return _unsettled(*stop(job, JobReason.NO_MATCHING_WORKLOAD, message, workload=first))
    if holds_quota(job, context):  # the quota is in use until its pods are gone
        return _unsettled()
    over = first.admission is not None or first.finished or first.meta.terminating
    if over or refusal(job) is not None:
        return _unsettled(*delete(own))
    try:
        priority = priority_of(job, context)
    except PriorityClassNotFoundError as error:
        return _unsettled(ReportRefusal(JobReason.PRIORITY_CLASS_NOT_FOUND, str(error)))
    absent: Object = {"maximumExecutionTimeSeconds": None, "queueName": None}
    wanted = {**absent, **spec(job, priority)}
    if priority.source is None:
        wanted["priorityClassRef"] = None
    counts = {each.name: each.count for each in job.pod_sets()}
    return _unsettled(*fitting(first, counts), update(first, wanted), *delete(own[1:]))


def _prebuilt(job: GenericJob, context: Context) -> Ensured:
    found, wanted = context.prebuilt, prebuilt_name(job.object)
    if found is None:
        message = f"Its workload {wanted} is not there yet"
        stopped = stop(job, JobReason.WORKLOAD_NOT_FOUND, message, workload=None)
        return _unsettled(*stopped, ReportRefusal(JobReason.WORKLOAD_NOT_FOUND, message))
    uid = fields.text(job.object, "metadata", "uid")
    if found.owner is not None and found.owner.uid != uid:
        message = f"The workload {wanted} belongs to {found.owner.kind} {found.owner.name}"
        stopped = stop(job, JobReason.WORKLOAD_OWNED, message, workload=None)
        return _unsettled(*stopped, ReportRefusal(JobReason.WORKLOAD_OWNED, message))
    if _is_out_of_sync(job, found):
        message = "The job asks for something else than its prebuilt workload"
        stopped = stop(job, FinishReason.OUT_OF_SYNC, message, workload=found)
        return _unsettled(*stopped, finish(found, FinishReason.OUT_OF_SYNC, message))
    if found.owner is None:
        body: Object = {
            "labels": {wellknown.JOB_UID_LABEL: uid},
            "ownerReferences": job.owners(),
            "finalizers": [*dict.fromkeys((*found.meta.finalizers, wellknown.IN_USE_FINALIZER))],
        }
        return _unsettled(UpdateMetadata(found.key, found.meta.uid, body))
    return Ensured(found)


def _is_out_of_sync(job: GenericJob, workload: WorkloadInfo) -> bool:
    ended = workload.finished or job.finished() is not None
    if ended or job.is_stopping():
        return False
    limit = job.is_suspended() and not workload.evicted  # else it was edited while it ran
    if limit and job.max_execution() != workload.max_execution:
        return True
    return not job.equivalent_to_workload(workload)
