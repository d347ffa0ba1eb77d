"""The life of a workload apart from quota: stops, deactivation, time-outs and its end.

The first functions return a workload with a new status. The decisions below them say when: each is
about one workload, from its stored state. The same state gives the same decision, so that a
restarted process goes on in the same place.

Types and reasons of conditions are Kueue's, because clients match on them.
Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from extender.api.queue_wire import Eviction
from extender.api.reasons import (
    CheckReason,
    DeactivationCause,
    EventReason,
    EvictionReason,
    FinishReason,
    GateReason,
    HostReason,
    NotYetAdmitted,
    PodsReadyReason,
    RequeueReason,
    RoomReason,
    Unadmitted,
)
from extender.api.values import value_taken
from extender.api.wellknown import PRIORITY_TAKEN, WorkloadCondition
from extender.queueing import checks
from extender.queueing.rules import (
    STORED_SECONDS,
    AdmissionOptions,
    Deadline,
    PodsReady,
    back_off,
    deadline,
    policy_of,
)
from extender.queueing.status import Absent, is_orphan, standing
from extender.state.cluster.records import ConditionInfo
from extender.state.queue.records import (
    AdmissionInfo,
    CheckState,
    ClusterQueueInfo,
    LocalQueueInfo,
    Meta,
    RequeueInfo,
    WorkloadInfo,
)
from extender.state.queue.view import QueueView

_PENDING: Final = "Pending"
_LONGEST_PAUSE: Final = 1800.0
"""Seconds before nodes are asked for again at the latest, as in Kueue's ProvisioningRequests."""
_LACKS_ROOM: Final = (NotYetAdmitted.WAITING_FOR_NODES, NotYetAdmitted.WAITING_FOR_ROOM)
_LONGEST_CAUSE: Final = 316
"""Characters that the API server stores of a reason or cause of evictions."""
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
    workload: WorkloadInfo,
    admission: AdmissionInfo,
    now: float,
    *,
    pods_ready: bool = False,
    has_checks: bool = False,
) -> WorkloadInfo:
    """Return the workload with quota, and admitted unless it awaits admission checks or nodes.

    `pods_ready` sets the condition that its pods are not ready yet, whatever earlier pods were.
    `has_checks` says that its ClusterQueue has admission checks.
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
    # What a controller said since the checks were reset was about the quota before.
    workload = replace(workload, checks=checks.reset(workload.checks, now))
    waits = _NO_NODES if not has_checks else _UNSATISFIED_CHECKS
    new.append(waits if admission.reserved_only else _ADMITTED)
    return with_conditions(replace(workload, admission=admission), now, *new)


def admitted(workload: WorkloadInfo, admission: AdmissionInfo, now: float) -> WorkloadInfo:
    """Return a workload that holds quota as an admitted one; its pods may have domains now."""
    return with_conditions(replace(workload, admission=admission), now, _ADMITTED)


def not_yet_admitted(
    workload: WorkloadInfo, reason: str, message: str, *, now: float
) -> WorkloadInfo:
    """Return a workload that holds quota, with the reason why it is not admitted."""
    new = condition(WorkloadCondition.ADMITTED, reason, message, holds=False)
    return with_conditions(workload, now, new)


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

    Its preemption gates close again, and its admission checks begin anew.
    """
    new = condition(WorkloadCondition.EVICTED, reason, message)
    after = with_conditions(without(workload, WorkloadCondition.HOSTS_LOST), now, new)
    return replace(
        with_gates(after, reason, message, now=now),
        evictions=_counted(workload.evictions, reason, cause),
        closed_gates=(*workload.closed_gates, *workload.open_gates),
        open_gates=(),
        checks=checks.reset(workload.checks, now),
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
    why = Unadmitted.SUSPENDED if reason in _RESTARTED else _PENDING
    if reason.startswith(Unadmitted.DEACTIVATED):
        why = Unadmitted.DEACTIVATED
    after = waiting(after, why, message, now=now)
    if workload.condition(WorkloadCondition.ADMITTED) is not None:
        after = with_conditions(after, now, _NO_RESERVATION)
    if workload.condition(WorkloadCondition.PODS_READY) is not None:
        after = with_conditions(after, now, _NOT_READY)
    again = reason == EvictionReason.PREEMPTED if requeued is None else requeued
    new = condition(WorkloadCondition.REQUEUED, reason, message, holds=again)
    return with_conditions(after, now, new)


def unreserved(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadInfo:
    """Return a workload that was not admitted without its quota; its checks begin anew."""
    after = replace(workload, admission=None, checks=checks.reset(workload.checks, now))
    return with_conditions(waiting(after, reason, message, now=now), now, _NO_RESERVATION)


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
_UNSATISFIED_CHECKS: Final = condition(
    WorkloadCondition.ADMITTED,
    NotYetAdmitted.UNSATISFIED_CHECKS,
    "The workload has not all checks ready",
    holds=False,
)
NO_NODES: Final = "quota yes; its pods do not fit on the nodes yet"
"""The message with a reservation, until a cycle says what its pods lack."""
_NO_NODES: Final = condition(
    WorkloadCondition.ADMITTED, NotYetAdmitted.WAITING_FOR_NODES, NO_NODES, holds=False
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


_RESTARTED: Final[Mapping[str, RequeueReason]] = {
    EvictionReason.CLUSTER_QUEUE_STOPPED: RequeueReason.CLUSTER_QUEUE_RESTARTED,
    EvictionReason.LOCAL_QUEUE_STOPPED: RequeueReason.LOCAL_QUEUE_RESTARTED,
}


@dataclass(frozen=True, slots=True)
class WorkloadStep:
    """The next thing to do for a workload; nothing by default."""

    after: WorkloadInfo | None = None
    """The status to write."""
    deactivate: bool = False
    """Set `spec.active` to false."""
    drop_finalizer: bool = False
    again: float | None = None
    """Seconds until the next look, where no event would cause one."""
    reason: str = ""
    message: str = ""
    """The message of the Event, where there is a reason for one."""


_NOTHING: Final = WorkloadStep()


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """The input of a decision in addition to the state of the queues."""

    options: AdmissionOptions = field(default_factory=AdmissionOptions)
    pods_ready: Callable[[WorkloadInfo], bool] = lambda _: False
    """Tells whether the pods of a workload's job are ready, from the state of the job."""


def decide(
    workload: WorkloadInfo,
    view: QueueView,
    now: float,
    *,
    orphaned: bool,
    rules: LifecycleRules | None = None,
) -> WorkloadStep:
    """Return the next step; `orphaned` where its job is known to be gone."""
    orphaned = orphaned or is_orphan(workload, view)
    if workload.meta.terminating:
        held = bool(workload.meta.finalizers)
        return WorkloadStep(drop_finalizer=held and (orphaned or not workload.owners))
    if orphaned:
        return _ended(workload, now)
    if workload.finished:
        return _NOTHING
    for rule in _RULES:
        step = rule(workload, view, now)
        if step is not None:
            return step
    step = _in_time(workload, view, now, rules=rules or LifecycleRules())
    return step or _not_queued(workload, view, now) or _NOTHING


def _ended(workload: WorkloadInfo, now: float) -> WorkloadStep:
    held = bool(workload.meta.finalizers)
    if workload.finished:
        return WorkloadStep(drop_finalizer=held)
    reason, message = FinishReason.OWNER_NOT_FOUND, "The job of the workload is gone"
    after = finished(workload, reason, message, now=now)
    return WorkloadStep(after, drop_finalizer=held, reason=reason, message=message)


def _release(workload: WorkloadInfo, _: QueueView, now: float) -> WorkloadStep | None:
    """Release the quota of an evicted workload that has no job to stop."""
    if workload.evicted and workload.admission is not None and not workload.owners:
        return WorkloadStep(released(workload, now))
    return None


def _deactivate(workload: WorkloadInfo, _: QueueView, now: float) -> WorkloadStep | None:
    target = workload.condition(WorkloadCondition.DEACTIVATION_TARGET)
    if workload.active:
        if target is not None and target.status == "True":
            return WorkloadStep(deactivate=True)
        return None
    if target is not None and target.status == "True":
        reason, message = f"{EvictionReason.DEACTIVATED}DueTo{target.reason}", target.message
        if target.reason == DeactivationCause.ADMISSION_CHECK:
            message = f"The workload is deactivated due to {message}"
    else:
        reason, message = EvictionReason.DEACTIVATED, "The workload is deactivated"
    return _evict_or_dequeue(workload, reason, message, now=now)


def _evict_or_dequeue(
    workload: WorkloadInfo, reason: str, message: str, *, now: float
) -> WorkloadStep | None:
    """Evict a workload where it has quota, else take it out of its queue."""
    if workload.admission is not None:
        if workload.evicted:
            return WorkloadStep()
        after = _without_target(evicted(workload, reason, message, now=now))
        return WorkloadStep(after, reason=EventReason.EVICTED, message=message)
    short = EvictionReason.DEACTIVATED if reason.startswith(EvictionReason.DEACTIVATED) else reason
    requeued = workload.condition(WorkloadCondition.REQUEUED)
    if requeued is not None and requeued.status == "False" and requeued.reason.startswith(short):
        return WorkloadStep()
    after = waiting(workload, short, message, now=now)
    new = condition(WorkloadCondition.REQUEUED, reason, message, holds=False)
    return WorkloadStep(_without_target(with_conditions(after, now, new)))


def _without_target(workload: WorkloadInfo) -> WorkloadInfo:
    """Return a workload that leaves, without the condition that it is to be deactivated.

    An inactive workload has no back-off: its count begins again once it is reactivated.
    """
    requeue = workload.requeue if workload.active else None
    return replace(without(workload, WorkloadCondition.DEACTIVATION_TARGET), requeue=requeue)


def _why_closed(queue: ClusterQueueInfo | LocalQueueInfo | None) -> str:
    """Return why a queue admits nothing of what it has only reserved quota for, if that is so."""
    if queue is None or (queue.stop_policy == "None" and not queue.meta.terminating):
        return ""
    kind = "ClusterQueue" if isinstance(queue, ClusterQueueInfo) else "LocalQueue"
    return f"{kind} {queue.meta.name} is {'terminating' if queue.meta.terminating else 'stopped'}"


def _stopped(workload: WorkloadInfo, view: QueueView, now: float) -> WorkloadStep | None:
    """Evict a workload from a queue that is drained, and take back what is only reserved."""
    queue = view.local_queues.get(workload.queue)
    name = view.cluster_queue_of(workload)
    cluster_queue = view.cluster_queues.get(name) if name else None
    if workload.admission is None:
        return None
    if workload.admission.reserved_only and not workload.evicted:
        text = _why_closed(cluster_queue) or _why_closed(queue)
        if cluster_queue is None:
            text = f"ClusterQueue {name} doesn't exist"
        if text:
            return WorkloadStep(unreserved(workload, Unadmitted.SUSPENDED, text, now=now))
    if cluster_queue is not None and cluster_queue.stop_policy == "HoldAndDrain":
        message = "The ClusterQueue is stopped"
        return _evict_or_dequeue(workload, EvictionReason.CLUSTER_QUEUE_STOPPED, message, now=now)
    if queue is not None and queue.stop_policy == "HoldAndDrain":
        message = "The LocalQueue is stopped"
        return _evict_or_dequeue(workload, EvictionReason.LOCAL_QUEUE_STOPPED, message, now=now)
    return None


def _checked(workload: WorkloadInfo, view: QueueView, now: float) -> WorkloadStep | None:
    """List the admission checks that a workload needs, and do what their states ask for."""
    if workload.admission is None or workload.evicted:
        return None
    after = checks.synced(workload, view, now)
    rejected = checks.in_state(after, checks.REJECTED)
    if rejected:
        message = checks.told(rejected, checks.REJECTED)
        step = _targeted(after, DeactivationCause.ADMISSION_CHECK, message, now=now)
        return replace(step, reason=CheckReason.REJECTED, message=f"Deactivated due to {message}")
    retried = checks.in_state(after, checks.RETRY)
    if retried:
        message = f"Evicted due to {checks.told(retried, checks.RETRY)}"
        requeue = checks.requeue_of(after, now)
        after = evicted(after, EvictionReason.ADMISSION_CHECK, message, now=now)
        after = replace(after, requeue=requeue)
        return WorkloadStep(after, reason=EventReason.EVICTED, message=message)
    if checks.unready(after) and not after.admitted:
        said = after.condition(WorkloadCondition.ADMITTED)
        if said is None or said.reason != NotYetAdmitted.UNSATISFIED_CHECKS:
            after = with_conditions(after, now, _UNSATISFIED_CHECKS)
    return WorkloadStep(after) if after is not workload else None


def _requeue(workload: WorkloadInfo, view: QueueView, now: float) -> WorkloadStep | None:
    """Requeue a workload that was evicted or dequeued, once the cause is gone."""
    requeued = workload.condition(WorkloadCondition.REQUEUED)
    if requeued is None or requeued.status == "True" or workload.admission is not None:
        return None
    if requeued.reason.startswith(EvictionReason.DEACTIVATED):
        # What counted towards the deactivation begins anew.
        again = tuple(CheckState(each.name, last_transition=now) for each in workload.checks)
        anew = replace(workload, past_execution=0, requeue=None, checks=again)
        return _queued(anew, RequeueReason.REACTIVATED, "The workload was reactivated", now=now)
    restarted = _RESTARTED.get(requeued.reason)
    if restarted is None:
        at = workload.requeue.at if workload.requeue else None
        if at is not None and at > now:
            return WorkloadStep(again=at - now)
        message = "The workload backoff was finished"
        return _queued(workload, RequeueReason.BACKOFF_FINISHED, message, now=now)
    queue = view.local_queues.get(workload.queue)
    stopping: LocalQueueInfo | ClusterQueueInfo | None = queue
    if requeued.reason == EvictionReason.CLUSTER_QUEUE_STOPPED:
        stopping = view.cluster_queues.get(queue.cluster_queue) if queue else None
    if stopping is None or stopping.stop_policy != "None":
        return _NOTHING
    message = f"The {restarted.removesuffix('Restarted')} was restarted"
    return _queued(workload, restarted, message, now=now)


def _queued(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadStep:
    after = requeued(workload, reason, message, now=now)
    return WorkloadStep(after, reason=reason, message=message)


def _in_time(
    workload: WorkloadInfo, view: QueueView, now: float, *, rules: LifecycleRules
) -> WorkloadStep | None:
    """Return what is due for an admitted workload, or when something will be."""
    steps = (
        _without_nodes_in_time(workload, view, now, rules=rules),
        _not_ready_in_time(workload, view, now, rules=rules),
        _time_limit(workload, now),
    )
    found = [step for step in steps if step is not None]
    due = next((step for step in found if step.after is not None), None)
    return due or min(found, key=lambda step: step.again or 0.0, default=None)


def _without_nodes_in_time(
    workload: WorkloadInfo, view: QueueView, now: float, *, rules: LifecycleRules
) -> WorkloadStep | None:
    """Release the quota of a workload that lacks room for too long: no nodes came in time.

    Others may have its quota until it asks again, after a back-off that doubles.
    """
    if workload.admission is None or not workload.admission.reserved_only or workload.evicted:
        return None
    waits, held = (
        workload.condition(each)
        for each in (WorkloadCondition.ADMITTED, WorkloadCondition.QUOTA_RESERVED)
    )
    if waits is None or held is None or waits.reason not in _LACKS_ROOM:
        return None
    since = max(held.transition, *(each.last_transition for each in workload.checks), 0.0)
    until = since + rules.options.provision_timeout
    if now < until:
        return WorkloadStep(again=until - now)
    return nodes_refused(workload, f"{waits.message}; no nodes came in time", now=now)


def nodes_missed(workload: WorkloadInfo) -> int:
    """Return how many reservations of quota ended because no nodes came."""
    reason = EvictionReason.NODES_TIMEOUT
    return sum(each.count for each in workload.evictions if each.reason == reason)


def nodes_refused(workload: WorkloadInfo, message: str, *, now: float) -> WorkloadStep:
    """Return the step that releases the quota of a workload that does not get its nodes."""
    pause = back_off(nodes_missed(workload) + 1, PodsReady(backoff_max=_LONGEST_PAUSE))
    after = evicted(workload, EvictionReason.NODES_TIMEOUT, message, now=now)
    count = workload.requeue.count if workload.requeue else 0  # of pods that were not ready
    after = replace(after, requeue=RequeueInfo(count, float(ceil(now + pause))))
    return WorkloadStep(after, reason=EventReason.EVICTED, message=message)


def _not_ready_in_time(
    workload: WorkloadInfo, view: QueueView, now: float, *, rules: LifecycleRules
) -> WorkloadStep | None:
    """Evict and requeue a workload whose pods did not become ready in time."""
    policy = policy_of(workload, view, rules.options)
    until = deadline(workload, policy)
    if until is None:
        return None
    if now < until.at:
        return WorkloadStep(again=until.at - now)
    if rules.pods_ready(workload):
        return WorkloadStep(again=STORED_SECONDS)  # its status lags behind
    return _requeue_with_backoff(workload, until, policy, now=now)


def _requeue_with_backoff(
    workload: WorkloadInfo, until: Deadline, policy: PodsReady, *, now: float
) -> WorkloadStep:
    times = (workload.requeue.count if workload.requeue else 0) + 1
    if policy.backoff_limit is not None and times > policy.backoff_limit:
        message = f"Its pods did not become ready in time {times} times"
        return _targeted(workload, DeactivationCause.REQUEUING_LIMIT, message, now=now)
    if until.cause == PodsReadyReason.WAIT_FOR_RECOVERY:
        message = f"Pods were not ready again within {policy.recovery_timeout:g} seconds"
    else:
        message = f"Not all pods were ready within {policy.timeout:g} seconds"
    after = evicted(
        workload, EvictionReason.PODS_READY_TIMEOUT, message, now=now, cause=until.cause
    )
    # Stored in whole seconds: rounded up, so that it is never too early.
    again_at = float(ceil(now + back_off(times, policy)))
    after = replace(after, requeue=RequeueInfo(times, again_at))
    return WorkloadStep(after, reason=EventReason.EVICTED, message=message)


def _time_limit(workload: WorkloadInfo, now: float) -> WorkloadStep | None:
    if workload.max_execution is None or not workload.admitted or workload.evicted:
        return None
    seconds = workload.past_execution + ran(workload, now)
    if seconds < workload.max_execution:
        return WorkloadStep(again=max(0.5, workload.max_execution - seconds))
    limit = workload.max_execution
    message = f"The workload exceeded its maximum execution time of {limit} seconds"
    return _targeted(workload, DeactivationCause.MAXIMUM_EXECUTION_TIME, message, now=now)


def _targeted(workload: WorkloadInfo, reason: str, message: str, *, now: float) -> WorkloadStep:
    """Set the condition that a workload is to be deactivated; the next step does it."""
    new = condition(WorkloadCondition.DEACTIVATION_TARGET, reason, message)
    return WorkloadStep(with_conditions(workload, now, new))


def _not_queued(workload: WorkloadInfo, view: QueueView, now: float) -> WorkloadStep | None:
    """Write to a workload that is in no queue why it is not."""
    found = standing(workload, view, now=now)
    if not isinstance(found, Absent) or found.reason is None:
        return None
    known = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    new = ("False", found.reason, found.message)
    if known is not None and (known.status, known.reason, known.message) == new:
        return None
    after = waiting(workload, found.reason, found.message, now=now)
    if found.reason is not Unadmitted.ADMISSION_GATED:
        return WorkloadStep(after)
    message = f"Workload admission is gated by: {workload.admission_gate}"
    return WorkloadStep(after, reason=found.reason, message=message)


def _ungated(workload: WorkloadInfo, _: QueueView, now: float) -> WorkloadStep | None:
    """Say that no controller holds a workload back from its queue any more."""
    known = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    if known is None or known.reason != Unadmitted.ADMISSION_GATED or workload.admission_gate:
        return None
    text = "AdmissionGatedBy cleared, waiting for quota reservation"
    after = waiting(workload, Unadmitted.PENDING_EVALUATION, text, now=now)
    message = "Admission gate cleared, workload is now admissible"
    return WorkloadStep(after, reason=GateReason.ADMISSION_GATE_CLEARED, message=message)


_RULES: Final[tuple[Callable[[WorkloadInfo, QueueView, float], WorkloadStep | None], ...]] = (
    _release,
    _deactivate,
    _stopped,
    _checked,
    _requeue,
    _ungated,
)


@dataclass(frozen=True, slots=True)
class ClassPriority:
    """A priority that a Workload takes from its class."""

    value: int
    note: str
    """The annotation `PRIORITY_TAKEN` beside it."""


def priority_to_take(workload: WorkloadInfo, view: QueueView) -> ClassPriority | None:
    """Return the priority that a Workload is to take; None where it has taken it already.

    A Workload keeps its priority where its class is gone, or where it has finished itself.

    Kueue writes a changed value into the Workloads of a class since 0.15.3
    (https://github.com/kubernetes-sigs/kueue/pull/8442). A priority set by hand is kept until the
    class changes, across restarts too, because an annotation keeps the value that was taken.
    """
    if workload.finished or workload.meta.terminating:
        return None
    name = workload.workload_priority_class
    found = view.workload_priority_classes.get(name) if name else None
    if found is None:
        return None
    note = value_taken(found.name, found.value)
    if workload.meta.annotations.get(PRIORITY_TAKEN) == note:
        return None
    return ClassPriority(found.value, note)
