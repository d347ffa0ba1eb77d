"""What is to be done about one job: the reconcile of KEP-369, in its order, as a pure decision."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from extender.jobs import fields, names
from extender.jobs.actions import (
    NONE,
    Actions,
    CreateWorkload,
    DropGrant,
    FinalizeJob,
    FinishWorkload,
    Note,
    Refuse,
    ReleaseQuota,
    StartJob,
)
from extender.jobs.context import Context
from extender.jobs.ensure import delete, drop_finalizer, ensure_one, finish, update
from extender.jobs.gang import group_of, late_pod_sets, pod_group, regrouped
from extender.jobs.generic_job import (
    Finished,
    GenericJob,
    is_composed,
    is_finalizing,
    is_skipping,
)
from extender.jobs.names import Word
from extender.jobs.placements import FlavorNotFoundError, placements_of
from extender.jobs.readiness import readiness
from extender.jobs.reclaim import holds_quota, lowered, reclaim, told
from extender.jobs.steps import is_stopping, start_steps
from extender.jobs.stopping import stop
from extender.jobs.templates import PlacementError
from extender.jobs.workload import PriorityClassNotFoundError, build, free_name, priority_of
from extender.state.queues.records import WorkloadInfo

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_DNS_LABEL}(\.{_DNS_LABEL})*")
_AT_ONCE: Final = frozenset((Word.PREEMPTED, Word.NODE_FAILURES))
"""Evictions after which a workload may be admitted again without waiting for anything."""
_MOST_PODS: Final = 2**31 - 1
_NEVER_RAN: Final = frozenset((Word.OUT_OF_SYNC, Word.FAILED_TO_START))


def decide(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Actions:
    """Return what is to be done, in order; nothing where all is as it should be.

    `workloads` are those that the job owns. Time does not pass here: it is decided again when the
    job, one of its workloads, or something that the context speaks of has changed.
    """
    if is_skipping(job) and job.skip():
        return NONE
    if fields.text(job.object, "metadata", "deletionTimestamp"):
        # Of other kinds nobody may be left who would tell that the pods are gone.
        return NONE if is_composed(job) and job.is_active() else _dropped(job, workloads)
    if context.ancestor is not None:
        return _held(job, workloads, context)
    if _is_unmanaged(job, workloads, context):
        return delete(workloads)
    return _manage(job, workloads, context)


def _manage(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Actions:
    tidy = job.tidy_steps() if is_composed(job) else ()
    if tidy:
        said = f"{len(tidy)} pods more than its group has are deleted"
        return (FinalizeJob(tuple(tidy), Note(Word.EXCESS_POD_DELETED, said)),)
    found = ensure_one(job, workloads, context)
    if not found.settled:
        return found.actions
    if found.workload is None:
        return (*found.actions, *_create(job, context))
    return (*found.actions, *_follow(job, found.workload, context))


def _dropped(job: GenericJob, workloads: Sequence[WorkloadInfo]) -> Actions:
    """Let the workloads of a job that is deleted go; one may be deleted as soon as it has ended."""
    ended = job.finished()
    return tuple(
        action
        for each in workloads
        for action in (
            *(() if ended is None or each.finished else (_ended(each, ended),)),
            *drop_finalizer(each),
        )
    )


def _ended(workload: WorkloadInfo, ended: Finished) -> FinishWorkload:
    return finish(workload, Word.SUCCEEDED if ended.success else Word.FAILED, ended.message)


def _held(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Actions:
    """Hold the child of a job that is queued itself; who lets it go is its parent."""
    ancestor = context.ancestor
    if ancestor is None or ancestor.admitted or job.finished() is not None:
        return delete(workloads)
    message = f"{ancestor.name}, which it is a part of, is not admitted"
    return (*stop(job, Word.ANCESTOR_NOT_ADMITTED, message, workload=None), *delete(workloads))


def _is_unmanaged(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> bool:
    if not job.ignore_from_queueing():
        return False
    if context.manage_without_queue_name and context.namespace_selected:
        return False
    # One whose name was taken away while it ran has quota until it ends.
    return not any(each.admission or each.finished for each in workloads)


# -- no workload yet


def _create(job: GenericJob, context: Context) -> Actions:
    if job.finished() is not None:
        return NONE
    if not job.is_suspended() or is_stopping(job):
        return stop(job, Word.NO_MATCHING_WORKLOAD, "It has no workload yet", workload=None)
    refused = _refusal(job)
    if refused is not None:
        return (refused,)
    if job.is_active() or (is_composed(job) and job.incomplete()):
        return NONE
    try:
        name = free_name(job, context.is_taken)
        workload = build(job, priority_of(job, context), name)
    except PriorityClassNotFoundError as error:
        return (Refuse(Word.PRIORITY_CLASS_NOT_FOUND, str(error)),)
    return (CreateWorkload(workload, Note(Word.CREATED_WORKLOAD, f"Created the workload {name}")),)


def _refusal(job: GenericJob) -> Refuse | None:
    queue, found = job.queue_name(), job.pod_sets()
    pod_sets = len(found)
    if is_composed(job) and job.problem():
        return Refuse(Word.INVALID_GROUP, job.problem())
    if queue and not _DNS_NAME.fullmatch(queue):
        message = f"{queue!r} in label {names.QUEUE_NAME} cannot be the name of a LocalQueue"
        return Refuse(Word.INVALID_QUEUE_NAME, message)
    if not pod_sets:
        return Refuse(Word.NO_PODS, "It has no pod template")
    if pod_sets > names.MAX_POD_SETS:
        message = f"It has {pod_sets} pod sets; a workload can have {names.MAX_POD_SETS}"
        return Refuse(Word.TOO_MANY_POD_SETS, message)
    odd = next((each for each in found if not 0 <= each.count <= _MOST_PODS), None)
    if odd is not None:
        message = f"Pod set {odd.name} has {odd.count} pods: use a number from 0 to {_MOST_PODS}"
        return Refuse(Word.INVALID, message)
    return None


# -- one workload


def _follow(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    ended = job.finished()
    if workload.finished:
        return _after_the_end(job, workload)
    if ended is not None:
        return (_ended(workload, ended), *drop_finalizer(workload), *_finalize(job))
    if workload.meta.terminating:
        stopped = stop(job, Word.WORKLOAD_DELETED, "Its workload is deleted", workload=workload)
        return stopped or (NONE if holds_quota(job, context) else drop_finalizer(workload))
    said = reclaim(job, workload, context)
    acting = _act(job, told(workload, said), context)
    return (*acting, *said, *_ready(job, workload, context))


def _after_the_end(job: GenericJob, workload: WorkloadInfo) -> Actions:
    said = workload.condition("Finished")
    stopped = NONE
    never_ran = said is not None and said.reason in _NEVER_RAN
    if said is not None and job.finished() is None and (never_ran or is_stopping(job)):
        stopped = stop(job, said.reason, said.message, workload=workload)
    return (*stopped, *drop_finalizer(workload), *_finalize(job))


def _finalize(job: GenericJob) -> Actions:
    steps = tuple(job.finalize_steps()) if is_finalizing(job) else ()
    return (FinalizeJob(steps),) if steps else NONE


def _act(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    if workload.evicted and (workload.admission is not None or not job.is_suspended()):
        return _evict(job, workload, context)
    if is_stopping(job):
        return stop(job, Word.STOP_UNFINISHED, "A stop that was begun is ended", workload=workload)
    if job.is_suspended():
        if workload.admitted and workload.admission is not None:
            return (*_prioritize(job, workload, context), *_start(job, workload, context))
        return _requeue(job, workload, context)
    if not workload.admitted:
        return stop(
            job, Word.NOT_ADMITTED, "It is not admitted by a ClusterQueue", workload=workload
        )
    late = _start(job, workload, context) if is_composed(job) else NONE
    return (*_prioritize(job, workload, context), *(late or _regroup(job, workload, context)))


def _regroup(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    group = regrouped(job, workload, context.group_size)
    return NONE if group is None else (group,)


def _evict(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Stop the job; its quota is free when its pods are gone."""
    said = workload.condition("Evicted")
    reason, message = (said.reason, said.message) if said else ("", "")
    stopped = stop(job, reason, message, workload=workload)
    if not job.is_suspended() or holds_quota(job, context):
        return stopped
    at_once = reason in _AT_ONCE
    left = lowered(job, workload, context)
    release = ReleaseQuota(workload.key, workload.meta.uid, at_once, reason, message, left)
    return (*_give_back(workload, context), release, *stopped)


def _give_back(workload: WorkloadInfo, context: Context) -> Actions:
    """Let others have room that is kept for pods which do not come any more."""
    group = group_of(workload)
    namespace, _, name = group.partition("/")
    return (DropGrant(namespace, name),) if context.is_granted(group) else NONE


def _start(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    where = workload.admission.cluster_queue if workload.admission else ""
    group = pod_group(job, workload) if context.makes_pod_groups(where) else None
    try:
        placements = placements_of(
            workload,
            context.flavors,
            group=group.name if group else "",
            late=late_pod_sets(job),
        )
        steps = start_steps(job, placements)
    except FlavorNotFoundError as error:
        message = f"There is no ResourceFlavor {error}, in which it has quota"
        return (Refuse(Word.FLAVOR_NOT_FOUND, message),)
    except PlacementError as error:
        message = str(error)
        return (finish(workload, Word.FAILED_TO_START, message), *drop_finalizer(workload))
    if not steps:
        return NONE
    start = StartJob(steps, Note(Word.STARTED, f"Admitted by ClusterQueue {where}"))
    if group is None:
        return (start,)
    return replace(group, rooms=context.rooms(workload.key)), start


def _requeue(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Follow the job to another queue; with quota a workload stays in the one that gave it."""
    if workload.admission is None and job.queue_name() != workload.queue_name:
        changed = (update(workload, {"queueName": job.queue_name() or None}),)
        return (*changed, *_prioritize(job, workload, context))
    return _prioritize(job, workload, context)


def _prioritize(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Follow the job to another WorkloadPriorityClass."""
    name = fields.label(job.object, names.PRIORITY_CLASS)
    source = (*names.WORKLOAD_PRIORITY_CLASS, name)
    has = workload.priority_class
    other_kind = has is None or has[:2] != names.WORKLOAD_PRIORITY_CLASS
    if not name or has == source or (workload.admission is not None and other_kind):
        return NONE
    try:
        return (update(workload, priority_of(job, context).as_json()),)
    except PriorityClassNotFoundError as error:
        return (Refuse(Word.PRIORITY_CLASS_NOT_FOUND, str(error)),)


# -- what is told of it


def _ready(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    asked = context.wait_for_pods_ready
    ready = readiness(job, workload, context.progress) if asked else None
    return NONE if ready is None else (ready,)
