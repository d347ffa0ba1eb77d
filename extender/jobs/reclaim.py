"""Which quota of a job is free while it has not ended, or not ended yet (KEP-78)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, get_args

from extender.api import wellknown
from extender.api.job_overrides import Overrides
from extender.api.values import ignored, limited
from extender.jobs import fields
from extender.jobs.actions import NONE, Actions, SetReclaimable
from extender.jobs.context import Context, ReleaseQuota
from extender.jobs.job import GenericJob
from extender.state.queue.records import Meta, WorkloadInfo

_STRATEGIES: Final = get_args(ReleaseQuota)


def release_strategy(annotations: Mapping[str, str], otherwise: ReleaseQuota) -> ReleaseQuota:
    """Return when quota is released, as an annotation says. Unknown values are ignored."""
    said = annotations.get(wellknown.RELEASE_QUOTA)
    return next((each for each in _STRATEGIES if each == said), otherwise)


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield a message about an unknown value in the annotation of a job or a ClusterQueue."""
    said = meta.annotations.get(wellknown.RELEASE_QUOTA)
    if said and said not in _STRATEGIES:
        yield ignored(wellknown.RELEASE_QUOTA, said, " or ".join(_STRATEGIES))


def limits(meta: Meta, ruled: ReleaseQuota, overrides: Overrides) -> Iterator[str]:
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
