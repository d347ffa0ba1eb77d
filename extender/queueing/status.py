"""The numbers in the status of a queue: how many workloads, and how much quota they use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from extender.state.queue.records import (
    ClusterQueueInfo,
    FlavorResource,
    LocalQueueInfo,
    WorkloadInfo,
    quotas_of,
)
from extender.state.queue.usage import Usage, usage
from extender.state.queue.view import QueueView


@dataclass(frozen=True, slots=True)
class Used:
    """How much of a resource of a flavor is used."""

    flavor: str
    resource: str
    total: int
    borrowed: int
    """How much of it exceeds the nominal quota of a ClusterQueue; a LocalQueue has none."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The numbers of one queue."""

    pending: int
    reserving: int
    admitted: int
    reservation: tuple[Used, ...]
    usage: tuple[Used, ...]
    """Of admitted workloads only."""


def cluster_queue_status(queue: ClusterQueueInfo, view: QueueView) -> QueueStatus:
    """Return the numbers of a ClusterQueue."""
    quotas = quotas_of(queue.resource_groups)
    nominal = {what: quota.nominal for what, quota in quotas.items()}
    waiting = chain.from_iterable(map(view.waiting_in, view.local_queues_of(queue.name)))
    borrows = queue.cohort is not None  # others' quota; without a cohort it has too much at most
    return _status(waiting, view.reserving(queue.name), nominal, view=view, borrows=borrows)


def local_queue_status(
    queue: LocalQueueInfo, view: QueueView, listed: Iterable[FlavorResource]
) -> QueueStatus:
    """Return the numbers of a LocalQueue; `listed` is what its ClusterQueue covers."""
    keys = view.waiting_in(queue.key)
    return _status(keys, keys, dict.fromkeys(listed, 0), view=view)


def _status(
    waiting: Iterable[str],
    reserving: Iterable[str],
    nominal: Mapping[FlavorResource, int],
    *,
    view: QueueView,
    borrows: bool = False,
) -> QueueStatus:
    held = [(view.workloads[key], view.admission(key)) for key in reserving]
    holders = [(workload, usage(each, workload)) for workload, each in held if each is not None]
    admitted = [(workload, taken) for workload, taken in holders if workload.admitted]
    return QueueStatus(
        pending=sum(view.workloads[k].active and view.admission(k) is None for k in waiting),
        reserving=len(holders),
        admitted=len(admitted),
        reservation=_used(holders, nominal, borrows=borrows),
        usage=_used(admitted, nominal, borrows=borrows),
    )


def _used(
    holders: Iterable[tuple[WorkloadInfo, Usage]],
    nominal: Mapping[FlavorResource, int],
    *,
    borrows: bool,
) -> tuple[Used, ...]:
    """Return one row for each flavor and resource with quota, in the order of the spec."""
    total: Usage = dict.fromkeys(nominal, 0)
    for _, taken in holders:
        for what, amount in taken.items():
            total[what] = total.get(what, 0) + amount
    return tuple(
        Used(*what, amount, max(0, amount - nominal.get(what, 0)) if borrows else 0)
        for what, amount in total.items()
    )
