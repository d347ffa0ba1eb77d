"""How full queues are: computed from the state whenever somebody asks, on the leader alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.queueing.active import activity
from extender.queueing.pending import PendingQueues
from extender.queueing.status import Used, cluster_queue_status, local_queue_status
from extender.resources.quantity import CPU
from extender.state.queues.records import ClusterQueueInfo, FlavorResource, LocalQueueInfo, Quota
from extender.state.queues.snapshot import QueueSnapshot

_QUEUE: Final = ["cluster_queue"]
_LOCAL: Final = ["name", "namespace"]
_AMOUNT: Final = ["cohort", "cluster_queue", "flavor", "resource"]
_STATES: Final = ("pending", "active", "terminating")


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a replica that leads."""

    snapshot: QueueSnapshot
    pending: PendingQueues


class QueueGauges(Collector):
    """Gauges under the names that dashboards know; nothing while `seen` returns None."""

    def __init__(self, seen: Callable[[], Seen | None]) -> None:
        self._seen = seen
        self._filled: tuple[Metric, ...] | None = None

    def fill(self) -> Iterator[None]:
        """Work out what is true now, a queue at a time; the next `collect` yields it."""
        seen = self._seen()
        if seen is None:
            return
        queues, quotas, local = _cluster_queues(), _quotas(), _local_queues()
        cluster_queues, local_queues = seen.snapshot.cluster_queues, seen.snapshot.local_queues
        for queue in map(cluster_queues.get, [*cluster_queues]):
            if queue is not None:
                _tell_cluster_queue(queue, seen, queues=queues, quotas=quotas)
            yield
        for local_queue in map(local_queues.get, [*local_queues]):
            if local_queue is not None:
                _tell_local_queue(local_queue, seen, local)
            yield
        self._filled = (*queues.values(), *quotas.values(), *local.values())

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield what `fill` found, or what is true now."""
        if self._filled is None:
            for _ in self.fill():
                pass
        found, self._filled = self._filled, None
        yield from found or ()


Families = Mapping[str, GaugeMetricFamily]


def _families(*told: tuple[str, str, list[str]]) -> Families:
    return {
        name: GaugeMetricFamily(f"kueue_{name}", words, labels=labels)
        for name, words, labels in told
    }


def _cluster_queues() -> Families:
    return _families(
        (
            "pending_workloads",
            "Workloads that wait, by status: active ones are tried, inadmissible ones wait for a "
            "change.",
            [*_QUEUE, "status"],
        ),
        ("reserving_active_workloads", "Workloads that have quota and have not ended.", _QUEUE),
        ("admitted_active_workloads", "Workloads that are admitted and have not ended.", _QUEUE),
        (
            "cluster_queue_status",
            "1 for the status that a ClusterQueue has: pending, active or terminating.",
            [*_QUEUE, "status"],
        ),
    )


def _quotas() -> Families:
    return _families(
        (
            "cluster_queue_resource_reservation",
            "Quota that workloads have, in cores, bytes or units.",
            _AMOUNT,
        ),
        (
            "cluster_queue_resource_usage",
            "Quota that admitted workloads have, in cores, bytes or units.",
            _AMOUNT,
        ),
        ("cluster_queue_nominal_quota", "Quota of a ClusterQueue's own.", _AMOUNT),
        (
            "cluster_queue_borrowing_limit",
            "How much a ClusterQueue may borrow, where that is limited.",
            _AMOUNT,
        ),
        (
            "cluster_queue_lending_limit",
            "How much a ClusterQueue lends, where that is limited.",
            _AMOUNT,
        ),
    )


def _local_queues() -> Families:
    return _families(
        (
            "local_queue_pending_workloads",
            "Workloads of a LocalQueue that wait, by status.",
            [*_LOCAL, "status"],
        ),
        (
            "local_queue_reserving_active_workloads",
            "Workloads of a LocalQueue that have quota and have not ended.",
            _LOCAL,
        ),
        (
            "local_queue_admitted_active_workloads",
            "Workloads of a LocalQueue that are admitted and have not ended.",
            _LOCAL,
        ),
    )


def _tell_cluster_queue(
    queue: ClusterQueueInfo, seen: Seen, *, queues: Families, quotas: Families
) -> None:
    name, found = queue.name, cluster_queue_status(queue, seen.snapshot)
    counts = seen.pending.counts(name)
    waiting = queues["pending_workloads"]
    waiting.add_metric([name, "active"], counts.active)
    waiting.add_metric([name, "inadmissible"], counts.inadmissible)
    queues["reserving_active_workloads"].add_metric([name], found.reserving)
    queues["admitted_active_workloads"].add_metric([name], found.admitted)
    state = _state(queue, seen.snapshot)
    for each in _STATES:
        queues["cluster_queue_status"].add_metric([name, each], float(each == state))
    _tell_used(queue, found.reservation, quotas["cluster_queue_resource_reservation"])
    _tell_used(queue, found.usage, quotas["cluster_queue_resource_usage"])
    for what, quota in _quotas_of(queue):
        _tell_quota(queue, what, quota, quotas=quotas)


def _tell_local_queue(queue: LocalQueueInfo, seen: Seen, local: Families) -> None:
    found = local_queue_status(queue, seen.snapshot, ())
    counts = seen.pending.counts(queue.cluster_queue, queue.key)
    names = [queue.meta.name, queue.meta.namespace]
    waiting = local["local_queue_pending_workloads"]
    waiting.add_metric([*names, "active"], counts.active)
    waiting.add_metric([*names, "inadmissible"], counts.inadmissible)
    local["local_queue_reserving_active_workloads"].add_metric(names, found.reserving)
    local["local_queue_admitted_active_workloads"].add_metric(names, found.admitted)


def _state(queue: ClusterQueueInfo, snapshot: QueueSnapshot) -> str:
    if queue.meta.terminating:
        return "terminating"
    return "active" if activity(queue, snapshot).active else "pending"


def _quotas_of(queue: ClusterQueueInfo) -> Iterator[tuple[FlavorResource, Quota]]:
    for group in queue.resource_groups:
        for quotas in group.flavors:
            for resource, quota in quotas.resources.items():
                yield (quotas.flavor, resource), quota


def _tell_quota(
    queue: ClusterQueueInfo, what: FlavorResource, quota: Quota, *, quotas: Families
) -> None:
    limits = {
        "cluster_queue_nominal_quota": quota.nominal,
        "cluster_queue_borrowing_limit": quota.borrowing_limit,
        "cluster_queue_lending_limit": quota.lending_limit,
    }
    for name, amount in limits.items():
        if amount is not None:
            labels = [queue.cohort or "", queue.name, *what]
            quotas[name].add_metric(labels, _in_base_units(what[1], amount))


def _tell_used(queue: ClusterQueueInfo, used: tuple[Used, ...], family: GaugeMetricFamily) -> None:
    for each in used:
        labels = [queue.cohort or "", queue.name, each.flavor, each.resource]
        family.add_metric(labels, _in_base_units(each.resource, each.total))


def _in_base_units(resource: str, amount: int) -> float:
    return amount / 1000 if resource == CPU else float(amount)
