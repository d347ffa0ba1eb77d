"""The one workload of a job, and the PodGroup of its pods.

The workload: its name, its priority, its object, and what becomes of others. The PodGroup is the
one that its pods name, else one that is made for it. All pods that remain to run are its minMember,
so that it starts as a whole, or starts again with what is left of it. Finished pods may still hold
quota, in case the whole job restarts: minMember does not count them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from extender.api import wellknown
from extender.api.reasons import FinishReason, JobReason
from extender.api.values import KNOWN_TEXTS, remembered, value_taken
from extender.api.wellknown import (
    ADMISSION_GATED_BY,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
    PRIORITY_TAKEN,
)
from extender.jobs import fields, templates
from extender.jobs.actions import (
    Action,
    Context,
    MakePodGroup,
    PatchWorkload,
    PodGroupState,
    ReportRefusal,
    delete,
    finish,
    fitting,
    holds_quota,
    stop,
    update,
)
from extender.jobs.fields import Object
from extender.jobs.job import LARGEST_INT32, GenericJob, Slot
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.templates import group_name, is_copied, plain
from extender.state.queue.records import AdmissionInfo, WorkloadInfo, remaining

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


def _pod_set_refusal(each: Slot) -> ReportRefusal | None:
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


def build(job: GenericJob, priority: Priority, name: str = "") -> Object:
    """Return the workload to be created for a job, of that name or of its first one."""
    metadata: Object = {
        "name": name or job.workload_name(),
        "namespace": fields.text(job.object, "metadata", "namespace"),
        "finalizers": [wellknown.IN_USE_FINALIZER],
        "ownerReferences": job.owners(),
    }
    gate = job.admission_gate()
    said = fields.strings(job.object, "metadata", "annotations").items()
    annotations: Object = {
        **{key: text for key, text in said if key.startswith(wellknown.PROVISIONING_PARAMETER)},
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
    pod_sets = []
    for each in job.pod_sets():
        asked = templates.topology_request(each.template)
        pod_set: Object = {
            "name": each.name,
            "count": each.count,
            **({} if each.min_count is None else {"minCount": each.min_count}),
            "template": plain(each.template),
            **({"topologyRequest": asked} if asked else {}),
        }
        pod_sets.append(pod_set)
    return {
        "podSets": pod_sets,
        **({"queueName": name} if name else {}),
        **priority.as_json(),
        **limit,
    }


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
    if match is None and own:
        # A group is compared with its workload only when all its pods are there.
        waits = job.is_suspended() and own[0].admission is None and bool(job.incomplete())
        match = own[0] if waits or job.finished() is not None else None
    if match is None and own:
        return _none_matches(job, own, context)
    kept = () if match is None else _owned(job, match)
    return Ensured(match, (*kept, *delete(each for each in own if each is not match)))


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
        return _unsettled(*stop(job, message, workload=first))
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
        stopped = stop(job, message, workload=None)
        return _unsettled(*stopped, ReportRefusal(JobReason.WORKLOAD_NOT_FOUND, message))
    uid = fields.text(job.object, "metadata", "uid")
    if found.owner is not None and found.owner.uid != uid:
        message = f"The workload {wanted} belongs to {found.owner.kind} {found.owner.name}"
        stopped = stop(job, message, workload=None)
        return _unsettled(*stopped, ReportRefusal(JobReason.WORKLOAD_OWNED, message))
    limit = job.is_suspended() and not found.evicted  # else it was edited while it ran
    differs = limit and job.max_execution() != found.max_execution
    ended = found.finished or job.finished() is not None or job.is_stopping()
    if not ended and (differs or not job.equivalent_to_workload(found)):
        message = "The job asks for something else than its prebuilt workload"
        stopped = stop(job, message, workload=found)
        return _unsettled(*stopped, finish(found, FinishReason.OUT_OF_SYNC, message))
    if found.owner is None:
        body: Object = {
            "labels": {wellknown.JOB_UID_LABEL: uid},
            "ownerReferences": job.owners(),
            "finalizers": [*dict.fromkeys((*found.meta.finalizers, wellknown.IN_USE_FINALIZER))],
        }
        return _unsettled(PatchWorkload(found.key, found.meta.uid, {"metadata": body}))
    return Ensured(found)


# -- the PodGroup

_decode = msgspec.json.Decoder(dict[str, object]).decode


def pod_group_key(workload: WorkloadInfo) -> str:
    """Return `namespace/name` of the PodGroup that a workload's pods have, or would have."""
    return f"{workload.meta.namespace}/{_brought(workload) or group_name(workload.meta.name)}"


def made_for(workload: str) -> str:
    """Return `namespace/name` of the PodGroup that is made for a Workload, by `namespace/name`."""
    namespace, _, name = workload.partition("/")
    return f"{namespace}/{group_name(name)}"


def pod_group(job: GenericJob, workload: WorkloadInfo) -> MakePodGroup | None:
    """Return the PodGroup to be made for a job; None where its pods bring one, or one is alone."""
    if workload.admission is None or _brought(workload):
        return None
    members = _left(job, workload, workload.admission)
    return _made(job, workload, members) if members > 1 else None  # one pod alone is no gang


def regrouped(job: GenericJob, workload: WorkloadInfo, known: PodGroupState) -> MakePodGroup | None:
    """Return the PodGroup of a job that runs where the stored one is out of date, or is gone.

    It may ask for pods that cannot come, or name hosts that were replaced. A pod that is made in
    place of another would wait for siblings that are done. Of a Job the state counts them itself.
    """
    name = group_name(workload.meta.name)
    made = not _brought(workload) and any(brought_by(p.template) == name for p in job.pod_sets())
    if workload.admission is None or not made:
        return None
    left = _left(job, workload, workload.admission)
    if known.size is None:
        return _made(job, workload, left) if left else None
    size, done = known.size
    group = _made(job, workload, size)
    if known.domains and known.domains != group.domains:
        return replace(group, done=done)
    if not left or size - done == left or isinstance(job, BatchJob):
        return None
    size = max(size, left)
    return replace(group, min_member=size, done=size - left)


def left_to_clean(
    job: GenericJob, workload: WorkloadInfo, known: PodGroupState
) -> MakePodGroup | None:
    """Return the PodGroup of a deleted job that waits for no pod but those that clean up after it.

    They have the labels of the others.
    """
    last, (size, done) = job.last_pods(), known.size or (0, 0)
    if not last or size - done <= last:
        return None
    return replace(_made(job, workload, size), done=size - last)


def _left(job: GenericJob, workload: WorkloadInfo, held: AdmissionInfo) -> int:
    """Return how many pods have still to run that start together."""
    late, done = job.late_pod_sets(), job.done_pods()
    given = (each for each in held.assignments if each.name not in late)
    return sum(remaining(each, workload, done) for each in given)


def _made(job: GenericJob, workload: WorkloadInfo, members: int) -> MakePodGroup:
    plain = ("apiVersion", "kind", "name", "uid")
    owners: list[Object] = [{name: each[name] for name in plain} for each in job.owners()]
    held = workload.admission
    domains = (
        {each.name: each.topology for each in held.assignments if each.topology} if held else {}
    )
    name = group_name(workload.meta.name)
    return MakePodGroup(workload.meta.namespace, name, members, owners, domains=domains)


def _brought(workload: WorkloadInfo) -> str:
    found = (_group_of(each.template) for each in workload.pod_sets if each.template)
    return next(filter(None, found), "")


@remembered(KNOWN_TEXTS)
def _group_of(template: bytes) -> str:
    try:
        found = _decode(template)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return "" if is_copied(found) else brought_by(found)


def brought_by(template: Mapping[str, object]) -> str:
    """Return the PodGroup that a pod template names, or nothing; by label, or the native one."""
    found = fields.label(template, POD_GROUP_LABEL) or fields.label(template, POD_GROUP_LABEL_SIGS)
    return found or fields.text(template, "spec", "schedulingGroup", "podGroupName")
