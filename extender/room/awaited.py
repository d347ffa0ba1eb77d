"""The pods of admitted workloads that have no node, worked out again only where something changed.

That takes a look at each pod of a workload. Most workloads have all their pods on nodes, and say in
each pod that it is theirs: for these the answer is kept until one of the pods changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extender.room.unplaced import Some, unplaced
from extender.state.queues.records import Admission, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot

_NONE: Sequence[Some] = ()


class Awaited:
    """Answers from the state as it is now; `done` returns the pods that will not start again."""

    def __init__(
        self,
        queues: QueueSnapshot,
        cluster: Snapshot,
        done: Callable[[WorkloadInfo], Mapping[str, int]],
    ) -> None:
        self._queues, self._cluster, self._done = queues, cluster, done
        self._version = -1
        self._complete: dict[str, tuple[Any, ...]] = {}
        """What the workloads were whose pods all had nodes."""
        self._incomplete: dict[str, tuple[tuple[Any, ...], Sequence[Some], bool]] = {}
        """What the others were, and their answers, until any pod changes."""

    def of(self, workload: WorkloadInfo, held: Admission) -> tuple[Sequence[Some], bool]:
        """Return the pods that have no node, and whether others have one."""
        self._look_again()
        basis = workload, held, *self._jobs(workload)
        key = workload.key
        if _is_same(self._complete.get(key), basis):
            return _NONE, True
        known = self._incomplete.get(key)
        if known is not None and _is_same(known[0], basis):
            return known[1], known[2]
        some, begun = unplaced(
            workload,
            held,
            done=self._done(workload),
            queues=self._queues,
            cluster=self._cluster,
        )
        there = self._cluster.of_workload(key)
        if begun and not some and len(there) >= sum(each.count for each in held.assignments):
            self._complete[key] = basis
        else:
            self._incomplete[key] = basis, some, begun
        return some, begun

    def _jobs(self, workload: WorkloadInfo) -> tuple[object, object]:
        """Return what tells how many of its pods are done."""
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
