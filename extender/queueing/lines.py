"""The workloads of one ClusterQueue, in lines of equivalent ones.

Equivalent workloads of a LocalQueue form one line, the oldest first. When the head of a line finds
no quota, the whole line becomes inadmissible, and so does each workload that joins it behind that
head: what did not fit for one does not fit for the next. So a queue of thousands in a few lines
costs what a few workloads cost, whenever quota is released.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from itertools import chain

from extender.state.queue.records import Order


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
