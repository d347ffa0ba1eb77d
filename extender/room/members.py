"""Which pods are a workload's.

Pods that were admitted say so themselves. Those of a job that was started before they did, and
those whose template could not be written to, are known by who makes them, or else by their group.
"""

from collections.abc import Collection, Iterator
from itertools import chain

from extender.jobs.gang import group_of
from extender.state.pods import PodInfo
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot


def members(
    workload: WorkloadInfo, *, queues: QueueSnapshot, cluster: Snapshot
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


def declared(workload: WorkloadInfo, cluster: Snapshot) -> Iterator[PodInfo]:
    """Yield the pods that say that they are a workload's."""
    return (cluster.pods[uid] for uid in cluster.of_workload(workload.key))


def ending(key: str, cluster: Snapshot) -> Iterator[PodInfo]:
    """Yield the pods that say that they are of a workload which is gone, and are being deleted."""
    pods = (cluster.pods[uid] for uid in cluster.of_workload(key))
    return (pod for pod in pods if pod.terminating)


def workloads_of(pod: PodInfo, queues: QueueSnapshot, cluster: Snapshot) -> Collection[str]:
    """Return the workloads that a pod is of, by what it says, or by who made it."""
    return (pod.workload,) if pod.workload is not None else _owners(pod, queues, cluster)


def _candidates(workload: WorkloadInfo, cluster: Snapshot) -> set[str]:
    owners = [owner.uid for owner in workload.owners]
    made = (job for owner in owners for job in cluster.made_by(owner))
    found = {uid for maker in chain(owners, made) for uid in cluster.controlled_by(maker)}
    found |= {uid for uid in owners if uid in cluster.pods}
    return found | cluster.tally(group_of(workload)).members.keys()


def _owners(pod: PodInfo, queues: QueueSnapshot, cluster: Snapshot) -> Collection[str]:
    """Return the workloads of the pod itself, of its controller, or of who made that one."""
    job = cluster.job(pod.controller) if pod.controller else None
    for uid in (pod.uid, pod.controller, job.maker if job else None):
        found = queues.workloads_of(uid, pod.namespace) if uid else ()
        if found:
            return found
    return ()
