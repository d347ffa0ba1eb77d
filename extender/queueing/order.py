"""Who is first: in a ClusterQueue, and among the heads of a cycle."""

from extender.queueing.options import Options
from extender.state.queues.records import WorkloadInfo

Order = tuple[int, float, int, str, str]
"""Lowest first: priority negated, time, arrival, UID, `namespace/name`.

The API server's times are whole seconds: within one second the arrival decides.
"""

CycleOrder = tuple[int, int, float, int, str, str]
"""Lowest first: how far it borrows, then as in a queue."""


def queue_time(workload: WorkloadInfo, options: Options) -> float:
    """Return since when a workload waits in the sense of the queue, in seconds since the epoch.

    Who lost its quota to others keeps its place. Whose pods did not become ready goes to the end.
    """
    evicted = workload.condition("Evicted")
    if evicted is not None and evicted.status == "True":
        late = evicted.reason == "PodsReadyTimeout" and options.requeuing_timestamp == "Eviction"
        if late or evicted.reason == "AdmissionCheck":
            return evicted.transition
    return workload.meta.created


def queue_order(workload: WorkloadInfo, options: Options) -> Order:
    """Return what the workloads of a ClusterQueue are sorted by."""
    time = queue_time(workload, options)
    return -workload.priority, time, workload.arrival, workload.meta.uid, workload.key


def cycle_order(borrow: int, order: Order) -> CycleOrder:
    """Return what the heads of a cycle are sorted by: who stays within its quota goes first."""
    return borrow, *order
