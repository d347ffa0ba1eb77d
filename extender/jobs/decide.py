"""The reconcile of one job (KEP-369), in its order, as a pure decision."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from extender.api import wellknown
from extender.api.reasons import EvictionReason, FinishReason, JobReason, Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.jobs import fields
from extender.jobs.actions import (
    NONE,
    Action,
    Actions,
    AwaitPods,
    Context,
    CreateWorkload,
    DropGrant,
    FinalizeJob,
    FinishWorkload,
    Note,
    PatchWorkload,
    ReleaseQuota,
    ReportRefusal,
    SetBlocked,
    StartJob,
    delete,
    drop_finalizer,
    finish,
    holds_quota,
    lowered,
    readiness,
    reclaim,
    runs,
    stop,
    update,
    with_reclaimable,
)
from extender.jobs.fields import Object
from extender.jobs.job import Finished, GenericJob, split_gates
from extender.jobs.kinds.plain_pods import PlainPods
from extender.jobs.templates import FlavorNotFoundError, PlacementError, placements_of
from extender.jobs.workload import (
    PriorityClassNotFoundError,
    build,
    ensure_one,
    left_to_clean,
    pod_group,
    pod_group_key,
    prebuilt_name,
    priority_of,
    refusal,
    regrouped,
)
from extender.state.queue.records import WorkloadInfo

_AT_ONCE: Final = frozenset((EvictionReason.PREEMPTED, EvictionReason.NODE_FAILURES))
"""Evictions after which a workload may be admitted again without waiting for anything."""
_PODS_REMAIN: Final = "It has ended, and keeps its quota until its pods are gone"
_ORPHAN: Final = "orphan"
"""The finalizer of an object that is deleted and leaves behind what it owns."""
_STILL_RUN: Final = (
    "It is suspended, and its status still says that pods run: its quota is free, and it is queued "
    "again, when they are gone"
)
_GONE: Final = (
    "It is suspended, and its status still says that pods run, but there are none: its quota is "
    "free"
)
_NEVER_RAN: Final = frozenset((FinishReason.OUT_OF_SYNC, FinishReason.FAILED_TO_START))


def decide(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Actions:
    """Return the actions that are due, in order; none where all is as it should be.

    `workloads` are those that the job owns. The decision depends on no clock: it is made again when
    the job, one of its workloads or a part of the context has changed.
    """
    if job.skip():
        return NONE
    if fields.text(job.object, "metadata", "deletionTimestamp"):
        # The status of another kind may never say that its pods are gone: no controller is left.
        return NONE if job.is_composed and job.is_active() else _dropped(job, workloads, context)
    served = job if isinstance(job, PlainPods) and job.follows else None
    if served or job.is_idle():
        idle = NONE if job.is_active() else delete(workloads)
        return _follow_service(served, context) if served else idle
    if context.ancestor is not None:  # which is queued itself, and starts it
        stopped, above = NONE, context.ancestor
        if not above.admitted and not above.starts_it and job.finished() is None:
            message = f"{above.name}, which it is a part of, is not admitted"
            stopped = stop(job, message, workload=None)
        return (*stopped, *delete(workloads))
    managed = context.manage_without_queue_name and context.namespace_selected
    # A job whose queue name was removed while it ran keeps its quota until it ends.
    keeps = any(each.admission or each.finished for each in workloads)
    if job.ignore_from_queueing() and not managed and not keeps:
        return delete(workloads)
    return _manage(job, workloads, context)


def _manage(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Actions:
    tidy = job.tidy_steps()
    if tidy:
        said = f"{len(tidy)} pods more than its group has are deleted"
        return (FinalizeJob(tuple(tidy), Note(JobReason.EXCESS_POD_DELETED, said)),)
    found = ensure_one(job, workloads, context)
    actions = found.actions
    if found.settled and found.workload is None:
        actions = (*actions, *_create(job, context))
    elif found.workload is not None:
        actions = (*actions, *_follow(job, found.workload, context))
    if context.overdue and job.is_suspended() and job.is_active():  # a stop that does not end
        said = _GONE if context.pods_gone else _STILL_RUN
        actions = (*actions, ReportRefusal(JobReason.PODS_STILL_RUN, said))
    return actions


def _follow_service(pods: PlainPods, context: Context) -> Actions:
    """Let those pods of a service go that its Workload is admitted for, or delete them."""
    above = context.ancestor
    if above is None or not above.admitted or above.workload is None:
        name = above.name if above is not None else "The service"
        return stop(pods, f"{name}, which it is a part of, is not admitted", workload=None)
    if above.late is None:
        return NONE
    waiting = set(pods.held)
    pods.follow(above.workload, above.late, above.fitting)
    unseen = waiting.difference(above.fitting, above.larger)
    wrong: Actions = ()
    if above.larger:
        message = (
            f"It asks for more than the Workload {above.workload.meta.name} has quota for: scale "
            f"{above.name} to zero and back, which queues it anew"
        )
        wrong = (ReportRefusal(JobReason.EDIT_IGNORED, message),)
    starts = _start(pods, above.workload, context)
    if not pods.is_suspended() and any(isinstance(each, FinishWorkload) for each in starts):
        # The others run in its quota.
        failed = next(each.message for each in starts if isinstance(each, FinishWorkload))
        starts = (ReportRefusal(JobReason.EDIT_IGNORED, f"Its new pods wait: {failed}"),)
    return (*starts, *wrong, *((AwaitPods(),) if unseen else ()))


def _dropped(job: GenericJob, workloads: Sequence[WorkloadInfo], context: Context) -> Actions:
    """Release the workloads of a deleted job. A job may be deleted as soon as it has ended.

    A workload that stays without its job (`kubectl delete --cascade=orphan`) ends.
    """
    ended = job.finished()
    finalizers = fields.value(job.object, "metadata", "finalizers")
    leaves = isinstance(finalizers, list) and _ORPHAN in finalizers
    actions: list[Action] = []
    for each in workloads:
        if ended is not None and not each.finished:
            actions.append(_ended(each, ended))
        elif (leaves or not each.owners) and not each.finished:
            actions.append(finish(each, FinishReason.OWNER_NOT_FOUND, "Its job is deleted"))
        actions += drop_finalizer(each)
        group = left_to_clean(job, each, context.pod_group(each))
        actions += [group] if group else []
    return tuple(actions)


def _ended(workload: WorkloadInfo, ended: Finished) -> FinishWorkload:
    reason = FinishReason.SUCCEEDED if ended.success else FinishReason.FAILED
    return replace(finish(workload, reason, ended.message), note=None)  # the job says it itself


# -- no workload yet


def _create(job: GenericJob, context: Context) -> Actions:
    if job.finished() is not None:
        return _reported(refusal(job), context) if job.problem() else NONE
    if not job.is_suspended() or job.is_stopping():
        stopped = stop(job, "It has no workload yet", workload=None)
        # Nothing can stop a job of an operator that does not know `suspend`.
        return stopped or (_reported(refusal(job), context) if job.problem() else NONE)
    refused, taken = refusal(job), _taken(job, context)
    if refused is not None or taken is not None:
        # No change of the job follows when the name is free.
        return (*_reported(refused or taken, context), *((AwaitPods(),) if taken else NONE))
    if runs(job, context) or not context.has_stopped:  # with quota it could not start
        return NONE
    try:
        # Another user of the namespace may have created a Workload of the first name.
        names = map(job.workload_name, count())
        name = next(each for each in names if not context.is_taken(each))
        return (CreateWorkload(build(job, priority_of(job, context), name)),)
    except PriorityClassNotFoundError as error:
        return (ReportRefusal(JobReason.PRIORITY_CLASS_NOT_FOUND, str(error)),)


def _taken(job: GenericJob, context: Context) -> ReportRefusal | None:
    """Return a refusal where another Workload has the name that the pods of a service look for."""
    if not job.serves or not context.is_taken(job.workload_name()):
        return None
    message = f"There is another workload {job.workload_name()}, which its pods would follow"
    return ReportRefusal(JobReason.WORKLOAD_OWNED, message)


def _reported(refused: ReportRefusal | None, context: Context) -> Actions:
    """Return what reports a refusal; that pods are missing is worth it only after a while."""
    if refused is None or refused.reason == JobReason.STOP_UNNOTICED:  # which has an Event
        return NONE
    early = refused.reason == JobReason.PODS_MISSING and not context.overdue
    return NONE if early else (refused,)


# -- one workload


def _follow(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    ended = job.finished()
    if workload.finished:
        stopped, ending = NONE, workload.condition(WorkloadCondition.FINISHED)
        if (
            ending is not None
            and ended is None
            and (ending.reason in _NEVER_RAN or job.is_stopping())
        ):
            stopped = stop(job, ending.message, workload=workload)
        return (*stopped, *drop_finalizer(workload), *_finalize(job))
    if ended is not None:
        if job.pods_outlive_job and context.has_pods(workload):
            return (AwaitPods(Note(JobReason.PODS_REMAIN, _PODS_REMAIN)),)
        return (_ended(workload, ended), *drop_finalizer(workload), *_finalize(job))
    if workload.meta.terminating:
        stopped = stop(job, "Its workload is deleted", workload=workload)
        return stopped or (NONE if holds_quota(job, context) else drop_finalizer(workload))
    said = reclaim(job, workload, context)
    acting = _act(job, with_reclaimable(workload, said), context)
    waits = context.wait_for_pods_ready
    ready = readiness(job, workload, context.progress) if waits else None
    return (*acting, *said, *(() if ready is None else (ready,)), *_ignored(job, workload))


def _ignored(job: GenericJob, workload: WorkloadInfo) -> Actions:
    """Report edits of metadata that count only when the job is queued again."""
    if workload.admission is None or workload.evicted:
        return NONE
    brought, source = prebuilt_name(job.object), workload.workload_priority_class
    wanted = fields.label(job.object, wellknown.PRIORITY_CLASS_LABEL)
    odd = {
        wellknown.MAX_EXEC_TIME_LABEL: job.max_execution() != workload.max_execution,
        wellknown.QUEUE_LABEL: job.queue_name() != workload.queue_name,
        wellknown.PREBUILT_LABEL: brought not in ("", workload.meta.name),
        wellknown.PRIORITY_CLASS_LABEL: wanted != source and not ((source and wanted) or brought),
        wellknown.POD_GROUP_TOTAL_COUNT: job.is_composed and bool(job.problem()),
        "the number of its pods": job.serves and _grew(job, workload),
    }
    names = ", ".join(name for name, differs in odd.items() if differs)
    message = f"{names}: what was changed counts when the job has no quota and is queued again"
    return (ReportRefusal(JobReason.EDIT_IGNORED, message),) if names else NONE


def _grew(service: GenericJob, workload: WorkloadInfo) -> bool:
    asked = {each.name: each.count for each in workload.pod_sets}
    return any(each.count > asked.get(each.name, 0) for each in service.slots())


def _finalize(job: GenericJob) -> Actions:
    steps = tuple(job.finalize_steps())
    return (FinalizeJob(steps),) if steps else NONE


def _act(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    if workload.evicted and (workload.admission is not None or not job.is_suspended()):
        return _evict(job, workload, context)
    if job.is_stopping():
        return stop(job, "A stop that was begun is ended", workload=workload)
    if job.is_suspended():
        return _start_or_wait(job, workload, context)
    if not workload.admitted:
        return stop(job, "It is not admitted by a ClusterQueue", workload=workload)
    late = _start(job, workload, context) if job.is_composed else NONE
    group = regrouped(job, workload, context.pod_group(workload))
    return (*_prioritize(job, workload, context), *(late or ((group,) if group else NONE)))


def _start_or_wait(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    if job.problem() and not job.is_composed:  # it was edited while it waited
        return (*delete((workload,)), *_reported(refusal(job), context))
    if workload.admitted and workload.admission is not None:
        return (*_prioritize(job, workload, context), *_start(job, workload, context))
    return _requeue(job, workload, context)


def _evict(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Stop the job; its quota is free when its pods are gone."""
    said = workload.condition(WorkloadCondition.EVICTED)
    reason, message = (said.reason, said.message) if said else ("", "")
    stopped = stop(job, message, workload=workload)
    if not job.is_suspended() or holds_quota(job, context):
        return stopped
    left = lowered(job, workload, context)
    release = ReleaseQuota(workload.key, workload.meta.uid, reason in _AT_ONCE, left)
    blocked = _block(workload, _unqueueable(job, context))
    # Others may be admitted to that room at once.
    granted = context.pod_group(workload).granted
    dropped = (DropGrant(pod_group_key(workload)),) if granted else NONE
    return (*dropped, release, *blocked, *stopped)


def _unqueueable(job: GenericJob, context: Context) -> ReportRefusal | None:
    if context.has_stopped:
        return refusal(job)
    return ReportRefusal(
        JobReason.STOP_UNNOTICED, "Its operator has not reported that it is suspended"
    )


def _block(workload: WorkloadInfo, refused: ReportRefusal | None) -> Actions:
    """Keep a workload out of its queue as long as its job would get none as it is now."""
    said = workload.condition(WorkloadCondition.START_BLOCKED)
    if refused is None:
        return NONE if said is None else (SetBlocked(workload.key, workload.meta.uid),)
    missing = refused.reason in (JobReason.PODS_MISSING, JobReason.STOP_UNNOTICED)
    reason = Unadmitted.WAITING_FOR_PODS if missing else Unadmitted.MISCONFIGURED
    if said is not None and (said.reason, said.message) == (reason, refused.message):
        return NONE
    return (SetBlocked(workload.key, workload.meta.uid, reason, refused.message),)


def _start(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    where = workload.admission.cluster_queue if workload.admission else ""
    group = pod_group(job, workload) if context.pod_group(workload).made_by_queue else None
    try:
        placements = placements_of(
            workload,
            context.flavors,
            group=group.name if group else "",
            late=job.late_pod_sets(),
        )
        steps, children = job.start_steps(placements), job.child_changes(placements)
    except FlavorNotFoundError as error:
        message = f"There is no ResourceFlavor {error}, in which it has quota"
        return (ReportRefusal(JobReason.FLAVOR_NOT_FOUND, message),)
    except PlacementError as error:
        message = str(error)
        return (finish(workload, FinishReason.FAILED_TO_START, message), *drop_finalizer(workload))
    if not steps or not (context.has_stopped and context.may_start):
        return NONE
    admitted = workload.condition(WorkloadCondition.ADMITTED)
    waited = max(0.0, admitted.transition - workload.queued_since) if admitted else 0.0
    said = f"Admitted by ClusterQueue {where}, wait time since queued was {waited:.0f}s"
    note = Note(JobReason.STARTED, said)
    refused = finish(workload, FinishReason.FAILED_TO_START, "")
    start = StartJob(tuple(steps), note, refused, tuple(children))
    if group is None:
        return (start,)
    return replace(group, room_of=workload.key), start


def _requeue(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Follow the job to another queue; with quota a workload stays in the one that gave it."""
    cleared = _ungate(job, workload) if workload.admission is None else NONE
    if cleared:
        return cleared
    refused = _unqueueable(job, context)
    blocked = _block(workload, refused) if workload.admission is None else NONE
    if refused is not None or blocked:
        return (*blocked, *_reported(refused, context))
    if workload.admission is None and job.queue_name() != workload.queue_name:
        changed = (update(workload, {"queueName": job.queue_name() or None}),)
        return (*changed, *_prioritize(job, workload, context))
    return _prioritize(job, workload, context)


def _ungate(job: GenericJob, workload: WorkloadInfo) -> Actions:
    """Take the admission gates from a workload that its job has no more. A job can add none."""
    gates, wanted = split_gates(workload.admission_gate), split_gates(job.admission_gate())
    late = [each for each in wanted if each not in gates]
    said: Actions = ()
    if late and not gates:
        message = (
            f"annotation {wellknown.ADMISSION_GATED_BY} has no effect on a job that is queued "
            f"already: {', '.join(late)}"
        )
        said = (ReportRefusal(JobReason.NOT_HONOURED, message),)
    left = [each for each in gates if each in wanted]
    if left == gates or prebuilt_name(job.object):
        return said
    annotations: Object = {wellknown.ADMISSION_GATED_BY: ",".join(left) or None}
    change: Object = {"metadata": {"annotations": annotations}}
    return (PatchWorkload(workload.key, workload.meta.uid, change),)


def _prioritize(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Follow the job to another WorkloadPriorityClass, and waiting pods to another default."""
    name = fields.label(job.object, wellknown.PRIORITY_CLASS_LABEL)
    has, held = workload.priority_class, workload.admission is not None
    of_workloads = has is not None and has[:2] == wellknown.WORKLOAD_PRIORITY_CLASS
    if name:
        stays = (held and not of_workloads) or has == (*wellknown.WORKLOAD_PRIORITY_CLASS, name)
    else:
        stays = held or of_workloads or bool(job.priority_class() or prebuilt_name(job.object))
    if stays:
        return NONE
    try:
        wanted = priority_of(job, context)
    except PriorityClassNotFoundError as error:
        return (ReportRefusal(JobReason.PRIORITY_CLASS_NOT_FOUND, str(error)),)
    if wanted.source == has:
        return NONE
    return (update(workload, {"priorityClassRef": None, **wanted.as_json()}),)
