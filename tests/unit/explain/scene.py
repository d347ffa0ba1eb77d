"""Facts about what `Admissions` has, and workloads with quota."""

from collections.abc import Callable

from extender.explain.facts import Facts
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionRules
from extender.room.nodes import NodeRoom
from extender.state.cluster.store import Cluster
from extender.state.queue.records import WorkloadInfo
from tests.queue_makers import Admissions, admission, condition, workload


def facts(
    queues: Admissions,
    *,
    why: Callable[[str], tuple[str, str] | None] = lambda _: None,
    cluster: Cluster | None = None,
) -> Facts:
    return Facts(
        queues.view,
        queues.pending,
        QuotaTree(queues.view),
        AdmissionRules(queues.options, NodeRoom(queues.view, (cluster or Cluster()).view())),
        (cluster or Cluster()).view(),
        queues.now,
        why,
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
