"""Lists of what waits: the workloads of a queue, as the visibility API has them, and the groups.

A queue may hold 100,000 workloads, and the loop that answers is the leader's: a page is made in
steps, and after a pause it goes on with the state as it is then. Positions are those of the moment
at which the page was asked for; workloads that have left the queue since are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final, TypeVar

from extender.api.explanations import (
    Explanation,
    GroupLine,
    GroupList,
    PendingMeta,
    PendingWorkload,
    PendingWorkloadsSummary,
    WaitingFor,
)
from extender.api.reasons import Reason
from extender.explain.facts import LARGEST_LIMIT, Facts, GroupFacts, moment, owners_of
from extender.explain.gang import counts, group_state
from extender.explain.outlook import Lacks, briefly
from extender.gang.gates import cannot_start
from extender.state.queue.records import Order
from extender.steps import Steps

_RUN: Final = 2048
"""The most workloads that are sorted, or passed, in one step."""

T = TypeVar("T", PendingWorkload, Explanation)
_Position = tuple[str, int, int]
"""A workload's key, and its positions in its ClusterQueue and its LocalQueue."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A part of a list: how many items to leave out, first ones first, and how many to show."""

    offset: int = 0
    limit: int = LARGEST_LIMIT

    @property
    def end(self) -> int:
        """The number of the first item after the page."""
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
    """Return the workloads that wait in a LocalQueue, `namespace/name`, or None."""
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
        if number % _RUN == 0:
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


def group_list(
    seen: Callable[[], GroupFacts], page: PageRequest, *, namespace: str | None = None
) -> Steps[GroupList]:
    """Return a page of all groups, or of those of a namespace, by namespace and name.

    `seen` returns the state as it is now. No room is looked for.
    """
    view = seen().view
    keys = {*view.pod_groups, *view.groups}
    yield
    if namespace is not None:
        keys = {key for key in keys if key.startswith(f"{namespace}/")}
    order = sorted(keys)
    items = []
    for key in order[page.offset : page.end]:
        yield
        found = _line(key, seen())
        if found is not None:
            items.append(found)
    return GroupList(items=items, more=max(0, len(order) - page.end))


def _line(group: str, facts: GroupFacts) -> GroupLine | None:
    view = facts.view
    pod_group, tally = view.pod_group(group), view.tally(group)
    if pod_group is None and not tally.members:
        return None  # it went in a pause
    state = group_state(group, view)
    namespace, _, name = group.partition("/")
    queued = pod_group is not None and group in view.queue
    return GroupLine(
        namespace=namespace,
        name=name,
        state=state,
        phase=(pod_group.status.phase or None) if pod_group is not None else None,
        reason=_reason(group, facts) if state == "Waiting" else None,
        priority=tally.priority,
        min_member=pod_group.min_member if pod_group is not None else 0,
        needed=view.quorum(pod_group) if pod_group is not None else 0,
        pods=counts(group, view),
        position=view.queue.position(view.turn(pod_group)) if pod_group and queued else None,
    )


def _reason(group: str, facts: GroupFacts) -> str | None:
    """Return why a group waits: what it lacks, or the failure that is remembered."""
    refusal = cannot_start(group, view=facts.view)
    if refusal is not None:
        return refusal.reason
    known = facts.remembered(group)
    if known.denied is not None:
        return Reason.RECENTLY_DENIED
    return known.last_failure.reason if known.last_failure is not None else None


def within(found: T, namespace: str) -> T:
    """Return an answer without the names of workloads of other namespaces."""
    shown = {"waiting_for": [_only(each, namespace) for each in found.waiting_for]}
    if isinstance(found, Explanation):
        return found.model_copy(update={**shown, "notes": []})  # notes name others
    return found.model_copy(update=shown)


def _only(lack: WaitingFor, namespace: str) -> WaitingFor:
    """Return a lack with the holders of one namespace; the others are counted."""
    own = [each for each in lack.holders if each.namespace == namespace]
    others = len(lack.holders) - len(own)
    return lack.model_copy(update={"holders": own, "more_holders": lack.more_holders + others})
