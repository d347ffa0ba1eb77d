"""Who has quota, and who of them is about to give it back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from extender.queueing.options import Options
from extender.queueing.order import queue_time
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.queues.usage import Usage, usage

_ASSUMED: Final = float("inf")
"""Nobody got quota later than who is just being given it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that has quota."""

    workload: WorkloadInfo
    usage: Usage
    since: float
    leaves: bool


class Holders:
    """Who has quota in which ClusterQueue, looked up once for a cycle."""

    def __init__(self, snapshot: QueueSnapshot, options: Options) -> None:
        self._snapshot, self._options = snapshot, options
        self._known: dict[str, list[Holder]] = {}
        self._leaving: set[str] = set()

    def time(self, workload: WorkloadInfo) -> float:
        """Return since when a workload waits or would wait, in the sense of the queue."""
        return queue_time(workload, self._options)

    def leave(self, victims: Iterable[str]) -> None:
        """Count these among those that leave."""
        self._leaving.update(victims)

    def of(self, cluster_queue: str) -> list[Holder]:
        """Return those with quota in a ClusterQueue."""
        found = self._known.get(cluster_queue)
        if found is None:
            keys = sorted(self._snapshot.reserving(cluster_queue))
            found = self._known[cluster_queue] = [self._holder(key) for key in keys]
        return found

    def leaves(self, holder: Holder) -> bool:
        """Return whether a workload gives its quota back already."""
        return holder.leaves or holder.workload.key in self._leaving

    def _holder(self, key: str) -> Holder:
        workload, held = self._snapshot.workloads[key], self._snapshot.admission(key)
        assert held is not None
        reserved = workload.condition("QuotaReserved")
        since = reserved.transition if reserved and reserved.status == "True" else _ASSUMED
        return Holder(workload, usage(held, workload), since, workload.evicted)
