"""Changes of a workload's status: each function returns the workload with a new status.

Types and reasons of conditions are Kueue's, because clients match on them.
Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from extender.api.queue_wire import Eviction
from extender.api.reasons import (
    EvictionReason,
    GateReason,
    HostReason,
    PodsReadyReason,
    RoomReason,
    Unadmitted,
)
from extender.api.wellknown import WorkloadCondition
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import (
    AdmissionInfo,
    Meta,
    RequeueInfo,
    WorkloadInfo,
)

_PENDING: Final = "Pending"
_LONGEST_CAUSE: Final = 316
"""Characters that the API server stores of a reason or cause of evictions."""
_AT_ONCE: Final = frozenset((EvictionReason.PREEMPTED,))
"""Evictions after which a workload is requeued as soon as its quota is released."""
_MAY_WAIT_FOR_ROOM: Final = frozenset(
    (
        Unadmitted.WAITING_FOR_ROOM,
        Unadmitted.WAITING_FOR_QUOTA,
        Unadmitted.WAITING_FOR_PREEMPTED,
        Unadmitted.WAITING_FOR_PODS_READY,
        Unadmitted.PENDING_EVALUATION,
        Unadmitted.INTERNAL_ERROR,
    )
)
_STOPPED: Final = frozenset(
    (EvictionReason.CLUSTER_QUEUE_STOPPED, EvictionReason.LOCAL_QUEUE_STOPPED)
)


def condition(type_: str, reason: str, message: str, *, holds: bool = True) -> ConditionInfo:
    """Return a condition to be set by `with_conditions`."""
    return ConditionInfo(type_, "True" if holds else "False", reason, message)


def set_condition(
    conditions: Iterable[ConditionInfo], new: ConditionInfo, *, meta: Meta, now: float
) -> tuple[ConditionInfo, ...]:
    """Return conditions with a new one; the transition time changes only with its status."""
    before = {each.type: each for each in conditions}
    old = before.pop(new.type, None)
    since = old.transition if old is not None and old.status == new.status else now
    return (*before.values(), replace(new, transition=since, generation=meta.generation or None))


def with_conditions(workload: WorkloadInfo, now: float, *new: ConditionInfo) -> WorkloadInfo:
    """Return the workload with new conditions."""
    conditions = workload.conditions
    for each in new:
        conditions = set_condition(conditions, each, meta=workload.meta, now=now)
    return replace(workload, conditions=conditions)


def reserved(
    workload: WorkloadInfo, admission: AdmissionInfo, now: float, *, pods_ready: bool = False
) -> WorkloadInfo:
    """Return the workload with quota, and admitted: there are no admission checks to wait for.

    `pods_ready` sets the condition that its pods are not ready yet, whatever earlier pods were.
    """
    new: list[ConditionInfo] = []
    quota = WorkloadCondition.QUOTA_RESERVED
    for type_ in (WorkloadCondition.EVICTED, WorkloadCondition.PREEMPTED):
        before = workload.condition(type_)
        if before is not None and before.status == "True":
            new.append(condition(type_, quota, f"Previously: {before.message}", holds=False))
    if pods_ready or workload.condition(WorkloadCondition.PODS_READY) is not None:
        new.append(_NOT_READY)
    text = f"Quota reserved in ClusterQueue {admission.cluster_queue}"
    new.append(condition(quota, quota, text))
    workload = with_gates(workload, quota, text, now=now)
    workload = without(workload, WorkloadCondition.ROOM_RESERVED, WorkloadCondition.START_BLOCKED)
    return with_conditions(replace(workload, admission=admission), now, *new, _ADMITTED)


def waiting(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload without quota, with the reason.

    Since when it waits for room counts as long as it waits for quota or room.
    """
    new = condition(WorkloadCondition.QUOTA_RESERVED, reason, message, holds=False)
    before = (
        workload
        if reason in _MAY_WAIT_FOR_ROOM
        else without(workload, WorkloadCondition.ROOM_RESERVED)
    )
    return with_conditions(before, now, new)


def with_gates(
    workload: WorkloadInfo, reason: str, message: str, *, blocked: bool = False, now: float
) -> WorkloadInfo:
    """Return a workload that its preemption gates keep from preempting others, or do not."""
    kind = WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES
    if not blocked and not workload.holds(kind):
        return workload
    why = GateReason.PREEMPTION_GATED if blocked else reason
    return with_conditions(workload, now, condition(kind, why, message, holds=blocked))


def waiting_for_room(
    workload: WorkloadInfo, kept: tuple[int, int] | None, *, now: float
) -> WorkloadInfo:
    """Return a workload that waits for room; `kept` is for how many pods on how many nodes."""
    message = kept_text(kept) if kept is not None else "It waits for room on nodes"
    reason = RoomReason.WAITED_LONG if kept is not None else RoomReason.WAITING_FOR_ROOM
    new = condition(WorkloadCondition.ROOM_RESERVED, reason, message, holds=kept is not None)
    return with_conditions(workload, now, new)


def kept_text(kept: tuple[int, int]) -> str:
    """Return in words for how many pods room is kept on how many nodes."""
    pods, nodes = kept
    on = f"{nodes} node" if nodes == 1 else f"{nodes} nodes"
    return f"room for {pods} {'pod' if pods == 1 else 'pods'} is kept on {on}"


def without(workload: WorkloadInfo, *kinds: WorkloadCondition) -> WorkloadInfo:
    """Return a workload without the conditions of these types."""
    left = tuple(each for each in workload.conditions if each.type not in kinds)
    return workload if len(left) == len(workload.conditions) else replace(workload, conditions=left)


def blocked(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload whose job could not be started, or could again where there is no reason."""
    if reason:
        new = condition(WorkloadCondition.START_BLOCKED, reason, message)
        if workload.active:  # else it says that it is deactivated
            workload = waiting(workload, reason, message, now=now)
        return with_conditions(workload, now, new)
    after = without(workload, WorkloadCondition.START_BLOCKED)
    text = "Its job can be started when there is quota"
    return waiting(after, Unadmitted.PENDING_EVALUATION, text, now=now)


def hosts_lost(workload: WorkloadInfo, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that has lost hosts of its topology, for which there are no others."""
    new = condition(WorkloadCondition.HOSTS_LOST, HostReason.NO_REPLACEMENT, message)
    return with_conditions(workload, now, new)


def evicted(
    workload: WorkloadInfo, reason: str, message: str, *, now: float, cause: str = ""
) -> WorkloadInfo:
    """Return an evicted workload; it keeps its quota until its pods are gone.

    Its preemption gates close again.
    """
    new = condition(WorkloadCondition.EVICTED, reason, message)
    after = with_conditions(without(workload, WorkloadCondition.HOSTS_LOST), now, new)
    return replace(
        with_gates(after, reason, message, now=now),
        evictions=_counted(workload.evictions, reason, cause),
        closed_gates=(*workload.closed_gates, *workload.open_gates),
        open_gates=(),
    )


def preempted(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that is evicted for another one."""
    after = evicted(workload, EvictionReason.PREEMPTED, message, now=now)
    return with_conditions(after, now, condition(WorkloadCondition.PREEMPTED, reason, message))


def released(workload: WorkloadInfo, now: float, *, requeued: bool | None = None) -> WorkloadInfo:
    """Return an evicted workload without quota, once none of its pods runs any more.

    `requeued` is whether it may have quota again at once; by default that depends on the reason.
    """
    eviction = workload.condition(WorkloadCondition.EVICTED)
    reason = eviction.reason if eviction else _PENDING
    message = eviction.message if eviction else "The workload has no quota"
    after = replace(
        workload, admission=None, past_execution=workload.past_execution + ran(workload, now)
    )
    why = Unadmitted.SUSPENDED if reason in _STOPPED else _PENDING
    if reason.startswith(Unadmitted.DEACTIVATED):
        why = Unadmitted.DEACTIVATED
    after = waiting(after, why, message, now=now)
    if workload.condition(WorkloadCondition.ADMITTED) is not None:
        after = with_conditions(after, now, _NO_RESERVATION)
    if workload.condition(WorkloadCondition.PODS_READY) is not None:
        after = with_conditions(after, now, _NOT_READY)
    again = reason in _AT_ONCE if requeued is None else requeued
    new = condition(WorkloadCondition.REQUEUED, reason, message, holds=again)
    return with_conditions(after, now, new)


def requeued(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that may be queued again."""
    after = workload
    if workload.requeue is not None:
        after = replace(workload, requeue=RequeueInfo(workload.requeue.count))
    return with_conditions(after, now, condition(WorkloadCondition.REQUEUED, reason, message))


def finished(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a finished workload."""
    new = condition(WorkloadCondition.FINISHED, reason, message)
    return with_conditions(without(workload, WorkloadCondition.HOSTS_LOST), now, new)


def ran(workload: WorkloadInfo, now: float) -> int:
    """Return for how many seconds it has been admitted, since the last admission."""
    admitted = workload.condition(WorkloadCondition.ADMITTED)
    if admitted is None or admitted.status != "True":
        return 0
    return max(0, int(now - admitted.transition))


def queued_since(workload: WorkloadInfo) -> float:
    """Return when a workload was queued last: its creation, or its last requeueing."""
    requeued = workload.condition(WorkloadCondition.REQUEUED)
    if requeued is not None and requeued.status == "True":
        return max(workload.meta.created, requeued.transition)
    return workload.meta.created


def _counted(before: tuple[Eviction, ...], reason: str, cause: str) -> tuple[Eviction, ...]:
    deactivated, due_to, why = reason.partition("DueTo")
    if due_to and deactivated == EvictionReason.DEACTIVATED:
        reason, cause = deactivated, why
    reason, cause = reason[:_LONGEST_CAUSE], cause[:_LONGEST_CAUSE]
    found = next((each for each in before if (each.reason, each.cause) == (reason, cause)), None)
    counted = Eviction(reason, cause, (found.count if found else 0) + 1)
    return (*(each for each in before if each is not found), counted)


_ADMITTED: Final = condition(
    WorkloadCondition.ADMITTED, WorkloadCondition.ADMITTED, "The workload is admitted"
)
_NO_RESERVATION: Final = condition(
    WorkloadCondition.ADMITTED, "NoReservation", "The workload has no reservation", holds=False
)
_NOT_READY: Final = condition(
    WorkloadCondition.PODS_READY,
    PodsReadyReason.WAIT_FOR_START,
    "Not all pods are ready yet",
    holds=False,
)
