"""What is told of a queue in its status: whether it works, its numbers, and how much is used."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.state.queues.records import (
    Admission,
    ClusterQueueInfo,
    FlavorResource,
    LocalQueueInfo,
    WorkloadInfo,
)
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.queues.usage import Usage, add, usage


@dataclass(frozen=True, slots=True)
class Used:
    """An amount of a resource of a flavor, and how much of it is borrowed."""

    flavor: str
    resource: str
    total: int
    borrowed: int = 0


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The numbers of one queue."""

    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    reservation: tuple[Used, ...] = ()
    usage: tuple[Used, ...] = field(default=())
    """Of admitted workloads alone."""


def cluster_queue_status(queue: ClusterQueueInfo, snapshot: QueueSnapshot) -> QueueStatus:
    """Return the numbers of a ClusterQueue."""
    nominal = {
        (quotas.flavor, resource): quota.nominal
        for group in queue.resource_groups
        for quotas in group.flavors
        for resource, quota in quotas.resources.items()
    }
    holders = [*_holders(snapshot.reserving(queue.name), snapshot)]
    return QueueStatus(
        pending=sum(
            _pending(snapshot.waiting_in(key), snapshot)
            for key in snapshot.local_queues_of(queue.name)
        ),
        reserving=len(holders),
        admitted=sum(workload.admitted for workload, _ in holders),
        reservation=_used(_sum(holders), nominal, borrowing=True),
        usage=_used(_sum(h for h in holders if h[0].admitted), nominal, borrowing=True),
    )


def local_queue_status(
    queue: LocalQueueInfo, snapshot: QueueSnapshot, listed: Sequence[FlavorResource]
) -> QueueStatus:
    """Return the numbers of a LocalQueue; `listed` is what its ClusterQueue has quota for."""
    everybody = snapshot.waiting_in(queue.key)
    holders = [*_holders(everybody, snapshot)]
    zero = dict.fromkeys(listed, 0)
    return QueueStatus(
        pending=_pending(everybody, snapshot),
        reserving=len(holders),
        admitted=sum(workload.admitted for workload, _ in holders),
        reservation=_used(_sum(holders), zero, borrowing=False),
        usage=_used(_sum(h for h in holders if h[0].admitted), zero, borrowing=False),
    )


def _pending(workloads: Collection[str], snapshot: QueueSnapshot) -> int:
    return sum(
        snapshot.workloads[key].active and snapshot.admission(key) is None for key in workloads
    )


def _holders(
    workloads: Iterable[str], snapshot: QueueSnapshot
) -> Iterable[tuple[WorkloadInfo, Admission]]:
    for key in workloads:
        held = snapshot.admission(key)
        if held is not None:
            yield snapshot.workloads[key], held


def _sum(holders: Iterable[tuple[WorkloadInfo, Admission]]) -> Usage:
    total: Usage = {}
    for workload, held in holders:
        add(total, usage(held, workload))
    return total


def _used(
    total: Usage, nominal: Mapping[FlavorResource, int], *, borrowing: bool
) -> tuple[Used, ...]:
    """Return one row for each flavor and resource with quota, in the order of the spec."""
    rows = (*nominal, *(key for key in total if key not in nominal))
    return tuple(
        Used(
            flavor,
            resource,
            total.get((flavor, resource), 0),
            max(0, total.get((flavor, resource), 0) - nominal.get((flavor, resource), 0))
            if borrowing
            else 0,
        )
        for flavor, resource in rows
    )
