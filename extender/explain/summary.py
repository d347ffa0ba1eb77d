"""The workloads that wait in a queue, in the shape of the visibility API."""

from collections.abc import Iterator
from typing import Final

from extender.api.visibility_v1beta2 import PendingMeta, PendingWorkload, PendingWorkloadsSummary
from extender.explain.outlook import briefly
from extender.explain.view import View, moment, owners_of
from extender.explain.waiting_for import Lacks

DEFAULT_LIMIT: Final = 1000
LARGEST_LIMIT: Final = 100_000

_Place = tuple[str, int, int]
"""A workload's key, and its positions in its ClusterQueue and its LocalQueue."""


def of_cluster_queue(
    name: str, view: View, *, offset: int = 0, limit: int = DEFAULT_LIMIT
) -> PendingWorkloadsSummary | None:
    """Return who waits in a ClusterQueue; None where there is no such queue."""
    if name not in view.queues.cluster_queues:
        return None
    return _summary(list(_places(name, view)), view, offset=offset, limit=limit)


def of_local_queue(
    key: str, view: View, *, offset: int = 0, limit: int = DEFAULT_LIMIT
) -> PendingWorkloadsSummary | None:
    """Return who waits in a LocalQueue, `namespace/name`; None where there is no such queue."""
    queue = view.queues.local_queues.get(key)
    if queue is None:
        return None
    everybody = _places(queue.cluster_queue, view)
    mine = [each for each in everybody if view.queues.workloads[each[0]].queue == key]
    return _summary(mine, view, offset=offset, limit=limit)


def position(key: str, cluster_queue: str, view: View) -> tuple[tuple[int, int], ...] | None:
    """Return a workload's place and how many wait, in its ClusterQueue and in its LocalQueue."""
    places = list(_places(cluster_queue, view))
    mine = next((each for each in places if each[0] == key), None)
    if mine is None:
        return None
    queue = view.queues.workloads[key].queue
    beside = sum(view.queues.workloads[other].queue == queue for other, _, _ in places)
    return (mine[1], len(places)), (mine[2], beside)


def _places(cluster_queue: str, view: View) -> Iterator[_Place]:
    seen: dict[str, int] = {}
    for index, key in enumerate(view.pending.positions(cluster_queue)):
        queue = view.queues.workloads[key].queue
        before = seen.get(queue, 0)
        seen[queue] = before + 1
        yield key, index, before


def _summary(
    places: list[_Place], view: View, *, offset: int, limit: int
) -> PendingWorkloadsSummary:
    lacks = Lacks(view)
    shown = places[offset : offset + min(limit, LARGEST_LIMIT)]
    return PendingWorkloadsSummary(items=[_item(each, view, lacks) for each in shown])


def _item(place: _Place, view: View, lacks: Lacks) -> PendingWorkload:
    key, in_cluster_queue, in_local_queue = place
    workload = view.queues.workloads[key]
    meta = workload.meta
    outlook = briefly(workload, view, lacks)
    cluster_queue = view.pending.cluster_queue_of(key) or ""
    return PendingWorkload(
        metadata=PendingMeta(
            name=meta.name,
            namespace=meta.namespace,
            creation_timestamp=moment(meta.created),
            owner_references=owners_of(workload),
        ),
        priority=workload.priority,
        local_queue_name=workload.queue_name,
        position_in_cluster_queue=in_cluster_queue,
        position_in_local_queue=in_local_queue,
        reason=outlook.reason,
        message=outlook.message,
        waiting_for=lacks.waiting_for(outlook.lacks, cluster_queue) if outlook.lacks else [],
    )
