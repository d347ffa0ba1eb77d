"""The condition PodsReady of a workload (KEP-349)."""

from extender.jobs.actions import SetPodsReady
from extender.jobs.generic_job import GenericJob
from extender.jobs.names import Word
from extender.state.pod_groups import ConditionInfo
from extender.state.queues.records import WorkloadInfo

_MESSAGES = {
    Word.STARTED: "All pods are ready or have succeeded",
    Word.RECOVERED: "All pods are ready again",
    Word.WAIT_FOR_START: "Not all pods are ready yet",
    Word.WAIT_FOR_RECOVERY: "Pods that were ready no longer are",
}


def readiness(job: GenericJob, workload: WorkloadInfo) -> SetPodsReady | None:
    """Return what is to be said of the pods, None where just that is said already."""
    stored = workload.condition("PodsReady")
    runs = workload.admitted and not workload.evicted
    if not runs and stored is None:
        return None  # nothing was said yet, and nobody waits for it
    reason = _reason(job, stored) if runs else Word.WAIT_FOR_START
    ready = reason in (Word.STARTED, Word.RECOVERED)
    if stored is not None and (stored.status, stored.reason) == (str(ready), reason):
        return None
    message = _MESSAGES[reason]
    return SetPodsReady(workload.key, workload.meta.uid, ready, reason, message)


def _reason(job: GenericJob, before: ConditionInfo | None) -> Word:
    was = before.reason if before else ""
    if not job.is_suspended() and job.pods_ready():
        again = was in (Word.WAIT_FOR_RECOVERY, Word.RECOVERED)
        return Word.RECOVERED if again else Word.STARTED
    once = before is not None and (before.status == "True" or was == Word.WAIT_FOR_RECOVERY)
    return Word.WAIT_FOR_RECOVERY if once else Word.WAIT_FOR_START
