"""What becomes of a workload whatever the quota: it is stopped, deactivated, too late, or ends.

Decided for one workload at a time, from its stored state; the same state twice gives the same
answer, so that a restart goes on in the same place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from extender.queueing import readiness
from extender.queueing import transitions as to
from extender.queueing.options import Options, PodsReady
from extender.queueing.readiness import Deadline
from extender.queueing.standing import Absent, standing
from extender.state.queues.records import (
    ClusterQueueInfo,
    LocalQueueInfo,
    RequeueState,
    WorkloadInfo,
)
from extender.state.queues.snapshot import QueueSnapshot

DEACTIVATION_TARGET: Final = "DeactivationTarget"
MAXIMUM_EXECUTION_TIME: Final = "MaximumExecutionTimeExceeded"
REQUEUING_LIMIT: Final = "RequeuingLimitExceeded"
CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
OWNER_NOT_FOUND: Final = "OwnerNotFound"
LOOK_AGAIN: Final = 1.0
"""Seconds until a workload is looked at again whose pods are ready, as it has not been told yet."""
_RESTARTED: Final = {
    CLUSTER_QUEUE_STOPPED: "ClusterQueueRestarted",
    LOCAL_QUEUE_STOPPED: "LocalQueueRestarted",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with a workload next; nothing is fine too."""

    after: WorkloadInfo | None = None
    """Its status as it is to be written."""
    deactivate: bool = False
    """Set `spec.active` to false."""
    drop_finalizer: bool = False
    again: float | None = None
    """Seconds until it is worth looking again, where nothing else would tell."""
    reason: str = ""
    message: str = ""
    """What the Event says, if there is one."""


_NOTHING: Final = Step()


@dataclass(frozen=True, slots=True)
class Given:
    """What a decision needs besides the state of the queues."""

    options: Options = field(default_factory=Options)
    pods_ready: Callable[[WorkloadInfo], bool] = lambda _: False
    """Whether the pods of a workload's job are ready by what is known of the job."""


def decide(
    workload: WorkloadInfo,
    snapshot: QueueSnapshot,
    now: float,
    *,
    orphaned: bool,
    given: Given | None = None,
) -> Step:
    """Return the next step; `orphaned` tells that its job is known to be gone."""
    if workload.meta.terminating:
        held = bool(workload.meta.finalizers)
        return Step(drop_finalizer=held and (orphaned or not workload.owners))
    if orphaned:
        return _ended(workload, now)
    if workload.finished:
        return _NOTHING
    for rule in _RULES:
        step = rule(workload, snapshot, now)
        if step is not None:
            return step
    step = _in_time(workload, snapshot, now, given=given or Given())
    return step or _nowhere(workload, snapshot, now) or _NOTHING


def _ended(workload: WorkloadInfo, now: float) -> Step:
    held = bool(workload.meta.finalizers)
    if workload.finished:
        return Step(drop_finalizer=held)
    message = "The job of the workload is gone"
    after = to.finished(workload, OWNER_NOT_FOUND, message, now=now)
    return Step(after, drop_finalizer=held, reason=OWNER_NOT_FOUND, message=message)


def _release(workload: WorkloadInfo, _: QueueSnapshot, now: float) -> Step | None:
    """Give back the quota of an evicted workload that has no job which would have to stop."""
    if workload.evicted and workload.admission is not None and not workload.owners:
        return Step(to.released(workload, now))
    return None


def _deactivate(workload: WorkloadInfo, _: QueueSnapshot, now: float) -> Step | None:
    target = workload.condition(DEACTIVATION_TARGET)
    if workload.active:
        if target is not None and target.status == "True":
            return Step(deactivate=True)
        return None
    if target is not None and target.status == "True":
        reason, message = f"DeactivatedDueTo{target.reason}", target.message
    else:
        reason, message = to.DEACTIVATED, "The workload is deactivated"
    return _turned_out(workload, reason, message, now=now)


def _turned_out(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> Step | None:
    """Return how a workload leaves: evicted where it has quota, else out of the queue."""
    if workload.admission is not None:
        if workload.evicted:
            return Step()
        after = _settled(to.evicted(workload, reason, message, now=now))
        return Step(after, reason="Evicted", message=message)
    word = to.DEACTIVATED if reason.startswith(to.DEACTIVATED) else reason
    requeued = workload.condition(to.REQUEUED)
    if requeued is not None and requeued.status == "False" and requeued.reason.startswith(word):
        return Step()
    after = to.waiting(workload, word, message, now=now)
    after = to.told(after, to.REQUEUED, holds=False, reason=reason, message=message, now=now)
    return Step(_settled(after))


def _settled(workload: WorkloadInfo) -> WorkloadInfo:
    """Return a workload that leaves without the note that it is to be deactivated.

    One that does not come back by itself has no back-off, and begins anew when it comes.
    """
    conditions = tuple(c for c in workload.conditions if c.type != DEACTIVATION_TARGET)
    requeue = workload.requeue if workload.active else None
    return replace(workload, conditions=conditions, requeue=requeue)


def _stopped(workload: WorkloadInfo, snapshot: QueueSnapshot, now: float) -> Step | None:
    """Turn out what is in a queue that is being drained."""
    queue = snapshot.local_queues.get(workload.queue)
    name = snapshot.cluster_queue_of(workload)
    cluster_queue = snapshot.cluster_queues.get(name) if name else None
    if workload.admission is None:
        return None
    if cluster_queue is not None and cluster_queue.stop_policy == "HoldAndDrain":
        message = "The ClusterQueue is stopped"
        return _turned_out(workload, CLUSTER_QUEUE_STOPPED, message, now=now)
    if queue is not None and queue.stop_policy == "HoldAndDrain":
        message = "The LocalQueue is stopped"
        return _turned_out(workload, LOCAL_QUEUE_STOPPED, message, now=now)
    return None


def _come_back(workload: WorkloadInfo, snapshot: QueueSnapshot, now: float) -> Step | None:
    """Queue again what was turned out, once the cause is gone."""
    requeued = workload.condition(to.REQUEUED)
    if requeued is None or requeued.status == "True" or workload.admission is not None:
        return None
    if requeued.reason.startswith(to.DEACTIVATED):
        return _queued(workload, "Reactivated", "The workload is active again", now=now)
    restarted = _RESTARTED.get(requeued.reason)
    if restarted is None:
        return _backed_off(workload, now)
    if _is_stopped(workload, snapshot, by=requeued.reason):
        return _NOTHING
    return _queued(workload, restarted, "The queue goes on", now=now)


def _is_stopped(workload: WorkloadInfo, snapshot: QueueSnapshot, *, by: str) -> bool:
    queue = snapshot.local_queues.get(workload.queue)
    stopping: LocalQueueInfo | ClusterQueueInfo | None = queue
    if by == CLUSTER_QUEUE_STOPPED:
        stopping = snapshot.cluster_queues.get(queue.cluster_queue) if queue else None
    return stopping is None or stopping.stop_policy != "None"


def _backed_off(workload: WorkloadInfo, now: float) -> Step:
    at = workload.requeue.at if workload.requeue else None
    if at is None or at <= now:
        return _queued(workload, "BackoffFinished", "The workload waited long enough", now=now)
    return Step(again=at - now)


def _queued(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> Step:
    return Step(to.requeued(workload, reason, message, now=now), reason=reason, message=message)


def _in_time(
    workload: WorkloadInfo, snapshot: QueueSnapshot, now: float, *, given: Given
) -> Step | None:
    """Return what is due of an admitted workload, or when something will be."""
    steps = (_late(workload, snapshot, now, given=given), _time_limit(workload, now))
    found = [step for step in steps if step is not None]
    due = next((step for step in found if step.after is not None), None)
    return due or min(found, key=lambda step: step.again or 0.0, default=None)


def _late(
    workload: WorkloadInfo, snapshot: QueueSnapshot, now: float, *, given: Given
) -> Step | None:
    """Send a workload back whose pods did not become ready in time."""
    policy = readiness.policy_of(workload, snapshot, given.options)
    until = readiness.deadline(workload, policy)
    if until is None:
        return None
    if now < until.at:
        return Step(again=until.at - now)
    if given.pods_ready(workload):
        return Step(again=LOOK_AGAIN)
    return _sent_back(workload, until, policy, now=now)


def _sent_back(workload: WorkloadInfo, until: Deadline, policy: PodsReady, *, now: float) -> Step:
    times = (workload.requeue.count if workload.requeue else 0) + 1
    if policy.backoff_limit is not None and times > policy.backoff_limit:
        message = f"Its pods were not ready in time, {times} times in all"
        return Step(_targeted(workload, REQUEUING_LIMIT, message, now=now))
    if until.cause == to.WAIT_FOR_RECOVERY:
        message = f"Pods were not ready again within {policy.recovery_timeout:g} seconds"
    else:
        message = f"Not all pods were ready within {policy.timeout:g} seconds"
    after = to.evicted(workload, to.PODS_READY_TIMEOUT, message, now=now, cause=until.cause)
    # Stored in whole seconds: never earlier than asked for.
    again_at = float(ceil(now + readiness.back_off(times, policy)))
    return Step(
        replace(after, requeue=RequeueState(times, again_at)), reason=to.EVICTED, message=message
    )


def _time_limit(workload: WorkloadInfo, now: float) -> Step | None:
    if workload.max_execution is None or not workload.admitted or workload.evicted:
        return None
    ran = workload.past_execution + to.ran(workload, now)
    if ran < workload.max_execution:
        return Step(again=max(0.5, workload.max_execution - ran))
    message = f"The workload ran for its {workload.max_execution} seconds"
    return Step(_targeted(workload, MAXIMUM_EXECUTION_TIME, message, now=now))


def _targeted(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return the workload with the note that it is to be deactivated, and why."""
    return to.told(
        workload, DEACTIVATION_TARGET, holds=True, reason=reason, message=message, now=now
    )


def _nowhere(workload: WorkloadInfo, snapshot: QueueSnapshot, now: float) -> Step | None:
    """Tell a workload that stands in no queue why it does not."""
    found = standing(workload, snapshot, now=now)
    if not isinstance(found, Absent) or found.reason is None:
        return None
    known = workload.condition(to.QUOTA_RESERVED)
    if known is not None and (known.status, known.reason) == ("False", found.reason):
        return None
    return Step(to.waiting(workload, found.reason, found.message, now=now))


_RULES: Final[tuple[Callable[[WorkloadInfo, QueueSnapshot, float], Step | None], ...]] = (
    _release,
    _deactivate,
    _stopped,
    _come_back,
)
