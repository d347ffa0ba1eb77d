"""The workloads that wait, by ClusterQueue, and which of them are worth a try.

Equivalent workloads of a LocalQueue form one line, the oldest first. When the head of a line finds
no quota, the whole line becomes inadmissible, and so does each workload that joins it behind that
head: what did not fit for one does not fit for the next. So a queue of thousands in a few lines
costs what a few workloads cost, whenever quota is released.

Deterministic, and the same however often an update is repeated.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final

from extender.api.wellknown import WorkloadCondition
from extender.queueing.flavors import counts
from extender.queueing.preempt import preemptor_named_in
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionOptions, queue_order
from extender.queueing.status import Queued, selects_namespace, standing
from extender.state.queue.records import ClusterQueueInfo, Order, Usage, WorkloadInfo
from extender.state.queue.view import QueueView


class Cause(Enum):
    """The reason why a workload is inadmissible: it is tried again when this changes."""

    NO_QUOTA = auto()
    NO_CAPACITY = auto()
    """It has quota, but its pods lack room on nodes."""
    NAMESPACE_MISMATCH = auto()
    """The ClusterQueue does not select its namespace."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of workloads that wait to be tried, and that wait for something to change."""

    active: int = 0
    inadmissible: int = 0


@dataclass(slots=True)
class QueueEntry:
    """The place where one workload waits."""

    cluster_queue: str
    local_queue: str
    equivalence: Hashable
    """Equal for workloads of one line."""
    order: Order
    backing_off: bool = False
    until: float | None = None
    """The end of its back-off, in seconds since the epoch; None if its condition ends it."""


@dataclass(slots=True, eq=False)
class Line:
    """Equivalent workloads."""

    number: int
    local_queue: str
    orders: list[Order] = field(default_factory=list)
    inadmissible: Order | None = None
    """The workload that found no quota: it and all behind it are not tried."""
    cause: Cause = Cause.NO_QUOTA
    """The cause, if `inadmissible` is set."""

    @property
    def namespace(self) -> str:
        """The namespace of its LocalQueue."""
        return self.local_queue.split("/", 1)[0]

    @property
    def head(self) -> Order | None:
        """The first workload that may be tried."""
        if not self.orders or (self.inadmissible and self.orders[0] >= self.inadmissible):
            return None
        return self.orders[0]

    def is_inadmissible_for(self, cause: Cause) -> bool:
        """Return whether it has inadmissible workloads for this cause."""
        return self.inadmissible is not None and self.cause is cause

    def behind(self) -> list[Order]:
        """Return the inadmissible workloads."""
        if self.inadmissible is None:
            return []
        return self.orders[bisect_left(self.orders, self.inadmissible) :]


class ClusterQueueLines:
    """The lines of one ClusterQueue, a heap of their heads, and the workloads that back off."""

    def __init__(self) -> None:
        self.backing_off: dict[str, QueueEntry] = {}
        self.blocked_by: str | None = None
        """The head of a strict queue that found no quota: all others wait behind it."""
        self.sweep: set[int] = set()
        """Lines to try for room before any line is tried a second time."""
        self._lines: dict[Hashable, Line] = {}
        self._by_number: dict[int, Line] = {}
        self._heads: list[tuple[Order, int]] = []
        """A heap of heads and their lines; entries that are heads no more are skipped."""
        self._last_number = 0

    # -- what it holds

    @property
    def is_empty(self) -> bool:
        """Return whether no workload waits here."""
        return not self._lines and not self.backing_off

    @property
    def is_swept(self) -> bool:
        """Return whether each line of the sweep was tried; a strict queue tries its head only."""
        return not self.sweep or self.blocked_by is not None

    def lines(self) -> Iterable[Line]:
        """Return all lines."""
        return self._lines.values()

    def line(self, place: QueueEntry) -> Line:
        """Return the line in which a workload waits that does not back off."""
        return self._lines[place.equivalence]

    def orders(self) -> list[Order]:
        """Return what all workloads are sorted by, unsorted; the last item is the key."""
        waiting = chain.from_iterable(line.orders for line in self._lines.values())
        return [*waiting, *(place.order for place in self.backing_off.values())]

    def in_order(self) -> list[str]:
        """Return all workloads, in the order in which they are to be tried."""
        return [order[-1] for order in sorted(self.orders())]

    def counts(self, local_queue: str | None = None) -> Counts:
        """Return how many workloads wait here, or how many of those of one LocalQueue."""
        lines, backing_off = self._of(local_queue)
        inadmissible = sum(len(line.behind()) for line in lines)
        active = sum(len(line.orders) for line in lines) - inadmissible
        return Counts(active, inadmissible + len(backing_off))

    def oldest(self) -> float | None:
        """Return the earliest time by which a workload is queued here; None where none waits."""
        firsts = (line.orders[0] for line in self._lines.values())  # a line has one priority
        waiting = chain(firsts, (each.order for each in self.backing_off.values()))
        return min((order[1] for order in waiting), default=None)

    def position(self, entry: QueueEntry, local_queue: str | None = None) -> tuple[int, int]:
        """Return how many workloads are before one, and how many there are: see `counts`."""
        lines, backing_off = self._of(local_queue)
        before = sum(bisect_left(line.orders, entry.order) for line in lines)
        before += sum(other.order < entry.order for other in backing_off)
        return before, sum(len(line.orders) for line in lines) + len(backing_off)

    def _of(self, local_queue: str | None) -> tuple[list[Line], list[QueueEntry]]:
        """Return the lines, and what backs off; `local_queue` None for all LocalQueues."""
        lines = [x for x in self._lines.values() if local_queue in (None, x.local_queue)]
        return lines, [x for x in self.backing_off.values() if local_queue in (None, x.local_queue)]

    def followers(self) -> Iterator[tuple[str, str]]:
        """Yield inadmissible workloads, each with the equivalent one that was tried."""
        for line in [*self._lines.values()]:
            if line.inadmissible is not None:
                tried = line.inadmissible[-1]  # it may change while the others are yielded
                yield from ((order[-1], tried) for order in line.behind())

    def head(self, *, blocking: bool = False) -> str | None:
        """Return the workload to try first; one that blocks its strict queue only if `blocking`."""
        while self._heads:
            order, number = self._heads[0]
            line = self._by_number.get(number)
            if line is not None and line.head == order:
                return order[-1] if blocking or self.blocked_by != order[-1] else None
            heappop(self._heads)
        return None

    # -- how it changes

    def add(self, place: QueueEntry) -> bool:
        """Add a workload; return whether there may be a new head."""
        key = place.order[-1]
        if place.backing_off:
            self.backing_off[key] = place
            return False
        line = self._lines.get(place.equivalence)
        if line is None:
            self._last_number += 1
            line = Line(self._last_number, place.local_queue)
            self._lines[place.equivalence] = self._by_number[line.number] = line
        insort(line.orders, place.order)
        if line.head != place.order:
            return False
        self._push(line)
        return True

    def remove(self, place: QueueEntry) -> bool:
        """Remove a workload; return whether it blocked the queue."""
        key = place.order[-1]
        if place.backing_off:
            del self.backing_off[key]
        else:
            self._leave(place)
        unblocked = self.blocked_by == key
        if unblocked:
            self.blocked_by = None
        return unblocked

    def _leave(self, place: QueueEntry) -> None:
        line = self._lines[place.equivalence]
        at = bisect_left(line.orders, place.order)
        del line.orders[at]
        if at == 0:
            self._push(line)
        if not line.orders:
            del self._lines[place.equivalence], self._by_number[line.number]
            self.sweep.discard(line.number)

    def mark_inadmissible(self, place: QueueEntry, cause: Cause) -> None:
        """Stop trying a workload and the equivalent ones behind it until something changes."""
        line = self._lines[place.equivalence]
        line.inadmissible, line.cause = place.order, cause
        self.sweep.discard(line.number)

    def requeue(self, lines: Iterable[Line]) -> bool:
        """Requeue lines and the blocking head; return whether there is a head."""
        self.blocked_by = None
        for line in lines:
            line.inadmissible = None
        self._heads = [(head, x.number) for x in self._lines.values() if (head := x.head)]
        heapify(self._heads)
        return bool(self._heads)

    def requeue_line(self, line: Line) -> None:
        """Requeue one line and the blocking head."""
        self.blocked_by = None
        line.inadmissible = None
        self._push(line)

    def _push(self, line: Line) -> None:
        if line.head is not None:
            heappush(self._heads, (line.head, line.number))


_EMPTY: Final = ClusterQueueLines()


@dataclass(frozen=True, slots=True)
class Provisional:
    """The quota that one waiting workload keeps from others."""

    cluster_queue: str
    usage: Usage
    borrow: int = 0
    """Heads that borrow from no farther up the tree than this may come before it."""

    def exceeds(self, other: "Provisional | None") -> bool:
        """Return whether this is more of anything than another one, or is taken earlier."""
        there: Usage = other.usage if other is not None else {}
        if other is not None and other.borrow > self.borrow:
            return True
        return any(amount > there.get(what, 0) for what, amount in self.usage.items())


class PendingQueues:
    """The place of each workload that waits; the loop and the cycle change it."""

    def __init__(self, options: AdmissionOptions) -> None:
        self._options = options
        self._places: dict[str, QueueEntry] = {}
        self._queues: dict[str, ClusterQueueLines] = {}
        self._ready: set[str] = set()
        """ClusterQueues that may have a head to try."""
        self._lacking_capacity: set[str] = set()
        """ClusterQueues with workloads that have quota and lack room on nodes."""
        self._backing_off: set[str] = set()
        self.lacking: dict[str, WorkloadInfo] = {}
        """Workloads that hold quota and lack room, as they were when that was found. They are not
        tried again before the next sweep, or before they have changed."""
        self.aside: set[str] = set()
        """Workloads that are in no queue for a while, because a write about them failed."""
        self.waiting_for_room: set[str] = set()
        """Workloads whose condition says since when they wait for room, or have some kept."""
        self.preemptors = Preemptors()
        self.provisional: dict[str, Provisional] = {}
        """The quota that waiting workloads keep from others, until they are tried again."""
        self._tree: QuotaTree | None = None

    # -- workloads come, move and go

    def update(self, key: str, view: QueueView, now: float) -> None:
        """Place a workload where it should wait; without a change it keeps its place."""
        workload = view.workloads.get(key)
        found = standing(workload, view, now=now) if workload is not None else None
        kept = self.provisional.get(key)
        if workload is None or not isinstance(found, Queued):
            self.remove(key)
        else:
            self._note_room(workload)
            place = QueueEntry(
                found.cluster_queue,
                workload.queue,
                _equivalence(workload),
                queue_order(workload, self._options),
                found.backing_off,
                found.until,
            )
            if place == self._places.get(key):
                return
            self.remove(key)
            self._note_room(workload)
            self._places[key] = place
            self._add(place)
        if kept is not None:  # it is kept no more
            self.requeue_sharing((kept.cluster_queue,), view, now)

    def remove(self, key: str) -> None:
        """Forget a workload: it has quota, has finished or is gone."""
        place = self._places.pop(key, None)
        self.waiting_for_room.discard(key)
        self.preemptors.forget(key)
        self.provisional.pop(key, None)
        if place is None:
            return
        self._backing_off.discard(key)
        name = place.cluster_queue
        queue = self._queues[name]
        if queue.remove(place):
            self._ready.add(name)
        if queue.is_empty:
            del self._queues[name]
            self._ready.discard(name)

    def _note_room(self, workload: WorkloadInfo) -> None:
        if workload.condition(WorkloadCondition.ROOM_RESERVED) is not None:
            self.waiting_for_room.add(workload.key)
        else:
            self.waiting_for_room.discard(workload.key)

    def _add(self, place: QueueEntry) -> None:
        queue = self._queues.setdefault(place.cluster_queue, ClusterQueueLines())
        if place.backing_off:
            self._backing_off.add(place.order[-1])
        if queue.add(place):
            self._ready.add(place.cluster_queue)

    # -- where they wait

    def queue(self, cluster_queue: str) -> ClusterQueueLines:
        """Return what waits in a ClusterQueue, to be read only."""
        return self._queues.get(cluster_queue, _EMPTY)

    def keys(self, view: QueueView) -> Iterator[str]:
        """Yield the workloads of all ClusterQueues, deleted ones included, for an update.

        Some are yielded twice. The state may change between two of them.
        """
        for name in sorted({*self._queues, *view.cluster_queues}):
            yield from self.queue(name).in_order()
            for local_queue in sorted(view.local_queues_of(name)):
                yield from sorted(view.waiting_in(local_queue))

    def cluster_queue_of(self, key: str) -> str | None:
        """Return the ClusterQueue in which a workload waits."""
        place = self._places.get(key)
        return place.cluster_queue if place else None

    def order(self, key: str) -> Order:
        """Return what a workload is sorted by."""
        return self._places[key].order

    def equivalence(self, key: str) -> Hashable:
        """Return what a workload has in common with equivalent ones."""
        place = self._places[key]
        return place.cluster_queue, place.equivalence

    def position(self, key: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Return the position of a workload and the length: of the ClusterQueue, and LocalQueue."""
        place = self._places.get(key)
        if place is None:
            return None
        queue = self._queues[place.cluster_queue]
        return queue.position(place), queue.position(place, place.local_queue)

    def is_backing_off(self, key: str) -> bool:
        """Return whether a workload was requeued and may not be tried yet."""
        return key in self._backing_off

    def is_inadmissible(self, key: str) -> bool:
        """Return whether a workload waits for something to change."""
        place = self._places.get(key)
        if place is None or place.backing_off:
            return place is not None
        since = self._queues[place.cluster_queue].line(place).inadmissible
        return since is not None and place.order >= since

    def followers(self) -> Iterator[tuple[str, str]]:
        """Yield inadmissible workloads, each with the equivalent one that was tried.

        The lines may change between two of them: ask `is_inadmissible` after a pause.
        """
        for queue in [*self._queues.values()]:
            yield from queue.followers()

    # -- which are tried

    def ready(self) -> list[str]:
        """Return the ClusterQueues that have a head to try, sorted."""
        for name in [name for name in self._ready if self.queue(name).head() is None]:
            self._ready.discard(name)
        return sorted(self._ready)

    def blocking_heads(self) -> Iterator[tuple[str, str]]:
        """Yield the strict ClusterQueues that their head blocks, with that head."""
        for name, queue in self._queues.items():
            key = queue.blocked_by
            if key is not None and key == queue.head(blocking=True):
                yield name, key

    def mark_inadmissible(self, key: str, cause: Cause, *, blocks: bool = False) -> None:
        """Stop trying a workload and its equivalents until what caused it may have changed.

        One that `blocks` remains the head of its strict queue, and all behind it wait.
        """
        place = self._places[key]
        queue = self._queues[place.cluster_queue]
        if blocks:
            queue.blocked_by = key
        else:
            queue.mark_inadmissible(place, cause)
        if cause is Cause.NO_CAPACITY:
            self._lacking_capacity.add(place.cluster_queue)

    def requeue(self, key: str) -> None:
        """Requeue an inadmissible workload."""
        place = self._places.get(key)
        if place is not None and not place.backing_off:
            queue = self._queues[place.cluster_queue]
            queue.requeue_line(queue.line(place))
            self._ready.add(place.cluster_queue)

    def drop_victim(self, victim: str) -> None:
        """Requeue the preemptors of a victim whose eviction was not stored: they choose again."""
        for preemptor in self.preemptors.drop_victim(victim):
            self.requeue(preemptor)

    # -- something has changed

    def requeue_sharing(self, cluster_queues: Iterable[str], view: QueueView, now: float) -> None:
        """Requeue all workloads that share quota with these ClusterQueues.

        Workloads that have quota and lack room are left out: each of them asks all nodes, in
        sweeps of their own.
        """
        self.end_backoffs(now)
        for name in self.sharing_with(cluster_queues, view):
            if name in self._queues:
                self._requeue(name, view, lacking_capacity=False)

    def sharing_with(self, cluster_queues: Iterable[str], view: QueueView) -> list[str]:
        """Return these ClusterQueues and all others of their cohorts, sorted."""
        tree = self._tree = QuotaTree.current(view, self._tree)
        found = set[str]()
        for name in cluster_queues:
            if name not in found:
                found.update((name, *tree.sharing_with(name)))
        return sorted(found)

    def requeue_all(self, view: QueueView, now: float) -> Iterator[None]:
        """Requeue all workloads, those of one ClusterQueue in each step."""
        self.lacking.clear()
        self.end_backoffs(now)
        for name in [*self._queues]:
            if name in self._queues:
                self._requeue(name, view, lacking_capacity=True)
                yield

    def _requeue(self, name: str, view: QueueView, *, lacking_capacity: bool) -> None:
        queue, info = self._queues[name], view.cluster_queues.get(name)
        found = [
            line
            for line in queue.lines()
            if line.inadmissible is not None
            and (lacking_capacity or line.cause is not Cause.NO_CAPACITY)
            and not _still_mismatches(line, info, view)
        ]
        if queue.requeue(found):
            self._ready.add(name)

    def requeue_namespaces(self, namespaces: Collection[str]) -> None:
        """Requeue all workloads of these namespaces: their ClusterQueues may select them now."""
        for name, queue in self._queues.items() if namespaces else ():
            found = [line for line in queue.lines() if line.namespace in namespaces]
            if found:
                queue.requeue(found)
                self._ready.add(name)

    @property
    def lacks_capacity(self) -> bool:
        """Return whether some workload has quota and lacks room on nodes."""
        return bool(self._lacking_capacity or self.lacking)

    @property
    def is_sweeping(self) -> bool:
        """Return whether the last sweep for room still has workloads to try."""
        return any(not queue.is_swept for queue in self._queues.values())

    def sweep(self) -> bool:
        """Requeue workloads that lack room; return whether no ClusterQueue had to be left out.

        A ClusterQueue is left out until the last sweep has tried all of its lines. Otherwise the
        end of a long queue would never be tried where nodes change all the time.
        """
        self.lacking.clear()
        self._lacking_capacity &= self._queues.keys()
        swept = {name for name in self._lacking_capacity if self._queues[name].is_swept}
        for name in swept:
            queue = self._queues[name]
            found = [x for x in queue.lines() if x.is_inadmissible_for(Cause.NO_CAPACITY)]
            queue.requeue(found)
            queue.sweep.update(line.number for line in found)
            self._ready.add(name)
        # A workload that waits for pods of its victims to end shares a line with its equivalents:
        # the last of the line that was judged may be one of these, which lacked quota.
        for key in list(self.preemptors):
            if self.cluster_queue_of(key) in swept:
                self.requeue(key)
        self._lacking_capacity -= swept
        return not self._lacking_capacity

    # -- back-off

    def end_backoffs(self, now: float) -> None:
        """Requeue workloads whose back-off has ended."""
        ends = [(key, self._places[key].until) for key in self._backing_off]
        for key in sorted(key for key, until in ends if until is not None and until <= now):
            place = self._places[key]
            self._queues[place.cluster_queue].remove(place)
            self._backing_off.discard(key)
            place.backing_off, place.until = False, None
            self._add(place)

    def next_backoff_end(self) -> float | None:
        """Return when the next back-off ends, in seconds since the epoch."""
        ends = (self._places[key].until for key in self._backing_off)
        return min((until for until in ends if until is not None), default=None)


def _equivalence(workload: WorkloadInfo) -> Hashable:
    """Return what equivalent workloads have in common.

    One that was preempted may have fewer victims, and one with a closed gate has none.
    """
    left = counts(workload)
    pods = tuple(
        (x.name, left[x.name], x.min_count, x.shape, x.fault, x.resource_claims)
        for x in workload.pod_sets
    )
    gated = bool(workload.closed_gates)
    return workload.queue, workload.priority, pods, workload.was_preempted, gated


def _still_mismatches(line: Line, info: ClusterQueueInfo | None, view: QueueView) -> bool:
    if line.cause is not Cause.NAMESPACE_MISMATCH:
        return False
    return info is None or not selects_namespace(info, line.namespace, view)


Recalled = tuple[float, str, str]
"""The time of a preemption, in seconds since the epoch, its preemptor and its victim."""


def recalled(victim: WorkloadInfo, view: QueueView) -> Recalled | None:
    """Return for which workload one was preempted that has not been admitted since."""
    said = victim.condition(WorkloadCondition.PREEMPTED)
    if said is None or said.status != "True" or victim.finished:
        return None
    named = preemptor_named_in(said.message)
    if named is None:
        return None
    key, uid = named
    found = view.workloads.get(key)
    return (said.transition, key, victim.key) if found and found.meta.uid == uid else None


def recall(found: Iterable[Recalled], pending: PendingQueues) -> None:
    """Have the preemptors that still wait expect their victims, in the order of these."""
    for _, key, victim in sorted(found):
        if pending.cluster_queue_of(key) is not None:
            victims = pending.preemptors.victims(key)
            pending.preemptors.expect(key, victims | {victim}, chosen=True)


_NONE: frozenset[str] = frozenset()
_NO_COUNTS: Final[Mapping[str, int]] = {}
PAUSE: Final = 60.0
"""Seconds between the second and the third choice of victims for room by one workload; each further
pause is longer by as much."""


class Preemptors:
    """The victims that each preemptor waits for, in the order in which they were chosen."""

    def __init__(self) -> None:
        self._victims: dict[str, frozenset[str]] = {}
        self._have_chosen: set[str] = set()
        self._counts: dict[str, Mapping[str, int]] = {}
        """The pods of each pod set for which victims were chosen, by preemptor."""
        self._choices: dict[str, tuple[int, float]] = {}
        """The number of times that a workload chose victims for room, and the last such time."""

    def __iter__(self) -> Iterator[str]:
        """Yield the preemptors."""
        yield from self._victims

    def victims(self, preemptor: str) -> frozenset[str]:
        """Return the victims that a workload waits for."""
        return self._victims.get(preemptor, _NONE)

    def has_chosen(self, preemptor: str) -> bool:
        """Return whether a workload has chosen a victim itself; others wait for those of others."""
        return preemptor in self._have_chosen

    def all_victims(self) -> set[str]:
        """Return the victims of all preemptors."""
        return set().union(*self._victims.values())

    def chosen_for(self, preemptor: str) -> Mapping[str, int]:
        """Return for how many pods of each pod set a workload has chosen the victims it awaits."""
        return self._counts.get(preemptor, _NO_COUNTS)

    def chose(self, preemptor: str, counts: Mapping[str, int]) -> None:
        """Set for how many pods of each pod set a preemptor has chosen its victims."""
        self._counts[preemptor] = counts

    def expect(self, preemptor: str, victims: Collection[str], *, chosen: bool = False) -> None:
        """Set the victims that a workload waits for; without any it is no preemptor.

        One that has `chosen` a victim itself has done so until it waits for none.
        """
        if victims:
            self._victims[preemptor] = frozenset(victims)
            if chosen:
                self._have_chosen.add(preemptor)
        else:
            self._victims.pop(preemptor, None)
            self._have_chosen.discard(preemptor)
            self._counts.pop(preemptor, None)

    # -- pods beside the queue may take the room that was made, again and again

    def count_for_room(self, preemptor: str, now: float) -> None:
        """Count that a workload has chosen victims for room; `now` in seconds since the epoch."""
        times, _ = self._choices.get(preemptor, (0, now))
        self._choices[preemptor] = times + 1, now

    def may_choose_for_room(self, preemptor: str, now: float) -> bool:
        """Return whether a workload may choose victims for room now."""
        times, last = self._choices.get(preemptor, (0, now))
        return not 0 <= now - last < PAUSE * (times - 1)

    def forget(self, preemptor: str) -> None:
        """Forget a workload: it has quota, has finished or is gone."""
        self.expect(preemptor, ())
        self._choices.pop(preemptor, None)

    # -- victims that do not leave

    def drop_victim(self, victim: str) -> list[str]:
        """Forget a victim whose eviction was not stored; return the preemptors that wait for it.

        They remain preemptors, even without victims.
        """
        found = [key for key, victims in self._victims.items() if victim in victims]
        for key in found:
            self._victims[key] -= {victim}
            self._choices.pop(key, None)
            self._counts.pop(key, None)
        return found

    def readmit(self, victim: str) -> None:
        """Forget a victim that has quota again: no preemptor waits for it."""
        for key, victims in list(self._victims.items()):
            if victim in victims:
                self.expect(key, victims - {victim})
