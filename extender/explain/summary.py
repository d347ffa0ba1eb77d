"""The workloads that wait in a queue, in the shape of the visibility API.

A queue may hold 100,000 of them, and the loop that answers is the leader's: a page is made in
steps, and after a pause it goes on with the state as it is then. Positions are those of the moment
at which the page was asked for; workloads that have left the queue since are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final

from extender.api.visibility_v1beta2 import PendingMeta, PendingWorkload, PendingWorkloadsSummary
from extender.explain.facts import Facts, moment, owners_of
from extender.explain.outlook import briefly
from extender.explain.waiting_for import Lacks
from extender.queueing.options import Order
from extender.steps import Steps

DEFAULT_LIMIT: Final = 1000
LARGEST_LIMIT: Final = 1000
"""Workloads of one page; a larger limit is no error, and gets as many."""
_RUN: Final = 2048
"""Workloads that are sorted in one step."""
_STRIDE: Final = 256
"""Workloads that are passed in one step."""

_Position = tuple[str, int, int]
"""A workload's key, and its positions in its ClusterQueue and its LocalQueue."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A part of a queue: how many to leave out, first ones first, and how many at most."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT

    @property
    def end(self) -> int:
        """Where the page ends."""
        return self.offset + min(self.limit, LARGEST_LIMIT)


def of_cluster_queue(
    name: str, seen: Callable[[], Facts], page: PageRequest
) -> Steps[PendingWorkloadsSummary | None]:
    """Return the workloads that wait in a ClusterQueue; None where there is no such queue.

    `seen` returns the state as it is now.
    """
    if name not in seen().queues.cluster_queues:
        return None
    return (yield from _summary((name, None), seen, page))


def of_local_queue(
    key: str, seen: Callable[[], Facts], page: PageRequest
) -> Steps[PendingWorkloadsSummary | None]:
    """Return the same of a LocalQueue, `namespace/name`; None where there is no such queue."""
    queue = seen().queues.local_queues.get(key)
    if queue is None:
        return None
    return (yield from _summary((queue.cluster_queue, key), seen, page))


def _summary(
    of: tuple[str, str | None], seen: Callable[[], Facts], page: PageRequest
) -> Steps[PendingWorkloadsSummary]:
    positions = yield from _positions(of, seen(), page)
    items: list[PendingWorkload] = []
    facts = seen()
    lacks = Lacks(facts)
    for position in positions:
        if (yield):
            facts = seen()
            lacks = Lacks(facts)
        key = position[0]
        if key in facts.queues.workloads and facts.pending.cluster_queue_of(key) is not None:
            items.append(_item(position, facts, lacks))
    return PendingWorkloadsSummary(items=items)


def _positions(
    of: tuple[str, str | None], facts: Facts, page: PageRequest
) -> Steps[list[_Position]]:
    """Return the part of a ClusterQueue, or of one of its LocalQueues, that a page shows."""
    cluster_queue, local_queue = of
    orders = facts.pending.queue(cluster_queue).orders()
    runs: list[list[Order]] = []
    for at in range(0, len(orders), _RUN):
        yield
        runs.append(sorted(orders[at : at + _RUN]))
    found: list[_Position] = []
    seen = 0
    for number, (position, queue) in enumerate(_numbered(runs, facts)):
        if seen >= page.end:
            break
        if number % _STRIDE == 0:
            yield
        if local_queue in (None, queue):
            if seen >= page.offset:
                found.append(position)
            seen += 1
    return found


def _numbered(runs: list[list[Order]], facts: Facts) -> Iterator[tuple[_Position, str]]:
    """Yield the workloads in their order with their positions, and their LocalQueues."""
    workloads, before = facts.queues.workloads, Counter[str]()
    for index, order in enumerate(merge(*runs)):
        key = order[-1]
        workload = workloads.get(key)  # None: it was deleted in a pause
        queue = workload.queue if workload is not None else ""
        yield (key, index, before[queue]), queue
        before[queue] += 1


def _item(position: _Position, facts: Facts, lacks: Lacks) -> PendingWorkload:
    key, in_cluster_queue, in_local_queue = position
    workload = facts.queues.workloads[key]
    meta = workload.meta
    outlook = briefly(workload, facts, lacks)
    cluster_queue = facts.pending.cluster_queue_of(key) or ""
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
