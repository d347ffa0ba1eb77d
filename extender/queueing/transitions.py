"""What a workload's status becomes: each function returns the workload as it is to be.

The words of conditions and reasons are those that clients of the API know.
Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from dataclasses import replace
from typing import Final

from extender.api.queue_reasons import Unadmitted
from extender.state.pod_groups import ConditionInfo
from extender.state.queues.records import Admission, EvictionCount, RequeueState, WorkloadInfo

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PODS_READY: Final = "PodsReady"
PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
WAIT_FOR_START: Final = "WaitForStart"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
DEACTIVATED: Final = "Deactivated"
PENDING: Final = "Pending"

_AT_ONCE: Final = frozenset((PREEMPTED,))
"""Evictions after which a workload is queued again as soon as its quota is back."""
_STOPPED: Final = frozenset(("ClusterQueueStopped", "LocalQueueStopped"))


def told(
    workload: WorkloadInfo, kind: str, *, holds: bool, reason: str, message: str, now: float
) -> WorkloadInfo:
    """Return the workload with a condition of a type; its time moves when its status does."""
    before = workload.condition(kind)
    status = "True" if holds else "False"
    moved = before is None or before.status != status
    after = ConditionInfo(
        kind,
        status,
        reason,
        message,
        now if before is None or moved else before.transition,
        workload.meta.generation or None,
    )
    others = tuple(each for each in workload.conditions if each.type != kind)
    return replace(workload, conditions=(*others, after))


def reserved(
    workload: WorkloadInfo, admission: Admission, now: float, *, pods_ready: bool = False
) -> WorkloadInfo:
    """Return the workload with quota, and admitted: there are no other checks to wait for.

    `pods_ready` has it told that its pods are not ready yet: what was said of others is over.
    """
    after = replace(workload, admission=admission)
    for kind in (EVICTED, PREEMPTED):
        before = workload.condition(kind)
        if before is not None and before.status == "True":
            after = told(
                after,
                kind,
                holds=False,
                reason=QUOTA_RESERVED,
                message=f"Previously: {before.message}",
                now=now,
            )
    if pods_ready or workload.condition(PODS_READY) is not None:
        after = _not_ready(after, now)
    after = told(
        after,
        QUOTA_RESERVED,
        holds=True,
        reason=QUOTA_RESERVED,
        message=f"Quota reserved in ClusterQueue {admission.cluster_queue}",
        now=now,
    )
    message = "The workload is admitted"
    return told(after, ADMITTED, holds=True, reason=ADMITTED, message=message, now=now)


def waiting(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload without quota, told why."""
    return told(workload, QUOTA_RESERVED, holds=False, reason=reason, message=message, now=now)


def evicted(
    workload: WorkloadInfo, reason: str, message: str, *, now: float, cause: str = ""
) -> WorkloadInfo:
    """Return a workload that is to give its quota back; it keeps it until its pods are gone."""
    after = told(workload, EVICTED, holds=True, reason=reason, message=message, now=now)
    return replace(after, evictions=_counted(workload.evictions, reason, cause))


def preempted(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that has to give way to another one."""
    after = evicted(workload, PREEMPTED, message, now=now)
    return told(after, PREEMPTED, holds=True, reason=reason, message=message, now=now)


def released(workload: WorkloadInfo, now: float, *, requeued: bool | None = None) -> WorkloadInfo:
    """Return an evicted workload without quota, once nothing of it runs any more.

    `requeued` tells whether it may have quota again at once; by default its eviction tells.
    """
    eviction = workload.condition(EVICTED)
    reason = eviction.reason if eviction else PENDING
    message = eviction.message if eviction else "The workload has no quota"
    after = replace(
        workload, admission=None, past_execution=workload.past_execution + ran(workload, now)
    )
    after = waiting(after, _without(reason), message, now=now)
    if workload.condition(ADMITTED) is not None:
        after = told(
            after,
            ADMITTED,
            holds=False,
            reason="NoReservation",
            message="The workload has no reservation",
            now=now,
        )
    if workload.condition(PODS_READY) is not None:
        after = _not_ready(after, now)
    again = reason in _AT_ONCE if requeued is None else requeued
    return told(after, REQUEUED, holds=again, reason=reason, message=message, now=now)


def _without(eviction: str) -> str:
    """Return the reason for which a workload has no quota after an eviction."""
    if eviction.startswith(Unadmitted.DEACTIVATED):
        return Unadmitted.DEACTIVATED
    return Unadmitted.SUSPENDED if eviction in _STOPPED else PENDING


def requeued(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that may be queued again."""
    after = workload
    if workload.requeue is not None:
        after = replace(workload, requeue=RequeueState(workload.requeue.count))
    return told(after, REQUEUED, holds=True, reason=reason, message=message, now=now)


def finished(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that has ended."""
    return told(workload, FINISHED, holds=True, reason=reason, message=message, now=now)


def ran(workload: WorkloadInfo, now: float) -> int:
    """Return for how many seconds it has been admitted this time."""
    admitted = workload.condition(ADMITTED)
    if admitted is None or admitted.status != "True":
        return 0
    return max(0, int(now - admitted.transition))


def queued_since(workload: WorkloadInfo) -> float:
    """Return when a workload was queued last: when it came, or was queued again."""
    requeued = workload.condition(REQUEUED)
    if requeued is not None and requeued.status == "True":
        return max(workload.meta.created, requeued.transition)
    return workload.meta.created


def _not_ready(workload: WorkloadInfo, now: float) -> WorkloadInfo:
    message = "Not all pods are ready yet"
    return told(workload, PODS_READY, holds=False, reason=WAIT_FOR_START, message=message, now=now)


def _counted(
    before: tuple[EvictionCount, ...], reason: str, cause: str
) -> tuple[EvictionCount, ...]:
    if reason.startswith(f"{DEACTIVATED}DueTo"):
        cause, reason = reason.removeprefix(f"{DEACTIVATED}DueTo"), DEACTIVATED
    found = next((each for each in before if (each.reason, each.cause) == (reason, cause)), None)
    counted = EvictionCount(reason, cause, (found.count if found else 0) + 1)
    return (*(each for each in before if each is not found), counted)
