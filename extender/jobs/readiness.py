"""The condition PodsReady of a workload (KEP-349)."""

from dataclasses import dataclass

from extender.jobs.actions import SetPodsReady
from extender.jobs.generic_job import GenericJob, is_progressing
from extender.jobs.names import Word
from extender.state.pod_groups import ConditionInfo
from extender.state.queues.records import WorkloadInfo

_MESSAGES = {
    Word.STARTED: "All pods are ready or have succeeded",
    Word.RECOVERED: "All pods are ready again",
    Word.WAIT_FOR_START: "Not all pods are ready yet",
    Word.WAIT_FOR_RECOVERY: "Pods that were ready no longer are",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How many pods of a job were done for good, where that is known."""

    began: int | None = None
    """When it was first seen running with its quota."""
    missed: int | None = None
    """When pods were missed last."""


def readiness(job: GenericJob, workload: WorkloadInfo, progress: Progress) -> SetPodsReady | None:
    """Return what is to be said of the pods, None where just that is said already."""
    stored = workload.condition("PodsReady")
    runs = workload.admitted and not workload.evicted
    if not runs and stored is None:
        return None  # nothing was said yet, and nobody waits for it
    reason = _reason(job, stored, progress) if runs else Word.WAIT_FOR_START
    ready = reason in (Word.STARTED, Word.RECOVERED)
    if stored is not None and (stored.status, stored.reason) == (str(ready), reason):
        return None
    message = _MESSAGES[reason]
    return SetPodsReady(workload.key, workload.meta.uid, ready, reason, message)


def is_ready(job: GenericJob, before: ConditionInfo | None, progress: Progress) -> bool:
    """Return whether a job has its pods, after this was said of them.

    Where pods are followed by others there may be no moment at which all are ready. So before the
    first time those count too that are done since the start; afterwards it is as good that more
    are done than when pods were missed.
    """
    if job.is_suspended():
        return False
    if job.pods_ready() or not is_progressing(job):
        return job.pods_ready()
    if not _were_ready(before):
        return progress.began is not None and job.pods_ready_since(progress.began)
    missed = progress.missed if before and before.reason == Word.WAIT_FOR_RECOVERY else None
    return missed is not None and job.pods_done() > missed


def _reason(job: GenericJob, before: ConditionInfo | None, progress: Progress) -> Word:
    if is_ready(job, before, progress):
        again = before is not None and before.reason in (Word.WAIT_FOR_RECOVERY, Word.RECOVERED)
        return Word.RECOVERED if again else Word.STARTED
    return Word.WAIT_FOR_RECOVERY if _were_ready(before) else Word.WAIT_FOR_START


def _were_ready(before: ConditionInfo | None) -> bool:
    return before is not None and (
        before.status == "True" or before.reason == Word.WAIT_FOR_RECOVERY
    )
