"""The workloads that have quota, by ClusterQueue."""

from dataclasses import dataclass, field
from typing import Final

from extender.state.queues.records import Admission, FlavorResource, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.queues.usage import Usage, usage

_ASSUMED: Final = float("inf")
"""Nobody got quota later than who is just being given it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that has quota, and since when."""

    workload: WorkloadInfo
    admission: Admission
    usage: Usage
    since: float


@dataclass(slots=True)
class Held:
    """The workloads that have quota in one ClusterQueue."""

    holders: dict[str, Holder] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    """Who is evicted, and has not given it back yet."""
    lowest: int = 0
    """The lowest priority among them."""
    uses: frozenset[FlavorResource] = frozenset()
    version: int = -1


class Holders:
    """Who has quota in which ClusterQueue: looked at again when something of it has changed."""

    def __init__(self, snapshot: QueueSnapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[str, Held] = {}

    def of(self, cluster_queue: str) -> Held:
        """Return those with quota in a ClusterQueue."""
        version = self._snapshot.usage_version(cluster_queue)
        known = self._known.get(cluster_queue)
        if known is None or known.version != version:
            known = self._known[cluster_queue] = self._look(cluster_queue, known)
            known.version = version
        return known

    def _look(self, cluster_queue: str, before: Held | None) -> Held:
        known = before.holders if before else {}
        holders: dict[str, Holder] = {}
        for key in sorted(self._snapshot.reserving(cluster_queue)):
            found, held = known.get(key), self._snapshot.admission(key)
            workload = self._snapshot.workloads[key]
            assert held is not None
            if found is None or found.workload is not workload or found.admission is not held:
                found = _holder(workload, held)
            holders[key] = found
        if not holders:
            return Held()
        return Held(
            holders,
            frozenset(key for key, each in holders.items() if each.workload.evicted),
            min(each.workload.priority for each in holders.values()),
            frozenset(what for each in holders.values() for what in each.usage),
        )


def _holder(workload: WorkloadInfo, held: Admission) -> Holder:
    reserved = workload.condition("QuotaReserved")
    since = reserved.transition if reserved and reserved.status == "True" else _ASSUMED
    return Holder(workload, held, usage(held, workload), since)
