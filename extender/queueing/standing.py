"""Whether a workload waits for quota, and in which ClusterQueue."""

from dataclasses import dataclass
from typing import Final

from extender.api.reasons import Unadmitted
from extender.api.selectors import matches_selector
from extender.api.wellknown import WorkloadCondition
from extender.queueing.options import AdmissionOptions
from extender.state.queue.records import ClusterQueueInfo, WorkloadInfo, group_unit
from extender.state.queue.view import QueueView


@dataclass(frozen=True, slots=True)
class Absent:
    """Not queued; without a reason where it has quota, has finished or is gone."""

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
