"""Gauges of queues and their usage: computed from the state on request, on the leader only."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.queueing.active import activity
from extender.queueing.pending import PendingQueues
from extender.queueing.status import Used, cluster_queue_status, local_queue_status
from extender.resources.quantity import CPU
from extender.state.queue.records import (
    ClusterQueueInfo,
    FlavorResource,
    LocalQueueInfo,
    Quota,
    quotas_of,
)
from extender.state.queue.view import QueueView

_QUEUE: Final = ["cluster_queue"]
_LOCAL: Final = ["name", "namespace"]
_AMOUNT: Final = ["cohort", "cluster_queue", "flavor", "resource"]
_STATES: Final = ("pending", "active", "terminating")
_FAMILIES: Final[Mapping[str, tuple[str, list[str]]]] = {
    "pending_workloads": (
        "Workloads that wait, by status: active ones are tried, inadmissible ones wait for a "
        "change.",
        [*_QUEUE, "status"],
    ),
    "reserving_active_workloads": ("Workloads that have quota and have not finished.", _QUEUE),
    "admitted_active_workloads": ("Workloads that are admitted and have not finished.", _QUEUE),
    "cluster_queue_status": (
        "1 for the status that a ClusterQueue has: pending, active or terminating.",
        [*_QUEUE, "status"],
    ),
    "cluster_queue_resource_reservation": (
        "Quota that workloads have, in cores, bytes or units.",
        _AMOUNT,
    ),
    "cluster_queue_resource_usage": (
        "Quota that admitted workloads have, in cores, bytes or units.",
        _AMOUNT,
    ),
    "cluster_queue_nominal_quota": ("Nominal quota of a ClusterQueue.", _AMOUNT),
    "cluster_queue_borrowing_limit": (
        "How much a ClusterQueue may borrow, where that is limited.",
        _AMOUNT,
    ),
    "cluster_queue_lending_limit": (
        "How much a ClusterQueue lends, where that is limited.",
        _AMOUNT,
    ),
    "local_queue_pending_workloads": (
        "Workloads of a LocalQueue that wait, by status.",
        [*_LOCAL, "status"],
    ),
    "local_queue_reserving_active_workloads": (
        "Workloads of a LocalQueue that have quota and have not finished.",
        _LOCAL,
    ),
    "local_queue_admitted_active_workloads": (
        "Workloads of a LocalQueue that are admitted and have not finished.",
        _LOCAL,
    ),
}
"""By name without the prefix: the help text and the labels."""

_RESERVED: Final = "gang_extender_queue_reserved_workloads"
"""Kueue has no such gauge."""

Families = Mapping[str, GaugeMetricFamily]


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of the leader."""

    view: QueueView
    pending: PendingQueues
    reserved: Collection[str] = ()
    """Workloads for which room is kept."""


class QueueGauges(Collector):
    """Gauges under Kueue's names; none while `state` returns None."""

    def __init__(self, state: Callable[[], QueueState | None]) -> None:
        self._state_of = state
        self._filled: tuple[Metric, ...] | None = None

    def fill(self) -> Iterator[None]:
        """Compute the gauges, a queue in each step; the next `collect` yields them."""
        state = self._state_of()
        if state is None:
            return
        families = {
            name: GaugeMetricFamily(f"kueue_{name}", text, labels=labels)
            for name, (text, labels) in _FAMILIES.items()
        }
        cluster_queues, local_queues = state.view.cluster_queues, state.view.local_queues
        for queue in map(cluster_queues.get, [*cluster_queues]):
            if queue is not None:
                _add_cluster_queue(queue, state, families)
            yield
        for local_queue in map(local_queues.get, [*local_queues]):
            if local_queue is not None:
                _add_local_queue(local_queue, state, families)
            yield
        kept = GaugeMetricFamily(_RESERVED, "Workloads that wait and for which room is kept.")
        kept.add_metric([], len(state.reserved))
        self._filled = (*families.values(), kept)

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield what `fill` computed, or compute it now."""
        if self._filled is None:
            for _ in self.fill():
                pass
        found, self._filled = self._filled, None
        yield from found or ()


def _add_cluster_queue(queue: ClusterQueueInfo, state: QueueState, families: Families) -> None:
    name, found = queue.name, cluster_queue_status(queue, state.view)
    counts = state.pending.queue(name).counts()
    waiting = families["pending_workloads"]
    waiting.add_metric([name, "active"], counts.active)
    waiting.add_metric([name, "inadmissible"], counts.inadmissible)
    families["reserving_active_workloads"].add_metric([name], found.reserving)
    families["admitted_active_workloads"].add_metric([name], found.admitted)
    status = _status(queue, state.view)
    for each in _STATES:
        families["cluster_queue_status"].add_metric([name, each], float(each == status))
    _add_used(queue, found.reservation, families["cluster_queue_resource_reservation"])
    _add_used(queue, found.usage, families["cluster_queue_resource_usage"])
    for what, quota in quotas_of(queue.resource_groups).items():
        _add_quota(queue, what, quota, families=families)


def _add_local_queue(queue: LocalQueueInfo, state: QueueState, families: Families) -> None:
    found = local_queue_status(queue, state.view, ())
    counts = state.pending.queue(queue.cluster_queue).counts(queue.key)
    names = [queue.meta.name, queue.meta.namespace]
    waiting = families["local_queue_pending_workloads"]
    waiting.add_metric([*names, "active"], counts.active)
    waiting.add_metric([*names, "inadmissible"], counts.inadmissible)
    families["local_queue_reserving_active_workloads"].add_metric(names, found.reserving)
    families["local_queue_admitted_active_workloads"].add_metric(names, found.admitted)


def _status(queue: ClusterQueueInfo, view: QueueView) -> str:
    if queue.meta.terminating:
        return "terminating"
    return "active" if activity(queue, view).active else "pending"


def _add_quota(
    queue: ClusterQueueInfo, what: FlavorResource, quota: Quota, *, families: Families
) -> None:
    limits = {
        "cluster_queue_nominal_quota": quota.nominal,
        "cluster_queue_borrowing_limit": quota.borrowing_limit,
        "cluster_queue_lending_limit": quota.lending_limit,
    }
    for name, amount in limits.items():
        if amount is not None:
            labels = [queue.cohort or "", queue.name, *what]
            families[name].add_metric(labels, _in_base_units(what[1], amount))


def _add_used(queue: ClusterQueueInfo, used: tuple[Used, ...], family: GaugeMetricFamily) -> None:
    for each in used:
        labels = [queue.cohort or "", queue.name, each.flavor, each.resource]
        family.add_metric(labels, _in_base_units(each.resource, each.total))


def _in_base_units(resource: str, amount: int) -> float:
    return amount / 1000 if resource == CPU else float(amount)
