"""What a history of Workloads and Jobs comes to: how long they waited, what they held, what must
not be."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

import msgspec

from tests.bench.queue.jobs import CLASS
from tests.bench.queue.load import Load
from tests.bench.queue.wire import JobEvent, WorkloadEvent
from tests.bench.series import mean_over_time, percentile

_MOST_NAMED = 5


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One Workload after one event; `time` is this machine's monotonic clock."""

    time: float
    name: str
    """That of its Job, where it has one."""
    kind: str
    """Its class."""
    queue: str
    granted: int = 0
    """Quota of its admission in thousandths of a core."""
    held: int = 0
    """What is left of that."""
    held_in: str = ""
    """The ClusterQueue that its admission names."""
    admitted: bool = False
    evicted: bool = False
    finished: bool = False

    @property
    def used(self) -> int:
        """What it holds once it is admitted."""
        return self.held if self.admitted else 0


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Job after one event; amounts are thousandths of a core."""

    time: float
    name: str
    queue: str
    used: int = 0
    """By the pods that it may have running."""
    finished: bool = False
    """It is complete."""
    failed: bool = False


def seen(event: WorkloadEvent, now: float) -> Seen:
    """Return what an event says. Of a Workload that was deleted nothing is left."""
    workload = event.object
    gone = event.type == "DELETED"
    return Seen(
        time=now,
        name=workload.metadata.job or workload.metadata.name,
        kind=CLASS if workload.metadata.job else workload.class_name,
        queue=workload.spec.queue_name,
        granted=0 if gone else workload.granted,
        held=0 if gone else workload.held,
        held_in=workload.held_in,
        admitted=workload.is_true("Admitted") and not gone,
        evicted=workload.is_true("Evicted"),
        finished=workload.is_true("Finished"),
    )


def seen_of_job(event: JobEvent, now: float) -> JobSeen:
    """Return what an event says."""
    job = event.object
    return JobSeen(
        time=now,
        name=job.metadata.name,
        queue=job.queue,
        used=0 if event.type == "DELETED" else job.used,
        finished=job.is_true("Complete"),
        failed=job.is_true("Failed"),
    )


class Books:
    """What is in use of each queue and cohort, by name of what uses it, in thousandths of a core.

    A queue may have its nominal quota in use and what it may borrow, and a cohort what its queues
    have together.
    """

    def __init__(self, load: Load) -> None:
        self._queues = {queue.name: queue for queue in load.queues()}
        self._quota: defaultdict[str, int] = defaultdict(int)
        for queue in self._queues.values():
            self._quota[queue.cohort] += queue.settings.nominal_quota
        self._used: dict[str, tuple[str, int]] = {}
        self._by_queue: defaultdict[str, int] = defaultdict(int)
        self._by_cohort: defaultdict[str, int] = defaultdict(int)

    def put(self, name: str, queue: str, amount: int) -> None:
        """Note what `name` has in use now, in place of what it had."""
        self._move(name, -1)
        if amount:
            self._used[name] = queue, amount
            self._move(name, +1)
        else:
            self._used.pop(name, None)

    def exceeded(self, name: str) -> Iterator[str]:
        """Yield, as sentences, what is in use beyond quota where `name` has something in use."""
        if name not in self._used:
            return
        queue = self._queues[self._used[name][0]]
        if queue.limit is not None and (used := self._by_queue[queue.name]) > queue.limit:
            yield f"{queue.name} holds {used}m of at most {queue.limit}m with {name}"
        if (used := self._by_cohort[queue.cohort]) > (quota := self._quota[queue.cohort]):
            yield f"{queue.cohort} holds {used}m of {quota}m with {name}"

    def _move(self, name: str, sign: int) -> None:
        queue, amount = self._used.get(name, ("", 0))
        self._by_queue[queue] += sign * amount
        if queue in self._queues:
            self._by_cohort[self._queues[queue].cohort] += sign * amount


class Ledger:
    """How much quota each Workload holds, event by event, and whether one held what was not there.

    A Workload holds quota from the event in which it is reserved to that in which it is finished,
    deleted, or has let it go.
    """

    def __init__(self, load: Load) -> None:
        self.violations: list[str] = []
        """The first ones, as sentences."""
        self.broken = 0
        """Events that showed one."""
        self._requests = {name: kind.request for name, kind in load.classes().items()}
        self._books = Books(load)

    def apply(self, seen: Seen) -> None:
        """Take in one event."""
        self._books.put(seen.name, seen.held_in, seen.held)
        self.note(self._faults(seen))

    def note(self, faults: Iterable[str]) -> None:
        """Count an event that showed faults, and keep the first of all."""
        found = list(faults)
        self.broken += bool(found)
        self.violations += found[: _MOST_NAMED - len(self.violations)]

    def _faults(self, seen: Seen) -> Iterator[str]:
        if not seen.granted:
            return
        if seen.held_in != seen.queue:
            yield f"{seen.name} of queue {seen.queue} holds quota of {seen.held_in!r}"
            return
        if seen.granted != (request := self._requests[seen.kind]):
            yield f"{seen.name} requests {request}m and was granted {seen.granted}m"
        yield from self._books.exceeded(seen.name)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds between two events of each that had both."""

    count: int
    mean: float
    median: float
    p99: float


def times(pairs: Iterable[tuple[float | None, float | None]]) -> Times | None:
    """Return the times between two events; None where nothing had both."""
    # Two watches may show what follows a little before what it follows from.
    found = [max(end - begin, 0.0) for begin, end in pairs if begin is not None and end is not None]
    if not found:
        return None
    return Times(len(found), mean(found), median(found), percentile(found, 0.99))


@dataclass(slots=True)
class Life:
    """What happened to one Workload, or Job."""

    kind: str = ""
    created: float | None = None
    admitted: float | None = None
    finished: float | None = None
    evictions: int = 0
    evicted: bool = False

    def take(self, seen: Seen) -> None:
        """Take in an event of the Workload."""
        self.kind = seen.kind
        if seen.admitted and self.admitted is None:
            self.admitted = seen.time
        self.evictions += seen.evicted and not self.evicted
        self.evicted = seen.evicted


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Times are of the monotonic clock; `start` is the first creation, `end` the last finish."""

    start: float
    end: float
    created: int
    admitted: int
    finished: int
    failed: int
    evictions: int
    waits: Mapping[str, Times]
    """By class and by what they are from and to, of those that had both."""
    usage: float
    """Of the nominal quota, on average from the first creation to the last admission."""
    broken: int
    """Events after which more quota was held, or in use, than there is."""
    violations: Sequence[str]
    """The first of them, as sentences."""


def measure(history: Sequence[Seen | JobSeen], load: Load) -> Measures:
    """Return the measures of a history, which begins before anything was made.

    Where there are Jobs, these say when each is created and finished, and what is in use. There are
    then two books of the same quota, each exact by itself: what Workloads hold, and what Jobs use.
    The second asks nothing of the controller but that it starts Jobs and stops them.
    """
    ledger, used = Ledger(load), Books(load)
    with_jobs = any(isinstance(each, JobSeen) for each in history)
    asked = [each for each in history if isinstance(each, JobSeen) is with_jobs]
    lives: defaultdict[str, Life] = defaultdict(Life)
    for each in history:
        if isinstance(each, Seen):
            ledger.apply(each)
            lives[each.name].take(each)
            continue
        used.put(each.name, each.queue, each.used)
        ledger.note(f"Jobs: {fault}" for fault in used.exceeded(each.name))
    for each in asked:
        life = lives[each.name]
        life.created = each.time if life.created is None else life.created
        if each.finished and life.finished is None:
            life.finished = each.time
    every = list(lives.values())
    finishes = [life.finished for life in every if life.finished is not None]
    start = asked[0].time if asked else 0.0
    waits: dict[str, Times | None] = {}
    for kind in load.classes():
        of = [life for life in every if life.kind == kind]
        waits[f"{kind}, created to admitted"] = times((each.created, each.admitted) for each in of)
        waits[f"{kind}, created to finished"] = times((each.created, each.finished) for each in of)
        waits[f"{kind}, admitted to finished"] = times(
            (each.admitted, each.finished) for each in of
        )
    admissions = [life.admitted for life in every if life.admitted is not None]
    in_use = ((each.time, each.name, each.used) for each in asked)
    return Measures(
        start=start,
        end=max(finishes, default=start),
        created=sum(life.created is not None for life in every),
        admitted=len(admissions),
        finished=len(finishes),
        failed=len({each.name for each in asked if isinstance(each, JobSeen) and each.failed}),
        evictions=sum(life.evictions for life in every),
        waits={name: each for name, each in waits.items() if each},
        usage=mean_over_time(in_use, start=start, end=max(admissions, default=start))
        / load.nominal,
        broken=ledger.broken,
        violations=tuple(ledger.violations),
    )
