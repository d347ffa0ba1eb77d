"""Whether a queue can admit at all, and what it lacks."""

from collections.abc import Iterator
from dataclasses import dataclass

from extender.api.queue_reasons import Active
from extender.queueing.cohorts import path
from extender.state.queues.records import ClusterQueueInfo, LocalQueueInfo
from extender.state.queues.snapshot import QueueSnapshot

_CANNOT_ADMIT = "Can't admit new workloads"


@dataclass(frozen=True, slots=True)
class Activity:
    """What the condition `Active` says."""

    active: bool
    reason: str
    message: str


_READY = Activity(active=True, reason=Active.READY, message="Can admit new workloads")
_READY_LOCALLY = Activity(
    active=True, reason=Active.READY, message="Can submit new workloads to localQueue"
)


def activity(queue: ClusterQueueInfo, snapshot: QueueSnapshot) -> Activity:
    """Return whether a ClusterQueue can admit; of several lacks the first gives the reason."""
    if queue.meta.terminating:
        text = f"{_CANNOT_ADMIT}; clusterQueue is terminating"
        return Activity(active=False, reason=Active.TERMINATING, message=text)
    lacks = list(_lacks(queue, snapshot))
    if not lacks:
        return _READY
    text = f"{_CANNOT_ADMIT}: {', '.join(text for _, text in lacks)}."
    return Activity(active=False, reason=lacks[0][0], message=text)


def local_activity(queue: LocalQueueInfo, snapshot: QueueSnapshot) -> Activity:
    """Return whether a LocalQueue leads to somewhere that admits."""
    cluster_queue = snapshot.cluster_queues.get(queue.cluster_queue)
    if queue.stop_policy != "None":
        return _off(Active.STOPPED, "LocalQueue is stopped")
    if cluster_queue is None:
        text = f"there is no ClusterQueue {queue.cluster_queue}"
        return _off(Active.CLUSTER_QUEUE_DOES_NOT_EXIST, f"Can't submit new workloads: {text}")
    beyond = activity(cluster_queue, snapshot)
    if not beyond.active:
        text = f"ClusterQueue {cluster_queue.name} is not active ({beyond.reason})"
        return _off(Active.CLUSTER_QUEUE_IS_INACTIVE, f"Can't submit new workloads: {text}")
    return _READY_LOCALLY


def _off(reason: Active, message: str) -> Activity:
    return Activity(active=False, reason=reason, message=message)


def _lacks(queue: ClusterQueueInfo, snapshot: QueueSnapshot) -> Iterator[tuple[Active, str]]:
    if queue.stop_policy != "None":
        yield Active.STOPPED, "is stopped"
    names = [quotas.flavor for group in queue.resource_groups for quotas in group.flavors]
    missing = [name for name in names if name not in snapshot.flavors]
    if missing:
        text = f"references missing ResourceFlavor(s): {','.join(missing)}"
        yield Active.FLAVOR_NOT_FOUND, text
    flavors = [snapshot.flavors[name] for name in names if name in snapshot.flavors]
    topologies = [flavor.topology for flavor in flavors if flavor.topology]
    if topologies:
        text = f"references missing Topology(ies): {','.join(dict.fromkeys(topologies))}"
        yield Active.TOPOLOGY_NOT_FOUND, text
    if queue.admission_checks:
        text = f"references missing AdmissionCheck(s): {','.join(queue.admission_checks)}"
        yield Active.CHECK_NOT_FOUND, text
    if path(queue.cohort, snapshot.cohorts) is None:
        yield Active.UNKNOWN, f"cohort {queue.cohort} is among its own parents"
