"""The workloads that wait, by ClusterQueue, and which of them are worth a try.

Equal workloads of a LocalQueue stand in one line, the oldest first. When its head finds no quota
the whole line is parked, and whoever joins it behind that head with it: what did not fit for one
does not fit for the next. So a queue of thousands in a few lines costs what a few cost, whenever
quota comes back.

Deterministic, and the same however often an update is repeated.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain

from extender.queueing.cohorts import path
from extender.queueing.flavors import counts
from extender.queueing.options import Options
from extender.queueing.order import Order, queue_order
from extender.queueing.standing import Queued, is_welcome, standing
from extender.state.queues.records import FlavorResource, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.queues.usage import Usage

_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Counts:
    """How many workloads of a queue wait to be tried, and how many for something to change."""

    active: int = 0
    inadmissible: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """Quota that a workload takes in each cycle without having it."""

    cluster_queue: str
    usage: Usage
    behind: int = 0
    """Those that borrow from no farther up the tree than this may come before it."""

    def exceeds(self, other: "Trial | None") -> bool:
        """Return whether this is more of anything than another one, or is taken earlier."""
        there: Usage = other.usage if other is not None else {}
        if other is not None and other.behind > self.behind:
            return True
        return any(amount > there.get(what, 0) for what, amount in self.usage.items())


@dataclass(slots=True, eq=False)
class _Line:
    """Equal workloads."""

    number: int
    namespace: str
    local_queue: str
    orders: list[Order] = field(default_factory=list)
    parked: Order | None = None
    """The head that found nothing: it and all behind it are not tried."""
    unwelcome: bool = False
    """Parked because the ClusterQueue does not take its namespace."""
    roomless: bool = False
    """Parked with quota, for want of room on nodes."""

    @property
    def head(self) -> Order | None:
        """The first that may be tried."""
        if not self.orders or (self.parked is not None and self.orders[0] >= self.parked):
            return None
        return self.orders[0]


@dataclass(slots=True, eq=False)
class _Queue:
    """One ClusterQueue's lines."""

    lines: dict[Hashable, _Line] = field(default_factory=dict)
    by_number: dict[int, _Line] = field(default_factory=dict)
    heads: list[tuple[Order, int]] = field(default_factory=list)
    """A heap of heads and their lines; what is not the line's head any more is skipped."""
    late: set[str] = field(default_factory=set)
    """Who is backing off."""
    blocked: str | None = None
    """In strict order: the head that found nothing, and bars the way."""
    sweep: set[int] = field(default_factory=set)
    """Lines that are to be tried for room before any of them is tried a second time."""

    @property
    def is_swept(self) -> bool:
        """Whether all have been tried for room that were to be; in strict order it is one."""
        return not self.sweep or self.blocked is not None

    def push(self, line: _Line) -> None:
        """Have the head of a line tried."""
        if line.head is not None:
            heappush(self.heads, (line.head, line.number))

    def sort(self) -> None:
        """Have the heads of all lines tried."""
        self.heads = [(x.head, x.number) for x in self.lines.values() if x.head is not None]
        heapify(self.heads)

    def first(self) -> Order | None:
        """Return the first head."""
        while self.heads:
            order, number = self.heads[0]
            line = self.by_number.get(number)
            if line is not None and line.head == order:
                return order
            heappop(self.heads)
        return None


@dataclass(slots=True, eq=False)
class _Place:
    """Where one workload stands."""

    cluster_queue: str
    equals: Hashable
    order: Order
    late: bool = False
    until: float | None = None


class PendingQueues:
    """Who waits where; changed by the shell as workloads change, and by the cycle."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._places: dict[str, _Place] = {}
        self._queues: dict[str, _Queue] = {}
        self._ready: set[str] = set()
        self._preempting: dict[str, frozenset[str]] = {}
        self._roomless: set[str] = set()
        """ClusterQueues with somebody who has quota and no room."""
        self._late: set[str] = set()
        self._trials: dict[str, Trial] = {}
        """Who waits and keeps quota from others meanwhile."""
        self._lines = 0
        self._trees = _Trees()

    # -- what the shell tells

    def update(self, key: str, snapshot: QueueSnapshot, now: float) -> None:
        """Give a workload the place that it should have; without a change it keeps its own."""
        workload = snapshot.workloads.get(key)
        found = standing(workload, snapshot, now=now) if workload is not None else None
        trial = self._trials.get(key)
        if workload is None or not isinstance(found, Queued):
            self.remove(key)
            self._let_go(trial, snapshot, now)
            return
        place = _Place(
            found.cluster_queue,
            _equals(workload),
            queue_order(workload, self._options),
            found.backing_off,
            found.until,
        )
        if _is_same(self._places.get(key), place):
            return
        self.remove(key)
        self._places[key] = place
        self._stand(key, place)
        self._let_go(trial, snapshot, now)

    def keys(self, snapshot: QueueSnapshot) -> Iterator[str]:
        """Yield the workloads of all ClusterQueues, those of deleted ones too, for an update.

        Some are yielded twice. The state may change between two of them.
        """
        for name in sorted({*self._queues, *snapshot.cluster_queues}):
            yield from self.positions(name)
            for local_queue in sorted(snapshot.local_queues_of(name)):
                yield from sorted(snapshot.waiting_in(local_queue))

    def together(self, cluster_queues: Iterable[str], snapshot: QueueSnapshot) -> list[str]:
        """Return these ClusterQueues, and all others that share quota with them."""
        return self._trees.together(cluster_queues, snapshot)

    def remove(self, key: str) -> None:
        """Forget a workload: it has quota, has ended or is gone."""
        place = self._places.pop(key, None)
        self._preempting.pop(key, None)
        self._trials.pop(key, None)
        if place is None:
            return
        queue = self._queues[place.cluster_queue]
        if place.late:
            queue.late.discard(key)
            self._late.discard(key)
        else:
            self._leave(queue, place)
        if queue.blocked == key:
            queue.blocked = None
            self._ready.add(place.cluster_queue)
        if not queue.lines and not queue.late:
            del self._queues[place.cluster_queue]
            self._ready.discard(place.cluster_queue)

    def release(self, cluster_queues: Iterable[str], snapshot: QueueSnapshot, now: float) -> None:
        """Have everybody tried again who shares quota with these ClusterQueues.

        Not those who had quota and no room: each of them asks all nodes, in a turn of their own.
        """
        self.due(now)
        for name in self._trees.together(cluster_queues, snapshot):
            if name in self._queues:
                self._release(name, snapshot, roomless=False)

    def release_all(self, snapshot: QueueSnapshot, now: float) -> Iterator[None]:
        """Have all workloads tried again, those of one ClusterQueue at a time."""
        self.due(now)
        for name in [*self._queues]:
            if name in self._queues:
                self._release(name, snapshot)
                yield

    def release_namespaces(self, namespaces: Collection[str]) -> None:
        """Have everybody in these namespaces tried again: who takes them may be another one."""
        for name, queue in self._queues.items() if namespaces else ():
            found = [line for line in queue.lines.values() if line.namespace in namespaces]
            for line in found:
                line.parked, line.unwelcome, line.roomless = None, False, False
                queue.push(line)
            if found:
                queue.blocked = None
                self._ready.add(name)

    @property
    def sweeping(self) -> bool:
        """Whether there are some who were to be tried for room, and have not been."""
        return any(not queue.is_swept for queue in self._queues.values())

    @property
    def lacks_room(self) -> bool:
        """Whether anybody was left alone for want of room."""
        return bool(self._roomless)

    def release_roomless(self) -> bool:
        """Have those tried again who had quota and no room; return whether it was their turn.

        It is not while others of their queue have still to be tried since the last time: else the
        end of a long queue would never be, where nodes change all the time.
        """
        self._roomless &= self._queues.keys()
        again = {name for name in self._roomless if self._queues[name].is_swept}
        for name in again:
            queue = self._queues[name]
            queue.blocked = None
            for line in queue.lines.values():
                if line.roomless:
                    line.parked, line.roomless = None, False
                    queue.push(line)
                    queue.sweep.add(line.number)
            self._ready.add(name)
        # A workload that waits for pods of its victims to end stands in a line with its equals:
        # one of these that lacked quota may have been the last of the line that was judged.
        for key in list(self._preempting):
            place = self._places.get(key)
            if place is not None and place.cluster_queue in again:
                self.retry(key)
        self._roomless -= again
        return not self._roomless

    def due(self, now: float) -> tuple[str, ...]:
        """Let those stand in line again whose back-off has ended, and return them."""
        ended = sorted(key for key in self._late if _is_over(self._places[key], now))
        for key in ended:
            place = self._places[key]
            place.late, place.until = False, None
            self._late.discard(key)
            self._queues[place.cluster_queue].late.discard(key)
            self._stand(key, place)
        return tuple(ended)

    def next_due(self) -> float | None:
        """Return when the next back-off ends, in seconds since the epoch."""
        late = (self._places[key].until for key in self._late)
        return min((until for until in late if until is not None), default=None)

    def spared(self, victim: str) -> None:
        """Have a victim chosen again: the API server did not take its eviction."""
        for key, victims in list(self._preempting.items()):
            if victim in victims:
                self._preempting[key] = victims - {victim}
                self.retry(key)

    def stays(self, key: str) -> None:
        """Have nobody count on a workload any more that was a victim, and has quota again."""
        for each, victims in list(self._preempting.items()):
            if key in victims:
                self.preempts(each, victims - {key})

    def retry(self, key: str) -> None:
        """Have a workload tried again."""
        place = self._places.get(key)
        if place is not None and not place.late:
            queue = self._queues[place.cluster_queue]
            line = queue.lines[place.equals]
            line.parked, line.unwelcome, line.roomless = None, False, False
            queue.push(line)
            queue.blocked = None
            self._ready.add(place.cluster_queue)

    def _let_go(self, trial: Trial | None, snapshot: QueueSnapshot, now: float) -> None:
        """Have those tried again for whom there was no quota beside one that waits no more."""
        if trial is not None:
            self.release((trial.cluster_queue,), snapshot, now)

    # -- what people ask

    def orders(self, cluster_queue: str) -> list[Order]:
        """Return what the workloads of a ClusterQueue are sorted by, unsorted; last is the key."""
        queue = self._queues.get(cluster_queue)
        if queue is None:
            return []
        standing = chain.from_iterable(line.orders for line in queue.lines.values())
        return [*standing, *(self._places[key].order for key in queue.late)]

    def positions(self, cluster_queue: str) -> list[str]:
        """Return the workloads of a ClusterQueue, first to be served first."""
        return [order[-1] for order in sorted(self.orders(cluster_queue))]

    def position(self, key: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Return the place of a workload and how many wait, in its ClusterQueue and LocalQueue."""
        place = self._places.get(key)
        queue = self._queues.get(place.cluster_queue) if place else None
        if place is None or queue is None:
            return None
        local, found = _queue_of(place.equals), [[0, 0], [0, 0]]
        for line in queue.lines.values():
            before, length = bisect_left(line.orders, place.order), len(line.orders)
            for each in found if line.local_queue == local else found[:1]:
                each[0] += before
                each[1] += length
        for other in map(self._places.__getitem__, queue.late):
            for each in found if _queue_of(other.equals) == local else found[:1]:
                each[0] += other.order < place.order
                each[1] += 1
        return (found[0][0], found[0][1]), (found[1][0], found[1][1])

    def counts(self, cluster_queue: str, local_queue: str | None = None) -> Counts:
        """Return how many wait in a ClusterQueue, or of those the ones of a LocalQueue."""
        queue = self._queues.get(cluster_queue)
        if queue is None:
            return Counts()
        lines = [x for x in queue.lines.values() if local_queue in (None, x.local_queue)]
        parked = sum(_parked(line) for line in lines)
        late = sum(
            local_queue is None or _queue_of(self._places[key].equals) == local_queue
            for key in queue.late
        )
        return Counts(sum(len(line.orders) for line in lines) - parked, parked + late)

    def cluster_queue_of(self, key: str) -> str | None:
        """Return the ClusterQueue in which a workload waits."""
        place = self._places.get(key)
        return place.cluster_queue if place else None

    def is_late(self, key: str) -> bool:
        """Return whether a workload was sent back and may not be tried yet."""
        return key in self._late

    def followers(self) -> Iterator[tuple[str, str]]:
        """Yield those that are parked behind an equal one, each with the one that was tried.

        The lines may change meanwhile: ask `is_parked` after a pause.
        """
        for queue in [*self._queues.values()]:
            for line in [*queue.lines.values()]:
                if line.parked is not None:
                    behind = line.orders[bisect_left(line.orders, line.parked) :]
                    tried = line.parked[-1]  # it may be released while the others are yielded
                    yield from ((order[-1], tried) for order in behind)

    def is_parked(self, key: str) -> bool:
        """Return whether a workload waits for something to change."""
        place = self._places.get(key)
        if place is None or place.late:
            return place is not None
        line = self._queues[place.cluster_queue].lines[place.equals]
        return line.parked is not None and place.order >= line.parked

    # -- what the cycle does

    def ready(self) -> list[str]:
        """Return the ClusterQueues that have somebody to try."""
        for name in [name for name in self._ready if self.head(name) is None]:
            self._ready.discard(name)
        return sorted(self._ready)

    def head(self, cluster_queue: str, *, blocked: bool = False) -> str | None:
        """Return who is to be tried first; in strict order a `blocked` one only if asked for."""
        queue = self._queues.get(cluster_queue)
        order = queue.first() if queue else None
        if queue is None or order is None:
            return None
        return order[-1] if blocked or queue.blocked != order[-1] else None

    def barring(self) -> Iterator[tuple[str, str]]:
        """Yield the strict ClusterQueues whose head found nothing, and it."""
        for name, queue in self._queues.items():
            if queue.blocked is not None and queue.blocked == self.head(name, blocked=True):
                yield name, queue.blocked

    def order(self, key: str) -> Order:
        """Return what a workload is sorted by."""
        return self._places[key].order

    def park(self, key: str, *, unwelcome: bool = False, roomless: bool = False) -> None:
        """Leave a workload and its equals alone until quota is released, or there may be room."""
        place = self._places[key]
        queue = self._queues[place.cluster_queue]
        line = queue.lines[place.equals]
        line.parked, line.unwelcome, line.roomless = place.order, unwelcome, roomless
        queue.sweep.discard(line.number)
        if roomless:
            self._roomless.add(place.cluster_queue)

    def take_on_trial(
        self, key: str, usage: Mapping[FlavorResource, int], *, behind: int = 0
    ) -> None:
        """Remember what a workload that waits keeps from others until it is tried again."""
        self._trials[key] = Trial(self._places[key].cluster_queue, dict(usage), behind)

    def trials(self) -> Mapping[str, Trial]:
        """Return by workload what it keeps from others."""
        return self._trials

    def end_trial(self, key: str) -> Trial | None:
        """Forget what a workload keeps from others, and return it."""
        return self._trials.pop(key, None)

    def block(self, key: str, *, roomless: bool = False) -> None:
        """Let nobody pass a workload: its queue is strict."""
        place = self._places[key]
        if roomless:
            self._roomless.add(place.cluster_queue)
        self._queues[place.cluster_queue].blocked = key

    def preempts(self, key: str, victims: Collection[str]) -> None:
        """Remember for whom quota is being given back, and by whom; nobody: not any more."""
        if victims:
            self._preempting[key] = frozenset(victims)
        else:
            self._preempting.pop(key, None)

    def preempting(self) -> Iterator[str]:
        """Yield those who wait for their victims to leave."""
        yield from self._preempting

    def victims(self, key: str) -> frozenset[str]:
        """Return whom a workload has had chosen to go."""
        return self._preempting.get(key, _NOBODY)

    # -- lines

    def _stand(self, key: str, place: _Place) -> None:
        queue = self._queues.setdefault(place.cluster_queue, _Queue())
        if place.late:
            queue.late.add(key)
            self._late.add(key)
            return
        line = queue.lines.get(place.equals)
        if line is None:
            self._lines += 1
            local_queue = _queue_of(place.equals)
            line = _Line(self._lines, local_queue.split("/", 1)[0], local_queue)
            queue.lines[place.equals] = queue.by_number[line.number] = line
        insort(line.orders, place.order)
        if line.head == place.order:
            queue.push(line)
            self._ready.add(place.cluster_queue)

    def _leave(self, queue: _Queue, place: _Place) -> None:
        line = queue.lines[place.equals]
        at = bisect_left(line.orders, place.order)
        del line.orders[at]
        if at == 0:
            queue.push(line)
        if not line.orders:
            del queue.lines[place.equals], queue.by_number[line.number]
            queue.sweep.discard(line.number)

    def _release(self, name: str, snapshot: QueueSnapshot, *, roomless: bool = True) -> None:
        queue, info = self._queues[name], snapshot.cluster_queues.get(name)
        queue.blocked = None
        for line in queue.lines.values():
            if line.unwelcome and not (info and is_welcome(line.namespace, info, snapshot)):
                continue
            if line.roomless and not roomless:
                continue
            line.parked, line.unwelcome, line.roomless = None, False, False
        queue.sort()
        if queue.heads:
            self._ready.add(name)


class _Trees:
    """Which ClusterQueues share quota; asked again when the structure has changed."""

    def __init__(self) -> None:
        self._version = -1
        self._root: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}

    def together(self, names: Iterable[str], snapshot: QueueSnapshot) -> list[str]:
        """Return these ClusterQueues and all others of their trees."""
        if self._version != snapshot.structure_version:
            self._read(snapshot)
        names = set(names)
        alone = {name for name in names if name not in self._root}
        roots = {self._root[name] for name in names if name in self._root}
        return sorted(alone.union(*(self._members[root] for root in roots)))

    def _read(self, snapshot: QueueSnapshot) -> None:
        self._version = snapshot.structure_version
        self._root, self._members = {}, {}
        for queue in snapshot.cluster_queues.values():
            way = path(queue.cohort, snapshot.cohorts)
            if way:
                self._root[queue.name] = way[-1]
                self._members.setdefault(way[-1], []).append(queue.name)


def _equals(workload: WorkloadInfo) -> Hashable:
    """Return what equal workloads have in common, their LocalQueue first."""
    left = counts(workload)
    pods = tuple((x.name, left[x.name], x.min_count, x.shape, x.fault) for x in workload.pod_sets)
    return workload.queue, workload.priority, pods


def _queue_of(equals: Hashable) -> str:
    assert isinstance(equals, tuple)
    return str(equals[0])


def _is_same(before: _Place | None, after: _Place) -> bool:
    return before is not None and (
        (before.cluster_queue, before.equals, before.order, before.late)
        == (after.cluster_queue, after.equals, after.order, after.late)
        and (not before.late or before.until == after.until)
    )


def _is_over(place: _Place, now: float) -> bool:
    return place.until is not None and place.until <= now


def _parked(line: _Line) -> int:
    if line.parked is None:
        return 0
    return len(line.orders) - bisect_left(line.orders, line.parked)
