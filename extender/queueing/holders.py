"""The workloads that have quota, by ClusterQueue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.api.wellknown import WorkloadCondition
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.usage import Usage, usage
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps

_ASSUMED: Final = float("inf")
"""A workload that is being admitted counts as the latest."""


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """A workload that has quota; `since` in seconds since the epoch."""

    workload: WorkloadInfo
    admission: AdmissionInfo
    usage: Usage
    since: float
    leaves: bool
    """Whether it was evicted, and has not released its quota yet."""
    rank: tuple[int, float, str]
    """What possible victims are sorted by: the first is to stay most."""


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
    """The workloads with quota by ClusterQueue, read again only as far as they have changed."""

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

    def reading(self, cluster_queues: Iterable[str]) -> Steps[None]:
        """Read ClusterQueues in steps, so that what is asked of them next is answered at once."""
        for name in cluster_queues:
            version, found = self._view.usage_version(name), dict[str, QuotaHolder]()
            if name in self._known or not version:
                continue
            for number, key in enumerate(sorted(self._view.reserving(name)), 1):
                if number % PIECE == 0:
                    yield
                found.update(self._found(name, (key,), {}))
            self._known[name] = _held(found, version)

    def _read(self, cluster_queue: str, before: Held | None) -> Held:
        view = self._view
        known = before.holders if before else {}
        moved = view.usage_since(cluster_queue, before.version) if before else None
        if moved is None:
            return _held(self._found(cluster_queue, sorted(view.reserving(cluster_queue)), known))
        holders = dict(known)
        for key in moved:
            holders.pop(key, None)
        there = view.reserving(cluster_queue)
        holders |= self._found(cluster_queue, sorted(moved.intersection(there)), known)
        return _held(holders)

    def _found(
        self, cluster_queue: str, keys: Iterable[str], known: Mapping[str, QuotaHolder]
    ) -> dict[str, QuotaHolder]:
        """Return those of these workloads that have quota there."""
        found: dict[str, QuotaHolder] = {}
        for key in keys:
            before, held = known.get(key), self._view.admission(key)
            workload = self._view.workloads.get(key)
            if held is None or workload is None or held.cluster_queue != cluster_queue:
                continue  # it was changed while others were read
            if before is None or before.workload is not workload or before.admission is not held:
                before = _holder(workload, held)
            found[key] = before
        return found


def _held(holders: dict[str, QuotaHolder], version: int = -1) -> Held:
    if not holders:
        return Held(version=version)
    leaving = frozenset(key for key, each in holders.items() if each.leaves)
    lowest = min(each.workload.priority for each in holders.values())
    return Held(holders, leaving, lowest, version)


def leaves(workload: WorkloadInfo) -> bool:
    """Return whether a workload has to give its quota back.

    One that was evicted before and is being admitted again has not: its status is not written yet.
    """
    return workload.evicted and workload.admission is not None


def _holder(workload: WorkloadInfo, held: AdmissionInfo) -> QuotaHolder:
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    since = reserved.transition if reserved and reserved.status == "True" else _ASSUMED
    rank = (-workload.priority, since, workload.meta.uid)
    return QuotaHolder(workload, held, usage(held, workload), since, leaves(workload), rank)
