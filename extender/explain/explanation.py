"""Everything about one workload that says why it is where it is."""

from collections.abc import Mapping
from typing import Final, Literal

from extender.api.visibility_v1beta2 import (
    Explanation,
    PodSetAsked,
    Position,
    TimedCondition,
    WaitingFor,
)
from extender.explain.facts import Facts, moment, owners_of
from extender.explain.outlook import Outlook, asking, fully, keeping_room, looks_at_nodes
from extender.explain.quotas import rows
from extender.explain.running import nodes_of, pod_group_of
from extender.explain.waiting_for import Lacks
from extender.queueing.flavors import counts
from extender.resources.quantity import PODS, exact
from extender.state.queue.records import AdmissionInfo, PodSetInfo, WorkloadInfo
from extender.steps import Steps

_State = Literal["Pending", "QuotaReserved", "Admitted", "Evicted", "Finished", "Terminating"]
_HELD: Final[tuple[_State, ...]] = ("Evicted", "Admitted", "QuotaReserved")
"""What a workload with quota is: the first of these conditions that holds."""


def look_at_nodes(key: str, facts: Facts) -> Steps[None]:
    """Ask the nodes in steps what the explanation of a workload asks of them.

    The facts's room has the answers. A later facts with that room needs no long look, unless quota
    has changed so that other questions are asked.
    """
    room = facts.rules.room
    if room is None or not looks_at_nodes(key, facts):
        return
    room.begin()
    for _ in room.prepare():
        if (yield) and not room.asking:
            room.look_again()
    yield from keeping_room(facts)
    yield from asking(key, facts)


def explain(key: str, facts: Facts) -> Explanation | None:
    """Return what there is to say of a workload, `namespace/name`; None where there is none."""
    workload = facts.queues.workloads.get(key)
    if workload is None:
        return None
    name = facts.queues.cluster_queue_of(workload)
    queue = facts.queues.cluster_queues.get(name) if name else None
    held = facts.queues.admission(key)
    state, reason, message, outlook = _state(workload, held, facts)
    places = facts.pending.position(key)
    klass = workload.priority_class
    alive = state not in ("Finished", "Terminating")
    return Explanation(
        namespace=workload.meta.namespace,
        name=workload.meta.name,
        owners=owners_of(workload),
        local_queue=workload.queue_name,
        cluster_queue=name,
        cohort=queue.cohort if queue else None,
        priority=workload.priority,
        priority_class=klass[2] if klass else None,
        created=moment(workload.meta.created),
        state=state,
        reason=reason,
        message=message,
        position_in_cluster_queue=_position(places[0]) if places else None,
        position_in_local_queue=_position(places[1]) if places else None,
        pod_sets=[_pod_set(each, workload, held) for each in workload.pod_sets],
        quotas=list(rows(workload, queue, held, facts=facts)) if queue and alive else [],
        waiting_for=_waiting_for(key, outlook, facts),
        notes=list(outlook.notes) if outlook else [],
        conditions=[
            TimedCondition(
                type=each.type,
                status=each.status,
                reason=each.reason,
                message=each.message,
                last_transition_time=moment(each.transition),
            )
            for each in sorted(workload.conditions, key=lambda each: each.transition)
        ],
        nodes=nodes_of(workload, facts) if held is not None else {},
        pod_group=pod_group_of(workload, facts),
    )


def _position(place: tuple[int, int]) -> Position:
    return Position(index=place[0], of=place[1])


def _state(
    workload: WorkloadInfo, held: AdmissionInfo | None, facts: Facts
) -> tuple[_State, str, str, Outlook | None]:
    if workload.meta.terminating:
        return "Terminating", "Deleted", "It is being deleted", None
    if workload.finished:
        return "Finished", *_said(workload, "Finished"), None
    if held is None:
        outlook = fully(workload, facts, Lacks(facts))
        return "Pending", outlook.reason, outlook.message, outlook
    for state in _HELD:
        if workload.holds(state):
            return state, *_said(workload, state), None
    return "QuotaReserved", "QuotaReserved", "Its quota is just being written", None


def _waiting_for(key: str, outlook: Outlook | None, facts: Facts) -> list[WaitingFor]:
    name = facts.pending.cluster_queue_of(key)
    return Lacks(facts).waiting_for(outlook.lacks, name) if outlook and name else []


def _said(workload: WorkloadInfo, kind: str) -> tuple[str, str]:
    found = workload.condition(kind)
    return (found.reason, found.message) if found else (kind, "")


def _pod_set(
    pod_set: PodSetInfo, workload: WorkloadInfo, held: AdmissionInfo | None
) -> PodSetAsked:
    given = next((x for x in held.assignments if x.name == pod_set.name), None) if held else None
    count = counts(workload)[pod_set.name]
    each = {name: amount for name, amount in pod_set.shape.asked.items() if name != PODS}
    return PodSetAsked(
        name=pod_set.name,
        count=count,
        each=_shown(each),
        total=_shown({name: amount * count for name, amount in each.items()}),
        flavors=dict(given.flavors) if given else {},
    )


def _shown(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: exact(name, amount) for name, amount in amounts.items()}
