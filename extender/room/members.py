"""Which pods are a workload's.

Pods that were admitted name their workload. Pods that do not, because their job started before or
their template could not be written to, are found by their controller, or else by their group.
"""

from collections.abc import Collection, Iterator
from itertools import chain

from extender.jobs.gang import pod_group_key
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView


def members(
    workload: WorkloadInfo, *, queues: QueueView, cluster: ClusterView
) -> Iterator[PodInfo]:
    """Yield the pods of a workload that there are."""
    yield from declared(workload, cluster)
    for uid in _candidates(workload, cluster):
        pod = cluster.pods[uid]
        if pod.workload is not None or pod.namespace != workload.meta.namespace:
            continue
        owners = _owners(pod, queues, cluster)
        if not owners or workload.key in owners:
            yield pod


def declared(workload: WorkloadInfo, cluster: ClusterView) -> Iterator[PodInfo]:
    """Yield the pods that name a workload as theirs."""
    return (cluster.pods[uid] for uid in cluster.of_workload(workload.key))


def ending(key: str, cluster: ClusterView) -> Iterator[PodInfo]:
    """Yield the pods that name a workload which is gone, and are being deleted."""
    pods = (cluster.pods[uid] for uid in cluster.of_workload(key))
    return (pod for pod in pods if pod.terminating)


def workloads_of(pod: PodInfo, queues: QueueView, cluster: ClusterView) -> Collection[str]:
    """Return the workloads that a pod is of: the one that it names, or those of its controller."""
    return (pod.workload,) if pod.workload is not None else _owners(pod, queues, cluster)


def _candidates(workload: WorkloadInfo, cluster: ClusterView) -> set[str]:
    owners = [owner.uid for owner in workload.owners]
    made = (job for owner in owners for job in cluster.made_by(owner))
    found = {uid for maker in chain(owners, made) for uid in cluster.controlled_by(maker)}
    found |= {uid for uid in owners if uid in cluster.pods}
    return found | cluster.tally(pod_group_key(workload)).members.keys()


def _owners(pod: PodInfo, queues: QueueView, cluster: ClusterView) -> Collection[str]:
    """Return the workloads of the pod itself, of its controller, or of the controller of that."""
    job = cluster.job(pod.controller) if pod.controller else None
    for uid in (pod.uid, pod.controller, job.maker if job else None):
        found = queues.workloads_of(uid, pod.namespace) if uid else ()
        if found:
            return found
    return ()
