"""The state of queues as users see it, and the reason why a workload is in no queue.

A queue is active or lacks something, has numbers of workloads, and quota in use.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from extender.api.core_v1 import matches_selector
from extender.api.reasons import Active, Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.queueing.quota import cohort_path
from extender.queueing.rules import AdmissionOptions
from extender.state.queue.records import (
    ClusterQueueInfo,
    FlavorResource,
    LocalQueueInfo,
    Usage,
    WorkloadInfo,
    group_unit,
    quotas_of,
    usage,
)
from extender.state.queue.view import QueueView

_CANNOT_ADMIT = "Can't admit new workloads"


@dataclass(frozen=True, slots=True)
class Activity:
    """The content of the condition `Active`."""

    active: bool
    reason: str
    message: str


def _on(message: str) -> Activity:
    return Activity(active=True, reason=Active.READY, message=message)


def _off(reason: Active, message: str) -> Activity:
    return Activity(active=False, reason=reason, message=message)


def activity(queue: ClusterQueueInfo, view: QueueView) -> Activity:
    """Return whether a ClusterQueue can admit; the first of several lacks gives the reason."""
    if queue.meta.terminating:
        return _off(Active.TERMINATING, f"{_CANNOT_ADMIT}; clusterQueue is terminating")
    lacks = list(_lacks(queue, view))
    if not lacks:
        return _on("Can admit new workloads")
    return _off(lacks[0][0], f"{_CANNOT_ADMIT}: {', '.join(text for _, text in lacks)}.")


def local_activity(queue: LocalQueueInfo, view: QueueView) -> Activity:
    """Return whether a LocalQueue leads to a ClusterQueue that can admit."""
    cluster_queue = view.cluster_queues.get(queue.cluster_queue)
    if queue.stop_policy != "None":
        return _off(Active.STOPPED, "LocalQueue is stopped")
    if cluster_queue is None:
        text = f"there is no ClusterQueue {queue.cluster_queue}"
        return _off(Active.CLUSTER_QUEUE_DOES_NOT_EXIST, f"Can't submit new workloads: {text}")
    beyond = activity(cluster_queue, view)
    if not beyond.active:
        text = f"ClusterQueue {cluster_queue.name} is not active ({beyond.reason})"
        return _off(Active.CLUSTER_QUEUE_IS_INACTIVE, f"Can't submit new workloads: {text}")
    return _on("Can submit new workloads to localQueue")


def _lacks(queue: ClusterQueueInfo, view: QueueView) -> Iterator[tuple[Active, str]]:
    if queue.stop_policy != "None":
        yield Active.STOPPED, "is stopped"
    names = queue.flavors
    missing = [name for name in names if name not in view.flavors]
    if missing:
        text = f"references missing ResourceFlavor(s): {','.join(missing)}"
        yield Active.FLAVOR_NOT_FOUND, text
    flavors = [view.flavors[name] for name in names if name in view.flavors]
    named = [flavor.topology for flavor in flavors if flavor.topology]
    topologies = [name for name in dict.fromkeys(named) if name not in view.topologies]
    if topologies:
        text = f"references missing Topology(ies): {','.join(topologies)}"
        yield Active.TOPOLOGY_NOT_FOUND, text
    named = [each.name for each in queue.admission_checks]
    missing = [name for name in named if name not in view.admission_checks]
    if missing:
        yield Active.CHECK_NOT_FOUND, f"references missing AdmissionCheck(s): {','.join(missing)}"
    known = (name for name in named if name in view.admission_checks)
    inactive = [name for name in known if not view.admission_checks[name].active]
    if inactive:
        text = f"references inactive AdmissionCheck(s): {','.join(inactive)}"
        yield Active.CHECK_INACTIVE, text
    if cohort_path(queue.cohort, view.cohorts) is None:
        yield Active.UNKNOWN, f"cohort {queue.cohort} is among its own parents"


@dataclass(frozen=True, slots=True)
class Absent:
    """A workload that is not queued; it has no reason if it has quota, has finished or is gone."""

    reason: Unadmitted | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """It waits in a ClusterQueue, and backs off `until` a time, or until its condition changes."""

    cluster_queue: str
    backing_off: bool = False
    until: float | None = None


_NOWHERE = Absent()
_CLAIMS_REFUSED: Final = (
    "DRA resource claims not supported: quota counts none of the devices of spec.resourceClaims. "
    "Remove the claims, or have an administrator set queue.resourceClaims to Ignore"
)


def is_orphan(workload: WorkloadInfo, view: QueueView) -> bool:
    """Return whether a workload outlives its job; other pods of a group can still take it over."""
    group = view.size(group_unit(workload.key)) if workload.is_of_pods else 0
    return workload.lost_owners and not group


def standing(workload: WorkloadInfo, view: QueueView, *, now: float) -> Queued | Absent:
    """Return where a workload waits, or why it does not."""
    if workload.meta.terminating or workload.finished or is_orphan(workload, view):
        return _NOWHERE
    if view.admission(workload.key) is not None:
        return _NOWHERE
    found = _held_back(workload) or _queue(workload, view)
    return found if isinstance(found, Absent) else _queued(workload, found.name, now)


def _held_back(workload: WorkloadInfo) -> Absent | None:
    """Return what keeps a workload out of every queue."""
    if workload.unreadable:
        return Absent(Unadmitted.MISCONFIGURED, workload.unreadable)
    if not workload.active:
        return Absent(Unadmitted.DEACTIVATED, "The workload is deactivated")
    if workload.admission_gate:
        text = f"Admission is gated by: {workload.admission_gate}"
        return Absent(Unadmitted.ADMISSION_GATED, text)
    blocked = workload.condition(WorkloadCondition.START_BLOCKED)
    if blocked is None:
        return None
    missing = blocked.reason == Unadmitted.WAITING_FOR_PODS
    reason = Unadmitted.WAITING_FOR_PODS if missing else Unadmitted.MISCONFIGURED
    return Absent(reason, blocked.message)


def _queue(workload: WorkloadInfo, view: QueueView) -> ClusterQueueInfo | Absent:
    queue = view.local_queues.get(workload.queue)
    if queue is None:
        name = workload.queue_name
        text = f"LocalQueue {name} doesn't exist" if name else "The workload names no LocalQueue"
        return Absent(Unadmitted.MISCONFIGURED, text)
    if queue.stop_policy != "None" or queue.meta.terminating:
        return Absent(Unadmitted.SUSPENDED, f"LocalQueue {queue.meta.name} is inactive")
    found = view.cluster_queues.get(queue.cluster_queue)
    if found is None:
        text = f"ClusterQueue {queue.cluster_queue} doesn't exist"
        return Absent(Unadmitted.MISCONFIGURED, text)
    if found.stop_policy != "None" or found.meta.terminating:
        return Absent(Unadmitted.SUSPENDED, f"ClusterQueue {found.name} is inactive")
    return found


def _queued(workload: WorkloadInfo, cluster_queue: str, now: float) -> Queued:
    requeued = workload.condition(WorkloadCondition.REQUEUED)
    if requeued is not None and requeued.status == "False":
        return Queued(cluster_queue, backing_off=True)
    until = workload.requeue.at if workload.requeue else None
    if until is None or until <= now:
        return Queued(cluster_queue)
    return Queued(cluster_queue, backing_off=True, until=until)


def pod_set_fault(workload: WorkloadInfo, options: AdmissionOptions) -> str:
    """Return why a pod set of a workload cannot have quota, or an empty text."""
    for each in workload.pod_sets:
        if each.resource_claims and options.resource_claims == "Refuse":
            return f"pod set {each.name}: {_CLAIMS_REFUSED}"
        if each.topology is not None and each.topology.fault:
            return f"topologyRequest of pod set {each.name}: {each.topology.fault}"
        if each.fault:
            return f"no pod of pod set {each.name} could be made: {each.fault}"
    return ""


def namespace_mismatch(namespace: str, queue: ClusterQueueInfo) -> str:
    """Return the message about a namespace that a ClusterQueue does not select.

    It begins as Kueue's does, because tools match on that.
    """
    return (
        f"namespace {namespace} doesn't match ClusterQueue selector: spec.namespaceSelector of "
        f"{queue.name} does not select it ({{}} selects every namespace, no selector selects none)"
    )


def selects_namespace(queue: ClusterQueueInfo, namespace: str, view: QueueView) -> bool:
    """Return whether a ClusterQueue admits workloads of a namespace."""
    found = view.namespaces.get(namespace)
    return found is not None and matches_selector(queue.namespace_selector, found.labels)


@dataclass(frozen=True, slots=True)
class Used:
    """The usage of a resource of a flavor."""

    flavor: str
    resource: str
    total: int
    borrowed: int
    """The part that exceeds the nominal quota of a ClusterQueue; 0 for a LocalQueue."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The numbers of one queue."""

    pending: int
    reserving: int
    admitted: int
    reservation: tuple[Used, ...]
    usage: tuple[Used, ...]
    """The usage of admitted workloads only."""


def cluster_queue_status(queue: ClusterQueueInfo, view: QueueView) -> QueueStatus:
    """Return the numbers of a ClusterQueue."""
    quotas = quotas_of(queue.resource_groups)
    nominal = {what: quota.nominal for what, quota in quotas.items()}
    waiting = chain.from_iterable(map(view.waiting_in, view.local_queues_of(queue.name)))
    borrows = queue.cohort is not None  # others' quota; without a cohort it has too much at most
    return _status(waiting, view.reserving(queue.name), nominal, view=view, borrows=borrows)


def local_queue_status(
    queue: LocalQueueInfo, view: QueueView, listed: Iterable[FlavorResource]
) -> QueueStatus:
    """Return the numbers of a LocalQueue; `listed` is what its ClusterQueue covers."""
    keys = view.waiting_in(queue.key)
    return _status(keys, keys, dict.fromkeys(listed, 0), view=view)


def _status(
    waiting: Iterable[str],
    reserving: Iterable[str],
    nominal: Mapping[FlavorResource, int],
    *,
    view: QueueView,
    borrows: bool = False,
) -> QueueStatus:
    held = [(view.workloads[key], view.admission(key)) for key in reserving]
    holders = [(workload, usage(each, workload)) for workload, each in held if each is not None]
    admitted = [(workload, taken) for workload, taken in holders if workload.admitted]
    return QueueStatus(
        pending=sum(view.workloads[k].active and view.admission(k) is None for k in waiting),
        reserving=len(holders),
        admitted=len(admitted),
        reservation=_used(holders, nominal, borrows=borrows),
        usage=_used(admitted, nominal, borrows=borrows),
    )


def _used(
    holders: Iterable[tuple[WorkloadInfo, Usage]],
    nominal: Mapping[FlavorResource, int],
    *,
    borrows: bool,
) -> tuple[Used, ...]:
    """Return one row for each flavor and resource with quota, in the order of the spec."""
    total: Usage = dict.fromkeys(nominal, 0)
    for _, taken in holders:
        for what, amount in taken.items():
            total[what] = total.get(what, 0) + amount
    return tuple(
        Used(*what, amount, max(0, amount - nominal.get(what, 0)) if borrows else 0)
        for what, amount in total.items()
    )
