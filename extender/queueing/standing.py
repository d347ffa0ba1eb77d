"""Whether a workload may stand in a queue at all, and in which."""

from dataclasses import dataclass

from extender.api.queue_reasons import Unadmitted
from extender.api.selectors import matches_selector
from extender.state.queues.records import ClusterQueueInfo, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot


@dataclass(frozen=True, slots=True)
class Absent:
    """Not queued. No reason: nobody needs to be told why, it has what it wanted, or is gone."""

    reason: Unadmitted | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """It waits in a ClusterQueue; `until` a time, or for its condition, it may not be tried."""

    cluster_queue: str
    backing_off: bool = False
    until: float | None = None


_NOWHERE = Absent()


def standing(workload: WorkloadInfo, snapshot: QueueSnapshot, *, now: float) -> Queued | Absent:
    """Return where a workload waits, or why it does not."""
    if workload.meta.terminating or workload.finished:
        return _NOWHERE
    if snapshot.admission(workload.key) is not None:
        return _NOWHERE
    if workload.unreadable:
        return Absent(Unadmitted.MISCONFIGURED, workload.unreadable)
    if not workload.active:
        return Absent(Unadmitted.DEACTIVATED, "The workload is deactivated")
    found = _queue(workload, snapshot)
    return found if isinstance(found, Absent) else _queued(workload, found.name, now)


def _queue(workload: WorkloadInfo, snapshot: QueueSnapshot) -> ClusterQueueInfo | Absent:
    queue = snapshot.local_queues.get(workload.queue)
    if queue is None:
        name = workload.queue_name
        text = f"LocalQueue {name} doesn't exist" if name else "It names no LocalQueue"
        return Absent(Unadmitted.MISCONFIGURED, text)
    if queue.stop_policy != "None" or queue.meta.terminating:
        return Absent(Unadmitted.SUSPENDED, f"LocalQueue {queue.meta.name} is inactive")
    found = snapshot.cluster_queues.get(queue.cluster_queue)
    if found is None:
        text = f"ClusterQueue {queue.cluster_queue} doesn't exist"
        return Absent(Unadmitted.MISCONFIGURED, text)
    if found.stop_policy != "None" or found.meta.terminating:
        return Absent(Unadmitted.SUSPENDED, f"ClusterQueue {found.name} is inactive")
    return found


def _queued(workload: WorkloadInfo, cluster_queue: str, now: float) -> Queued:
    requeued = workload.condition("Requeued")
    if requeued is not None and requeued.status == "False":
        return Queued(cluster_queue, backing_off=True)
    until = workload.requeue.at if workload.requeue else None
    return Queued(cluster_queue, backing_off=until is not None and until > now, until=until)


def is_welcome(namespace: str, queue: ClusterQueueInfo, snapshot: QueueSnapshot) -> bool:
    """Return whether a ClusterQueue's selector takes workloads of a namespace."""
    found = snapshot.namespaces.get(namespace)
    return found is not None and matches_selector(queue.namespace_selector, found.labels)
