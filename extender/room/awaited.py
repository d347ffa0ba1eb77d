"""The pods of admitted workloads that have no node, found again only where something changed.

To find them each pod of a workload is read. Most workloads have all their pods on nodes, and each
pod names its workload: for these the answer is kept until one of the pods changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extender.room.unplaced import PodSetCount, unplaced
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.view import QueueView

_NONE: Sequence[PodSetCount] = ()


class Awaited:
    """Answers from the state as it is now; `done` returns the pods that will not start again."""

    def __init__(
        self,
        queues: QueueView,
        cluster: ClusterView,
        done: Callable[[WorkloadInfo], Mapping[str, int]],
    ) -> None:
        self._queues, self._cluster, self._done = queues, cluster, done
        self._version = -1
        self._complete: dict[str, tuple[Any, ...]] = {}
        """By workload whose pods all have nodes: what the answer depends on."""
        self._incomplete: dict[str, tuple[tuple[Any, ...], Sequence[PodSetCount], bool]] = {}
        """By other workload: the same, and the answer, until any pod changes."""

    def of(self, workload: WorkloadInfo, held: AdmissionInfo) -> tuple[Sequence[PodSetCount], bool]:
        """Return the pods that have no node, and whether others have one."""
        self._look_again()
        basis = workload, held, *self._jobs(workload)
        key = workload.key
        if _is_same(self._complete.get(key), basis):
            return _NONE, True
        known = self._incomplete.get(key)
        if known is not None and _is_same(known[0], basis):
            return known[1], known[2]
        counts, begun = unplaced(
            workload,
            held,
            done=self._done(workload),
            queues=self._queues,
            cluster=self._cluster,
        )
        there = self._cluster.of_workload(key)
        if begun and not counts and len(there) >= sum(each.count for each in held.assignments):
            self._complete[key] = basis
        else:
            self._incomplete[key] = basis, counts, begun
        return counts, begun

    def _jobs(self, workload: WorkloadInfo) -> tuple[object, object]:
        """Return the objects that say how many of its pods are done."""
        owner = workload.owner
        if owner is None:
            return None, None
        job = self._queues.job_of(owner.uid, workload.meta.namespace)
        return job, self._cluster.job(owner.uid)

    def _look_again(self) -> None:
        version = self._cluster.pods_version
        if version == self._version:
            return
        moved = self._cluster.pods_since(self._version) if self._version >= 0 else None
        self._version = version
        self._incomplete.clear()
        if moved is None:
            self._complete.clear()
        for pod in moved or ():
            if pod.workload is not None:
                self._complete.pop(pod.workload, None)


def _is_same(known: tuple[Any, ...] | None, basis: tuple[Any, ...]) -> bool:
    return known is not None and all(a is b for a, b in zip(known, basis, strict=True))
