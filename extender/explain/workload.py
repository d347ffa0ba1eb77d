"""Explains one workload: why it is where it is."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Final, Literal

import msgspec

from extender.api.explanations import (
    Explanation,
    FlavorQuota,
    GroupProgress,
    PodSetAsked,
    Position,
)
from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS, WorkloadCondition
from extender.explain.facts import Facts, moment, owners_of, timed
from extender.explain.outlook import Lacks, Outlook, asking, fully, keeping_room, looks_at_nodes
from extender.queueing.flavors import counts, unfit
from extender.resources.quantity import PODS, Resources, add, exact
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import (
    AdmissionInfo,
    ClusterQueueInfo,
    FlavorResource,
    PodSetInfo,
    WorkloadInfo,
    usage,
)
from extender.steps import Steps

_State = Literal["Pending", "QuotaReserved", "Admitted", "Evicted", "Finished", "Terminating"]
_HELD: Final[tuple[_State, ...]] = ("Evicted", "Admitted", "QuotaReserved")
"""The states of a workload with quota: the first of these conditions that holds."""


def look_at_nodes(key: str, facts: Facts) -> Steps[None]:
    """Ask the nodes in steps what the explanation of a workload asks of them.

    The answers stay in the room of the facts. Later facts with the same room need no long look,
    unless quota has changed so that other questions are asked.
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
    held, lacks = facts.queues.admission(key), Lacks(facts)
    state, reason, message, outlook = _state(workload, held, facts, lacks=lacks)
    waits_in = facts.pending.cluster_queue_of(key)
    places = facts.pending.position(key)
    inside, beside = (Position(index=x, of=of) for x, of in places) if places else (None, None)
    alive = state not in ("Finished", "Terminating")
    group = _group(workload)
    return Explanation(
        namespace=workload.meta.namespace,
        name=workload.meta.name,
        owners=owners_of(workload),
        local_queue=workload.queue_name,
        cluster_queue=name,
        cohort=queue.cohort if queue else None,
        priority=workload.priority,
        priority_class=workload.priority_class[2] if workload.priority_class else None,
        created=moment(workload.meta.created),
        state=state,
        reason=reason,
        message=message,
        position_in_cluster_queue=inside,
        position_in_local_queue=beside,
        pod_sets=[_pod_set(each, workload, held) for each in workload.pod_sets],
        quotas=[*_quotas(workload, queue, held, facts=facts)] if queue and alive else [],
        waiting_for=lacks.waiting_for(outlook.lacks, waits_in) if outlook and waits_in else [],
        notes=[*(outlook.notes if outlook else ()), *_checks(workload, state)],
        conditions=[*map(timed, sorted(workload.conditions, key=lambda each: each.transition))],
        nodes=_nodes(workload, group, facts.cluster) if held is not None else {},
        pod_group=_progress(group, facts.cluster),
    )


def _state(
    workload: WorkloadInfo, held: AdmissionInfo | None, facts: Facts, *, lacks: Lacks
) -> tuple[_State, str, str, Outlook | None]:
    """Return the state of a workload, the reason and a sentence, and the outlook if it waits."""
    if workload.meta.terminating:
        return "Terminating", "Deleted", "It is being deleted", None
    if held is None and not workload.finished:
        outlook = fully(workload, facts, lacks)
        return "Pending", outlook.reason, outlook.message, outlook
    waits = workload.condition(WorkloadCondition.ADMITTED)
    if held is not None and held.reserved_only and waits is not None and not workload.evicted:
        return "QuotaReserved", waits.reason, waits.message, None
    for state in ("Finished",) if workload.finished else _HELD:
        condition = workload.condition(state)
        if workload.finished or workload.holds(state):
            reason, message = (condition.reason, condition.message) if condition else (state, "")
            return state, reason, message, None
    return "QuotaReserved", "QuotaReserved", "Its quota is just being written", None


def _checks(workload: WorkloadInfo, state: _State) -> Iterator[str]:
    """Yield a sentence about each admission check of a workload with quota."""
    for each in workload.checks if state in _HELD else ():
        said = f": {each.message}" if each.message else ""
        yield f"admission check {each.name} is {each.state}{said}"


def _pod_set(
    pod_set: PodSetInfo, workload: WorkloadInfo, held: AdmissionInfo | None
) -> PodSetAsked:
    given = next((x for x in held.assignments if x.name == pod_set.name), None) if held else None
    count = counts(workload)[pod_set.name]
    each = {name: amount for name, amount in pod_set.shape.asked.items() if name != PODS}
    return PodSetAsked(
        name=pod_set.name,
        count=count,
        each={name: exact(name, amount) for name, amount in each.items()},
        total={name: exact(name, amount * count) for name, amount in each.items()},
        flavors=dict(given.flavors) if given else {},
    )


def _quotas(
    workload: WorkloadInfo, queue: ClusterQueueInfo, held: AdmissionInfo | None, *, facts: Facts
) -> Iterator[FlavorQuota]:
    """Yield what there is of each flavor that it has, or that its queue could give it."""
    if held is not None:
        for what, amount in usage(held, workload).items():
            yield _quota(queue, what, amount, facts=facts, has=True)
        return
    left, asked = counts(workload), Resources()
    for each in workload.pod_sets:
        add(asked, {name: amount * left[each.name] for name, amount in each.shape.asked.items()})
    for number, group in enumerate(queue.resource_groups):
        wanted = [name for name in group.covered if asked.get(name)]
        for index, name in product(range(len(group.flavors)), wanted):
            faults = (
                unfit(each, queue, number, tree=facts.tree, view=facts.queues)[index]
                for each in workload.pod_sets
            )
            why = next((fault for fault in faults if fault is not None), None)
            what = (group.flavors[index].flavor, name)
            yield _quota(queue, what, asked[name], why=why, facts=facts)


def _quota(
    queue: ClusterQueueInfo,
    what: FlavorResource,
    asked: int,
    *,
    facts: Facts,
    why: str | None = None,
    has: bool = False,
) -> FlavorQuota:
    """Return the quota of a flavor; `why` is why the workload's pods may not use it."""
    flavor, resource = what
    node = facts.tree.queue(queue.name)
    quota, available = node.quota(what), max(0, node.available(what))
    limit = quota.borrowing_limit
    return FlavorQuota(
        flavor=flavor,
        resource=resource,
        asked=exact(resource, asked),
        nominal=exact(resource, quota.nominal),
        borrowing_limit=None if limit is None else exact(resource, limit),
        used=exact(resource, node.usage.get(what, 0)),
        available=exact(resource, available),
        missing=exact(resource, 0 if has else max(0, asked - available)),
        unfit=why,
    )


def _group(workload: WorkloadInfo) -> str | None:
    """Return the `namespace/name` of the PodGroup that its pod templates name."""
    for each in workload.pod_sets:
        template = msgspec.json.decode(each.template) if each.template else {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        name = labels.get(POD_GROUP_LABEL) or labels.get(POD_GROUP_LABEL_SIGS)
        if name:
            return f"{workload.meta.namespace}/{name}"
    return None


def _nodes(workload: WorkloadInfo, group: str | None, cluster: ClusterView) -> dict[str, int]:
    """Return how many pods each node has: those that it owns, its job made, or its group has."""
    owners = {owner.uid for owner in workload.owners}
    uids = {uid for owner in owners for uid in cluster.controlled_by(owner)}
    uids |= owners & cluster.pods.keys()
    uids |= cluster.tally(group).members.keys() if group else set()
    pods = [cluster.pods[uid] for uid in uids]
    namespace = workload.meta.namespace
    names = Counter(pod.node for pod in pods if pod.node and pod.namespace == namespace)
    return {name: names[name] for name in sorted(names)}


def _progress(group: str | None, cluster: ClusterView) -> GroupProgress | None:
    """Return how far the PodGroup of a workload's pods is, if they have one."""
    found = cluster.pod_group(group) if group else None
    if found is None:
        return None
    return GroupProgress(
        name=found.name,
        phase=found.status.phase,
        min_member=found.min_member,
        scheduled=found.status.scheduled,
        running=found.status.running,
    )
