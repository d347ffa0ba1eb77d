"""The workloads that wait in a queue, in the shape of the visibility API.

A queue may hold 100,000 of them, and the loop that answers is the leader's: a page is made in
steps, and where others had their turn in between it goes on with the state as it is then. Places
are those of the moment at which the page was asked for; who has left since is left out.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final

from extender.api.visibility_v1beta2 import PendingMeta, PendingWorkload, PendingWorkloadsSummary
from extender.explain.outlook import briefly
from extender.explain.view import View, moment, owners_of
from extender.explain.waiting_for import Lacks
from extender.queueing.order import Order
from extender.steps import Steps

DEFAULT_LIMIT: Final = 1000
LARGEST_LIMIT: Final = 1000
"""Workloads of one page; a larger limit is no error, and gets as many."""
_RUN: Final = 2048
"""Workloads that are sorted in one step."""
_STRIDE: Final = 256
"""Workloads that are passed in one step."""

_Place = tuple[str, int, int]
"""A workload's key, and its positions in its ClusterQueue and its LocalQueue."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a queue: how many to leave out, first ones first, and how many at most."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT

    @property
    def end(self) -> int:
        """Where the page ends."""
        return self.offset + min(self.limit, LARGEST_LIMIT)


def of_cluster_queue(
    name: str, seen: Callable[[], View], page: Page
) -> Steps[PendingWorkloadsSummary | None]:
    """Return who waits in a ClusterQueue; None where there is no such queue.

    `seen` returns the state as it is now.
    """
    if name not in seen().queues.cluster_queues:
        return None
    return (yield from _summary((name, None), seen, page))


def of_local_queue(
    key: str, seen: Callable[[], View], page: Page
) -> Steps[PendingWorkloadsSummary | None]:
    """Return who waits in a LocalQueue, `namespace/name`; None where there is no such queue."""
    queue = seen().queues.local_queues.get(key)
    if queue is None:
        return None
    return (yield from _summary((queue.cluster_queue, key), seen, page))


def _summary(
    of: tuple[str, str | None], seen: Callable[[], View], page: Page
) -> Steps[PendingWorkloadsSummary]:
    places = yield from _places(of, seen(), page)
    items: list[PendingWorkload] = []
    view = seen()
    lacks = Lacks(view)
    for place in places:
        if (yield):
            view = seen()
            lacks = Lacks(view)
        key = place[0]
        if key in view.queues.workloads and view.pending.cluster_queue_of(key) is not None:
            items.append(_item(place, view, lacks))
    return PendingWorkloadsSummary(items=items)


def _places(of: tuple[str, str | None], view: View, page: Page) -> Steps[list[_Place]]:
    """Return the part of a ClusterQueue, or of one of its LocalQueues, that a page shows."""
    cluster_queue, local_queue = of
    orders = view.pending.orders(cluster_queue)
    runs: list[list[Order]] = []
    for at in range(0, len(orders), _RUN):
        yield
        runs.append(sorted(orders[at : at + _RUN]))
    found: list[_Place] = []
    seen = 0
    for number, (place, queue) in enumerate(_numbered(runs, view)):
        if seen >= page.end:
            break
        if number % _STRIDE == 0:
            yield
        if local_queue in (None, queue):
            if seen >= page.offset:
                found.append(place)
            seen += 1
    return found


def _numbered(runs: list[list[Order]], view: View) -> Iterator[tuple[_Place, str]]:
    """Yield the workloads in their order with their places, and their LocalQueues."""
    workloads, before = view.queues.workloads, Counter[str]()
    for index, order in enumerate(merge(*runs)):
        key = order[-1]
        workload = workloads.get(key)  # not there: it was deleted while others had their turn
        queue = workload.queue if workload is not None else ""
        yield (key, index, before[queue]), queue
        before[queue] += 1


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
