"""Whether a queue can admit workloads, and what it lacks."""

from collections.abc import Iterator
from dataclasses import dataclass

from extender.api.reasons import Active
from extender.queueing.cohorts import path
from extender.state.queue.records import ClusterQueueInfo, LocalQueueInfo
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
    if queue.admission_checks:
        text = (
            f"references missing AdmissionCheck(s): {','.join(queue.admission_checks)} (this "
            "version has no admission checks: remove spec.admissionChecksStrategy)"
        )
        yield Active.CHECK_NOT_FOUND, text
    if path(queue.cohort, view.cohorts) is None:
        yield Active.UNKNOWN, f"cohort {queue.cohort} is among its own parents"
