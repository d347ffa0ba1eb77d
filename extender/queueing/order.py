"""The order of workloads: in a ClusterQueue, and among the heads of a cycle."""

from extender.api.reasons import EvictionReason
from extender.api.wellknown import WorkloadCondition
from extender.queueing.options import AdmissionOptions
from extender.state.queue.records import WorkloadInfo

Order = tuple[int, float, int, str, str]
"""Lowest first: negated priority, time, arrival, UID, `namespace/name`.

The API server stores whole seconds, so the arrival decides within one second.
"""

CycleOrder = tuple[int, int, float, int, str, str]
"""Lowest first: how far up the tree it borrows, then as in a ClusterQueue."""


def queue_time(workload: WorkloadInfo, options: AdmissionOptions) -> float:
    """Return the time by which a workload is queued, in seconds since the epoch.

    A preempted workload keeps its place. One whose pods did not become ready goes to the end.
    """
    evicted = workload.condition(WorkloadCondition.EVICTED)
    if evicted is not None and evicted.status == "True":
        timed_out = (
            evicted.reason == EvictionReason.PODS_READY_TIMEOUT
            and options.requeuing_timestamp == "Eviction"
        )
        if timed_out or evicted.reason == "AdmissionCheck":
            return evicted.transition
    return workload.meta.created


def queue_order(workload: WorkloadInfo, options: AdmissionOptions) -> Order:
    """Return what the workloads of a ClusterQueue are sorted by."""
    time = queue_time(workload, options)
    return -workload.priority, time, workload.arrival, workload.meta.uid, workload.key


def cycle_order(borrow: int, order: Order) -> CycleOrder:
    """Return what the heads of a cycle are sorted by: those within their quota come first."""
    return borrow, *order
