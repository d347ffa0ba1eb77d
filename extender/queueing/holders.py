"""The workloads that have quota, by ClusterQueue."""

from dataclasses import dataclass, field
from typing import Final

from extender.api.wellknown import WorkloadCondition
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.usage import Usage, usage
from extender.state.queue.view import QueueView

_ASSUMED: Final = float("inf")
"""A workload that is being admitted counts as the latest."""


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """A workload that has quota; `since` in seconds since the epoch."""

    workload: WorkloadInfo
    admission: AdmissionInfo
    usage: Usage
    since: float


@dataclass(slots=True)
class Held:
    """The workloads that have quota in one ClusterQueue."""

    holders: dict[str, QuotaHolder] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    """Evicted workloads that have not released their quota yet."""
    lowest: int = 0
    """The lowest priority among them."""
    version: int = -1


class Holders:
    """The workloads with quota by ClusterQueue, cached until the usage of the queue changes."""

    def __init__(self, view: QueueView) -> None:
        self._view = view
        self._known: dict[str, Held] = {}

    def of(self, cluster_queue: str) -> Held:
        """Return the workloads with quota in a ClusterQueue."""
        version = self._view.usage_version(cluster_queue)
        known = self._known.get(cluster_queue)
        if known is None or known.version != version:
            known = self._known[cluster_queue] = self._read(cluster_queue, known)
            known.version = version
        return known

    def _read(self, cluster_queue: str, before: Held | None) -> Held:
        known = before.holders if before else {}
        holders: dict[str, QuotaHolder] = {}
        for key in sorted(self._view.reserving(cluster_queue)):
            found, held = known.get(key), self._view.admission(key)
            workload = self._view.workloads[key]
            assert held is not None
            if found is None or found.workload is not workload or found.admission is not held:
                found = _holder(workload, held)
            holders[key] = found
        if not holders:
            return Held()
        return Held(
            holders,
            frozenset(key for key, each in holders.items() if _leaves(each.workload)),
            min(each.workload.priority for each in holders.values()),
        )


def _leaves(workload: WorkloadInfo) -> bool:
    """Return whether a workload has to give its quota back.

    One that was evicted before and is being admitted again has not: its status is not written yet.
    """
    return workload.evicted and workload.admission is not None


def _holder(workload: WorkloadInfo, held: AdmissionInfo) -> QuotaHolder:
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    since = reserved.transition if reserved and reserved.status == "True" else _ASSUMED
    return QuotaHolder(workload, held, usage(held, workload), since)
