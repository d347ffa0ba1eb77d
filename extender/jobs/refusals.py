"""Why a job gets no workload as it is now, and why a workload that it has is not queued."""

import re
from typing import Final

from extender.api import wellknown
from extender.api.reasons import JobReason
from extender.jobs import topology
from extender.jobs.actions import ReportRefusal
from extender.jobs.job import GenericJob
from extender.jobs.pod_sets import JobPodSet

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_DNS_LABEL}(\.{_DNS_LABEL})*")
_MAX_POD_SETS: Final = 18
_MOST_PODS: Final = 2**31 - 1


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
    if not 0 <= each.count <= _MOST_PODS:
        message = f"Pod set {each.name} has {each.count} pods: use a number from 0 to {_MOST_PODS}"
        return ReportRefusal(JobReason.INVALID, message)
    fault = topology.fault(each.template, each.count)
    if fault:
        return ReportRefusal(JobReason.INVALID_TOPOLOGY, f"Pod set {each.name}: {fault}")
    return None
