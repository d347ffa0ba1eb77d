"""The one workload of a job: its name, its priority, its object, and what becomes of others."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from extender.api import wellknown
from extender.api.reasons import FinishReason, JobReason
from extender.api.values import value_taken
from extender.api.wellknown import ADMISSION_GATED_BY, PRIORITY_TAKEN
from extender.jobs import fields, templates
from extender.jobs.actions import (
    Action,
    PatchWorkload,
    ReportRefusal,
    delete,
    finish,
    stop,
    update,
)
from extender.jobs.context import Context, fitting, holds_quota
from extender.jobs.fields import Object
from extender.jobs.job import LARGEST_INT32, GenericJob, JobPodSet
from extender.jobs.templates import plain
from extender.state.queue.records import WorkloadInfo

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_DNS_LABEL}(\.{_DNS_LABEL})*")
_MAX_POD_SETS: Final = 18


def refusal(job: GenericJob) -> ReportRefusal | None:
    """Return why a job could not be started as it is, or None."""
    queue, found = job.queue_name(), job.pod_sets()
    pod_sets = len(found)
    if job.problem():
        reason = JobReason.INVALID_GROUP if job.is_composed else JobReason.INVALID
        return ReportRefusal(reason, job.problem())
    if queue and not _DNS_NAME.fullmatch(queue):
        message = f"{queue!r} in label {wellknown.QUEUE_LABEL} cannot be the name of a LocalQueue"
        return ReportRefusal(JobReason.INVALID_QUEUE_NAME, message)
    if job.incomplete():
        return ReportRefusal(JobReason.PODS_MISSING, job.incomplete())
    if not pod_sets:
        return ReportRefusal(JobReason.NO_PODS, "It has no pod template")
    if pod_sets > _MAX_POD_SETS:
        message = f"It has {pod_sets} pod sets; a workload can have {_MAX_POD_SETS}"
        return ReportRefusal(JobReason.TOO_MANY_POD_SETS, message)
    return next(filter(None, map(_pod_set_refusal, found)), None)


def _pod_set_refusal(each: JobPodSet) -> ReportRefusal | None:
    if not 0 <= each.count <= LARGEST_INT32:
        message = (
            f"Pod set {each.name} has {each.count} pods: use a number from 0 to {LARGEST_INT32}"
        )
        return ReportRefusal(JobReason.INVALID, message)
    fault = templates.topology_fault(each.template, each.count)
    if fault:
        return ReportRefusal(JobReason.INVALID_TOPOLOGY, f"Pod set {each.name}: {fault}")
    return None


Source = tuple[str, str, str]
"""Group, kind and name of the class that a priority comes from."""


class PriorityClassNotFoundError(LookupError):
    """A class that a job names is not there."""


@dataclass(frozen=True, slots=True)
class Priority:
    """A workload's priority, and where it comes from."""

    value: int = 0
    source: Source | None = None

    @property
    def note(self) -> str:
        """The reference to the WorkloadPriorityClass, or nothing."""
        group, kind, name = self.source or ("", "", "")
        found = (group, kind) == wellknown.WORKLOAD_PRIORITY_CLASS
        return value_taken(name, self.value) if found else ""

    def as_json(self) -> Object:
        """Return the fields of a workload's spec."""
        if self.source is None:
            return {"priority": self.value}
        group, kind, name = self.source
        reference = {"group": group, "kind": kind, "name": name}
        return {"priority": self.value, "priorityClassRef": reference}


def priority_of(job: GenericJob, context: Context) -> Priority:
    """Return the priority; PriorityClassNotFoundError where the named class is not there."""
    name = fields.label(job.object, wellknown.PRIORITY_CLASS_LABEL)
    if name:
        found = context.workload_priority_classes.get(name)
        if found is None:
            raise PriorityClassNotFoundError(f"there is no WorkloadPriorityClass {name}")
        return Priority(found.value, (*wellknown.WORKLOAD_PRIORITY_CLASS, name))
    name, classes = job.priority_class(), context.priority_classes
    if name:
        pods = classes.get(name)
        if pods is None:
            raise PriorityClassNotFoundError(f"there is no PriorityClass {name}")
    else:  # of several the API server takes the lowest; pods that exist have had theirs
        defaults = [] if job.is_composed else [c for c in classes.values() if c.is_default]
        pods = min(defaults, key=lambda each: each.value, default=None)
        if pods is None:
            return Priority()
    return Priority(pods.value, (*wellknown.POD_PRIORITY_CLASS, pods.name))


def prebuilt_name(source: Object) -> str:
    """Return the name of the workload that a job brings along, or nothing."""
    wanted = wellknown.PREBUILT_LABEL
    return fields.label(source, wanted) or fields.annotation(source, wanted)


def free_name(job: GenericJob, is_taken: Callable[[str], bool]) -> str:
    """Return the first name for the workload of a job that no other Workload has.

    Another user of the namespace can create a Workload of that name before the job is there.
    """
    return next(name for name in map(job.workload_name, count()) if not is_taken(name))


def build(job: GenericJob, priority: Priority, name: str = "") -> Object:
    """Return the workload to be created for a job, of that name or of its first one."""
    metadata: Object = {
        "name": name or job.workload_name(),
        "namespace": fields.text(job.object, "metadata", "namespace"),
        "finalizers": [wellknown.IN_USE_FINALIZER],
        "ownerReferences": job.owners(),
    }
    gate = job.admission_gate()
    annotations: Object = {
        **({PRIORITY_TAKEN: priority.note} if priority.note else {}),
        **({ADMISSION_GATED_BY: gate} if gate else {}),
    }
    if annotations:
        metadata["annotations"] = annotations
    if not job.is_composed:
        metadata["labels"] = {wellknown.JOB_UID_LABEL: fields.text(job.object, "metadata", "uid")}
    return {
        "apiVersion": f"{wellknown.QUEUE_GROUP}/{wellknown.QUEUE_VERSION}",
        "kind": "Workload",
        "metadata": metadata,
        "spec": spec(job, priority),
    }


def spec(job: GenericJob, priority: Priority) -> Object:
    """Return the spec of a job's workload."""
    seconds = job.max_execution()
    limit: Object = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    name = job.queue_name()  # a job that is managed without one has none, and waits for one
    return {
        "podSets": pod_sets_as_json(job.pod_sets()),
        **({"queueName": name} if name else {}),
        **priority.as_json(),
        **limit,
    }


def pod_sets_as_json(pod_sets: Sequence[JobPodSet]) -> list[Object]:
    """Return `spec.podSets`."""
    return [
        {
            "name": each.name,
            "count": each.count,
            **({} if each.min_count is None else {"minCount": each.min_count}),
            "template": plain(each.template),
            **(
                {"topologyRequest": asked}
                if (asked := templates.topology_request(each.template))
                else {}
            ),
        }
        for each in pod_sets
    ]


@dataclass(frozen=True, slots=True)
class Ensured:
    """The workload of a job, and what is to be done about its workloads."""

    workload: WorkloadInfo | None = None
    actions: tuple[Action, ...] = ()
    settled: bool = True
    """True if the decision goes on from here; else it is made again after these actions."""


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
    change: Object = {"metadata": {"ownerReferences": job.owners()}}
    return (PatchWorkload(workload.key, workload.meta.uid, change),)


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
        return _unsettled(PatchWorkload(found.key, found.meta.uid, {"metadata": body}))
    return Ensured(found)


def _is_out_of_sync(job: GenericJob, workload: WorkloadInfo) -> bool:
    ended = workload.finished or job.finished() is not None
    if ended or job.is_stopping():
        return False
    limit = job.is_suspended() and not workload.evicted  # else it was edited while it ran
    if limit and job.max_execution() != workload.max_execution:
        return True
    return not job.equivalent_to_workload(workload)
