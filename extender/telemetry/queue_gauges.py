"""Gauges of queues and their usage: computed from the state on request, on the leader only."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.status import Used, activity, cluster_queue_status, local_queue_status
from extender.resources.quantity import CPU
from extender.state.queue.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    FlavorResource,
    LocalQueueInfo,
    Quota,
    quotas_of,
)
from extender.state.queue.view import QueueView
from extender.telemetry import definitions as of
from extender.telemetry.definition import GaugeDefinition

_STATES: Final = ("pending", "active", "terminating")
_FAMILIES: Final = (
    of.PENDING_WORKLOADS,
    of.RESERVING_WORKLOADS,
    of.ADMITTED_ACTIVE_WORKLOADS,
    of.QUEUE_STATUS,
    of.RESERVATION,
    of.USAGE,
    of.NOMINAL_QUOTA,
    of.BORROWING_LIMIT,
    of.LENDING_LIMIT,
    of.LOCAL_PENDING_WORKLOADS,
    of.LOCAL_RESERVING_WORKLOADS,
    of.LOCAL_ADMITTED_WORKLOADS,
    of.QUEUE_OLDEST_WAITING,
    of.QUEUE_OVERCOMMITTED,
    of.QUEUE_IGNORED_FIELDS,
)

_Ignoring = ClusterQueueInfo | CohortInfo | LocalQueueInfo | FlavorInfo
Families = Mapping[GaugeDefinition, GaugeMetricFamily]


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
        self._tree: QuotaTree | None = None
        """Its own: that of a cycle may have tentative usage."""

    def fill(self) -> Iterator[None]:
        """Compute the gauges, a queue in each step; the next `collect` yields them."""
        state = self._state_of()
        if state is None:
            return
        families: Families = {each: each.values() for each in _FAMILIES}
        cluster_queues, local_queues = state.view.cluster_queues, state.view.local_queues
        for queue in map(cluster_queues.get, [*cluster_queues]):
            if queue is not None:
                _add_cluster_queue(queue, state, families)
            yield
        yield from self._add_overcommitted(state.view, families[of.QUEUE_OVERCOMMITTED])
        for local_queue in map(local_queues.get, [*local_queues]):
            if local_queue is not None:
                _add_local_queue(local_queue, state, families)
            yield
        yield from _add_ignored(state.view, families[of.QUEUE_IGNORED_FIELDS])
        kept = of.QUEUE_RESERVED_WORKLOADS.values()
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

    def _add_overcommitted(self, view: QueueView, family: GaugeMetricFamily) -> Iterator[None]:
        if self._tree is None or self._tree.version != view.structure_version:
            self._tree = QuotaTree(view, whole=False)
            yield from self._tree.pieces()
        tree = self._tree
        tree.look_again()
        for queue in map(view.cluster_queues.get, [*view.cluster_queues]):
            if tree.version != view.structure_version:
                return  # the next page has it
            if queue is not None and tree.has(queue.name):
                node = tree.queue(queue.name)
                for what in quotas_of(queue.resource_groups):
                    labels = [queue.cohort or "", queue.name, *what]
                    lacking = max(0, -node.available(what))
                    family.add_metric(labels, _in_base_units(what[1], lacking))
            yield


def _add_cluster_queue(queue: ClusterQueueInfo, state: QueueState, families: Families) -> None:
    name, found = queue.name, cluster_queue_status(queue, state.view)
    counts = state.pending.queue(name).counts()
    waiting = families[of.PENDING_WORKLOADS]
    waiting.add_metric([name, "active"], counts.active)
    waiting.add_metric([name, "inadmissible"], counts.inadmissible)
    oldest = state.pending.queue(name).oldest()
    if oldest is not None:
        families[of.QUEUE_OLDEST_WAITING].add_metric([name], oldest)
    families[of.RESERVING_WORKLOADS].add_metric([name], found.reserving)
    families[of.ADMITTED_ACTIVE_WORKLOADS].add_metric([name], found.admitted)
    status = _status(queue, state.view)
    for each in _STATES:
        families[of.QUEUE_STATUS].add_metric([name, each], float(each == status))
    _add_used(queue, found.reservation, families[of.RESERVATION])
    _add_used(queue, found.usage, families[of.USAGE])
    for what, quota in quotas_of(queue.resource_groups).items():
        _add_quota(queue, what, quota, families=families)


def _add_local_queue(queue: LocalQueueInfo, state: QueueState, families: Families) -> None:
    found = local_queue_status(queue, state.view, ())
    counts = state.pending.queue(queue.cluster_queue).counts(queue.key)
    names = [queue.meta.name, queue.meta.namespace]
    waiting = families[of.LOCAL_PENDING_WORKLOADS]
    waiting.add_metric([*names, "active"], counts.active)
    waiting.add_metric([*names, "inadmissible"], counts.inadmissible)
    families[of.LOCAL_RESERVING_WORKLOADS].add_metric(names, found.reserving)
    families[of.LOCAL_ADMITTED_WORKLOADS].add_metric(names, found.admitted)


def _add_ignored(view: QueueView, family: GaugeMetricFamily) -> Iterator[None]:
    """Count the objects that have a field without effect, by kind and field."""
    tables: dict[str, Mapping[str, _Ignoring]] = {
        "ClusterQueue": view.cluster_queues,
        "Cohort": view.cohorts,
        "LocalQueue": view.local_queues,
        "ResourceFlavor": view.flavors,
    }
    for kind, table in tables.items():
        found: Counter[str] = Counter()
        for each in map(table.get, [*table]):
            if each is not None:
                found.update(path for path in each.meta.ignored if path.startswith("spec."))
            yield
        for path, number in found.items():
            family.add_metric([kind, path], number)


def _status(queue: ClusterQueueInfo, view: QueueView) -> str:
    if queue.meta.terminating:
        return "terminating"
    return "active" if activity(queue, view).active else "pending"


def _add_quota(
    queue: ClusterQueueInfo, what: FlavorResource, quota: Quota, *, families: Families
) -> None:
    limits = {
        of.NOMINAL_QUOTA: quota.nominal,
        of.BORROWING_LIMIT: quota.borrowing_limit,
        of.LENDING_LIMIT: quota.lending_limit,
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
