"""A view of what `Admissions` has, and workloads with quota."""

from extender.explain.view import View, Why
from extender.queueing.quota import QuotaTree
from extender.room.nodes import NodeRoom
from extender.state.cluster import Cluster
from extender.state.queues.records import WorkloadInfo
from tests.queue_makers import Admissions, admission, condition, workload


def view(queues: Admissions, *, why: Why = lambda _: None, cluster: Cluster | None = None) -> View:
    return View(
        queues.snapshot,
        queues.pending,
        QuotaTree(queues.snapshot),
        queues.options,
        (cluster or Cluster()).snapshot(),
        queues.now,
        why,
        NodeRoom(queues.snapshot, (cluster or Cluster()).snapshot()),
    )


def holding(name: str, cpu: int, queue: str = "cq", **more: object) -> WorkloadInfo:
    """Return a workload with quota."""
    asks = workload(name, cpu, queue, **more)  # type: ignore[arg-type]
    conditions = (condition("QuotaReserved", at=100), condition("Admitted", at=100))
    return workload(
        name,
        cpu,
        queue,
        admission=admission(asks, queue),
        conditions=conditions,
        **more,  # type: ignore[arg-type]
    )
