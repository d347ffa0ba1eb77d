"""The PodGroup of a job: the one that its pods name, else one that is made for it.

All pods that remain to run are its minMember, so that it starts as a whole, or starts again with
what is left of it. Finished pods may still hold quota, in case the whole job restarts: minMember
does not count them.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from extender.api.values import KNOWN_TEXTS, remembered
from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.jobs import fields
from extender.jobs.actions import MakePodGroup
from extender.jobs.context import PodGroupState
from extender.jobs.fields import Object
from extender.jobs.job import GenericJob
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.templates import group_name, is_copied
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.usage import remaining

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
    if workload.admission is None or not _was_made(job, workload):
        return None
    left = _left(job, workload, workload.admission)
    if known.size is None:
        return _made(job, workload, left) if left else None
    size, done = known.size
    made = _made(job, workload, size)
    if known.domains and known.domains != made.domains:
        return replace(made, done=done)
    if not left or size - done == left or isinstance(job, BatchJob):
        return None
    size = max(size, left)
    return replace(made, min_member=size, done=size - left)


def _was_made(job: GenericJob, workload: WorkloadInfo) -> bool:
    name = group_name(workload.meta.name)
    return not _brought(workload) and any(brought_by(p.template) == name for p in job.pod_sets())


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
    found = (_label(each.template) for each in workload.pod_sets if each.template)
    return next(filter(None, found), "")


@remembered(KNOWN_TEXTS)
def _label(template: bytes) -> str:
    try:
        found = _decode(template)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return "" if is_copied(found) else brought_by(found)


def brought_by(template: Mapping[str, object]) -> str:
    """Return the PodGroup that a pod template names, or nothing; by label, or the native one."""
    found = fields.label(template, POD_GROUP_LABEL) or fields.label(template, POD_GROUP_LABEL_SIGS)
    return found or fields.text(template, "spec", "schedulingGroup", "podGroupName")
