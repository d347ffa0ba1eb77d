"""Finds the workloads that have waited so long for room that room is kept for them, in turn.

The condition `RoomReserved` of the workload is the memory: False since it waits for room, True
since room is kept for it. So another process comes to the same turns.
"""

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from itertools import islice, product
from typing import Final

from extender.api.reasons import Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.queueing.flavors import counts, unfit
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionRules, queue_order
from extender.queueing.status import activity, selects_namespace
from extender.resources.quantity import PODS
from extender.room.reserved import MOST, Aged, Choice
from extender.state.queue.records import (
    Assignment,
    ClusterQueueInfo,
    FlavorResource,
    Order,
    PodSetInfo,
    WorkloadInfo,
)
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps

_HAS_QUOTA: Final = frozenset((Unadmitted.WAITING_FOR_ROOM, Unadmitted.WAITING_FOR_PREEMPTED))

_Flavors = Mapping[str, str]


def keeping(
    view: QueueView, pending: PendingQueues, *, tree: QuotaTree, rules: AdmissionRules, now: float
) -> Steps[None]:
    """Have room kept for those that are due, where it is time to look; `now` since the epoch."""
    room, preemptors, period = rules.room, pending.preemptors, rules.options.aging
    if room is None or not period:
        return
    if not room.is_due(now, lambda key: pending.cluster_queue_of(key) is not None, period=period):
        return
    aged = yield from deciding(view, pending, tree=tree, rules=rules, now=now)
    yield from room.reserving(
        aged,
        order=lambda workload: queue_order(workload, rules.options),
        passing=[key for key in preemptors if preemptors.has_chosen(key)],
        now=now,
        period=period,
    )


def deciding(
    view: QueueView, pending: PendingQueues, *, tree: QuotaTree, rules: AdmissionRules, now: float
) -> Steps[list[Aged]]:
    """Return the workloads that have waited for long, first in turn first; `now` since the epoch.

    Workloads that no longer wait, or whose queue admits nothing, are left out. So are workloads
    that were just found to fit nowhere; otherwise, many of them could keep later workloads from
    being considered. There are at most twice as many as can have room kept, each with as many
    choices of flavors.
    """
    found, room = list[tuple[Order, float]](), rules.room
    for number, key in enumerate([*pending.waiting_for_room], 1):
        if number % PIECE == 0:
            yield
        workload = view.workloads.get(key)
        name = pending.cluster_queue_of(key)
        if workload is None or name is None or room is None or pending.is_backing_off(key):
            continue
        if key not in room.reserved and pending.equivalence(key) in room.never_fit:
            continue
        since = kept_since(workload, now=now, aging=rules.options.aging)
        queue = view.cluster_queues.get(name)
        if since is not None and tree.has(name) and rules.room_for(queue) is not None:
            found.append((pending.order(key), since))
    aged: list[Aged] = []
    for order, since in nsmallest(2 * MOST, found):
        yield
        key = order[-1]
        workload, name = view.workloads.get(key), pending.cluster_queue_of(key)
        queue = view.cluster_queues.get(name or "")
        if workload is None or queue is None or not _may_be_admitted(workload, queue, view):
            continue
        choices = tuple(islice(_choices(workload, queue, tree=tree, view=view), MOST))
        if choices:
            only_room, like = _lacks_only_room(workload), pending.equivalence(key)
            aged.append(Aged(workload, order, since, choices, only_room, like))
    return aged


def kept_since(workload: WorkloadInfo, *, now: float, aging: float) -> float | None:
    """Return since when room is or should be kept for a workload; None where it is not due."""
    said = workload.condition(WorkloadCondition.ROOM_RESERVED)
    if said is None or not aging:
        return None
    if said.status == "True":
        return min(said.transition, now)
    due = now - said.transition >= aging and _lacks_only_room(workload)
    return now if due else None


def _lacks_only_room(workload: WorkloadInfo) -> bool:
    said = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    return said is not None and said.status == "False" and said.reason in _HAS_QUOTA


def _may_be_admitted(workload: WorkloadInfo, queue: ClusterQueueInfo, view: QueueView) -> bool:
    return (
        activity(queue, view).active
        and selects_namespace(queue, workload.meta.namespace, view)
        and not any(each.fault for each in workload.pod_sets)
    )


def _choices(
    workload: WorkloadInfo, queue: ClusterQueueInfo, *, tree: QuotaTree, view: QueueView
) -> Iterator[Choice]:
    """Yield the flavors for all pods that the ClusterQueue could have quota of one day."""
    left, node = counts(workload), tree.queue(queue.name)
    by_set = [[*_flavors(each, queue, tree=tree, view=view)] for each in workload.pod_sets]
    for chosen in islice(product(*by_set), 4 * MOST):
        given: list[Assignment] = []
        total: dict[FlavorResource, int] = {}
        for pod_set, flavors in zip(workload.pod_sets, chosen, strict=True):
            count = left[pod_set.name]
            usage = {name: pod_set.shape.asked[name] * count for name in flavors}
            given.append(Assignment(pod_set.name, flavors, usage, count))
            for name, amount in usage.items():
                what = (flavors[name], name)
                total[what] = total.get(what, 0) + amount
        if all(amount <= node.potential(what) for what, amount in total.items() if amount):
            yield tuple(given)


def _flavors(
    pod_set: PodSetInfo, queue: ClusterQueueInfo, *, tree: QuotaTree, view: QueueView
) -> Iterator[_Flavors]:
    """Yield for each resource of a pod set the flavor: those of a group have the same one."""
    asked = {name for name, amount in pod_set.shape.asked.items() if amount or name != PODS}
    groups: list[list[_Flavors]] = []
    for number, group in enumerate(queue.resource_groups):
        names = [name for name in group.covered if name in asked]
        if not names:
            continue
        why_not = unfit(pod_set, queue, number, tree=tree, view=view)
        fit = [each.flavor for each, why in zip(group.flavors, why_not, strict=True) if why is None]
        groups.append([dict.fromkeys(names, flavor) for flavor in fit])
    for parts in product(*groups):
        yield {name: flavor for part in parts for name, flavor in part.items()}
