"""The condition PodsReady of a workload (KEP-349)."""

from dataclasses import dataclass

from extender.api.reasons import PodsReadyReason
from extender.api.wellknown import WorkloadCondition
from extender.jobs.actions import SetPodsReady
from extender.jobs.job import GenericJob
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import WorkloadInfo

_MESSAGES = {
    PodsReadyReason.STARTED: "All pods are ready or have succeeded",
    PodsReadyReason.RECOVERED: "All pods are ready again",
    PodsReadyReason.WAIT_FOR_START: "Not all pods are ready yet",
    PodsReadyReason.WAIT_FOR_RECOVERY: "Pods that were ready no longer are",
}


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How many pods of a job were done for good, where that is known."""

    began: int | None = None
    """When it was first seen running with its quota."""
    missed: int | None = None
    """When pods were missed last."""


def readiness(
    job: GenericJob, workload: WorkloadInfo, progress: JobProgress
) -> SetPodsReady | None:
    """Return the condition to write, or None where it is stored already."""
    stored = workload.condition(WorkloadCondition.PODS_READY)
    runs = workload.admitted and not workload.evicted
    if not runs and stored is None:
        return None  # no condition yet, and no pods to wait for
    reason = _reason(job, stored, progress) if runs else PodsReadyReason.WAIT_FOR_START
    ready = reason in (PodsReadyReason.STARTED, PodsReadyReason.RECOVERED)
    if stored is not None and (stored.status, stored.reason) == (str(ready), reason):
        return None
    message = _MESSAGES[reason]
    return SetPodsReady(workload.key, workload.meta.uid, ready, reason, message)


def is_ready(job: GenericJob, before: ConditionInfo | None, progress: JobProgress) -> bool:
    """Return whether a job has its pods; `before` is the condition as it is stored.

    Where pods are followed by others there may be no moment at which all are ready. So before the
    first time those count too that are done since the start; afterwards it is as good that more
    are done than when pods were missed.
    """
    if job.is_suspended():
        return False
    if job.pods_ready():
        return True
    if not _were_ready(before):
        return progress.began is not None and job.pods_ready_since(progress.began)
    missed = (
        progress.missed if before and before.reason == PodsReadyReason.WAIT_FOR_RECOVERY else None
    )
    return missed is not None and job.pods_done() > missed


def _reason(
    job: GenericJob, before: ConditionInfo | None, progress: JobProgress
) -> PodsReadyReason:
    if is_ready(job, before, progress):
        again = before is not None and before.reason in (
            PodsReadyReason.WAIT_FOR_RECOVERY,
            PodsReadyReason.RECOVERED,
        )
        return PodsReadyReason.RECOVERED if again else PodsReadyReason.STARTED
    return (
        PodsReadyReason.WAIT_FOR_RECOVERY if _were_ready(before) else PodsReadyReason.WAIT_FOR_START
    )


def _were_ready(before: ConditionInfo | None) -> bool:
    return before is not None and (
        before.status == "True" or before.reason == PodsReadyReason.WAIT_FOR_RECOVERY
    )
