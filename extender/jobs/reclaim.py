"""Which quota of a job is free while it has not ended, or not ended yet (KEP-78)."""

from collections.abc import Mapping
from typing import Final, get_args

from extender.jobs import fields, names
from extender.jobs.actions import NONE, Actions, SetReclaimable
from extender.jobs.context import Context, ReleaseQuota
from extender.jobs.generic_job import GenericJob, is_reclaiming, is_terminating
from extender.state.queues.records import PodSetInfo, WorkloadInfo

_STRATEGIES: Final = get_args(ReleaseQuota)


def release_strategy(annotations: Mapping[str, str], otherwise: ReleaseQuota) -> ReleaseQuota:
    """Return when quota is released, as an annotation says; a word that nobody knows is none."""
    said = annotations.get(names.RELEASE_QUOTA)
    return next((each for each in _STRATEGIES if each == said), otherwise)


def holds_quota(job: GenericJob, context: Context) -> bool:
    """Return whether pods run that the quota of a stopped job is still needed for."""
    return job.is_active() or bool(_terminating(job, context))


def reclaim(job: GenericJob, workload: WorkloadInfo, context: Context) -> Actions:
    """Return what is told of the pods that are done, where it is not what was told before."""
    if not is_reclaiming(job) or (workload.evicted and workload.admission is not None):
        return NONE  # what is given back as a whole needs no parts
    most = {each.name: each.count for each in workload.pod_sets}
    counts = _done(job.reclaimable_pods(), job, workload)
    for name, still in _terminating(job, context).items():
        counts[name] = counts.get(name, 0) - still
    before = workload.reclaimable
    least = before if workload.admission is not None else {}  # what was given back stays so
    counts = {n: max(min(counts.get(n, 0), most[n]), least.get(n, 0)) for n in most}
    return _told(workload, {name: done for name, done in counts.items() if done > 0})


def fitting(workload: WorkloadInfo, counts: Mapping[str, int]) -> Actions:
    """Return how a workload is made ready for pod sets of these sizes: more cannot be done."""
    before = workload.reclaimable.items()
    kept = {name: min(done, counts[name]) for name, done in before if counts.get(name)}
    return _told(workload, kept)


def _told(workload: WorkloadInfo, counts: Mapping[str, int]) -> Actions:
    before = {name: done for name, done in workload.reclaimable.items() if done}
    return NONE if counts == before else (SetReclaimable(workload.key, workload.meta.uid, counts),)


def _done(found: Mapping[str, int], job: GenericJob, workload: WorkloadInfo) -> dict[str, int]:
    """Return the pods that are done, out of those that the workload asks for.

    A job that was given less than that counts from what it was given.
    """
    less = [each for each in workload.pod_sets if _is_partial(each, workload)]
    if not found or not less:
        return dict(found)
    runs = {each.name: each.count for each in job.pod_sets()}
    never = {each.name: each.count - runs.get(each.name, each.count) for each in less}
    return {name: done + never.get(name, 0) for name, done in found.items()}


def _is_partial(pod_set: PodSetInfo, workload: WorkloadInfo) -> bool:
    if pod_set.min_count is None or workload.admission is None:
        return False
    given = workload.admission.assignments
    return any(each.name == pod_set.name and each.count < pod_set.count for each in given)


def _terminating(job: GenericJob, context: Context) -> dict[str, int]:
    """Return the pods that take their time to end, where their quota waits for it."""
    if not is_terminating(job):
        return {}
    annotations = fields.strings(job.object, "metadata", "annotations")
    if release_strategy(annotations, context.release_quota) != "OnTerminal":
        return {}
    return {name: count for name, count in job.terminating_pods().items() if count}
