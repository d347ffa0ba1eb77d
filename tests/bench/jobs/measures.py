"""What a history comes to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench import over_time
from tests.bench.jobs.history import JobSeen, Seen
from tests.bench.jobs.ledger import Ledger
from tests.bench.jobs.load import Load
from tests.bench.percentiles import percentile


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds between two events of each Job that had both."""

    count: int
    median: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Times are of the monotonic clock; `start` is the first creation, `end` the last Complete."""

    start: float
    end: float
    created: int
    admitted: int
    complete: int
    failed: int
    evictions: int
    to_admission: Times | None
    """From creation; None without any."""
    to_complete: Times | None
    """From creation."""
    running: Times | None
    """From the first admission to Complete."""
    usage: float
    """Quota that Jobs had in use, on average from start to end, of all there is."""
    broken: int
    """Events after which more quota was held, or in use, than there is."""
    violations: Sequence[str]
    """The first of them, as sentences."""


@dataclass(slots=True)
class _Life:
    created: float | None = None
    admitted: float | None = None
    complete: float | None = None
    failed: bool = False
    evicted: bool = False
    evictions: int = 0

    def take(self, seen: Seen) -> None:
        if isinstance(seen, JobSeen):
            self.created = seen.time if self.created is None else self.created
            if seen.complete and self.complete is None:
                self.complete = seen.time
            self.failed = self.failed or seen.failed
            return
        if seen.admitted and self.admitted is None:
            self.admitted = seen.time
        self.evictions += seen.evicted and not self.evicted
        self.evicted = seen.evicted


def measure(history: Sequence[Seen], load: Load) -> Measures:
    """Return the measures of a history, which begins before the first Job was made."""
    ledger = Ledger(load)
    lives: dict[str, _Life] = {}
    for seen in history:
        ledger.apply(seen)
        lives.setdefault(seen.job, _Life()).take(seen)
    every = lives.values()
    ends = [life.complete for life in every if life.complete is not None]
    start = min((life.created for life in every if life.created is not None), default=0.0)
    end = max(ends, default=start)
    return Measures(
        start=start,
        end=end,
        created=sum(life.created is not None for life in every),
        admitted=sum(life.admitted is not None for life in every),
        complete=len(ends),
        failed=sum(life.failed for life in every),
        evictions=sum(life.evictions for life in every),
        to_admission=_times((life.created, life.admitted) for life in every),
        to_complete=_times((life.created, life.complete) for life in every),
        running=_times((life.admitted, life.complete) for life in every),
        usage=_usage(history, load, start, end),
        broken=ledger.broken,
        violations=tuple(ledger.violations),
    )


def _times(pairs: Iterable[tuple[float | None, float | None]]) -> Times | None:
    # The two watches may show what follows a little before what it follows from.
    found = [max(end - begin, 0.0) for begin, end in pairs if begin is not None and end is not None]
    return Times(len(found), median(found), percentile(found, 0.99)) if found else None


def _usage(history: Sequence[Seen], load: Load, start: float, end: float) -> float:
    used = ((seen.time, seen.job, seen.used) for seen in history if isinstance(seen, JobSeen))
    return over_time.mean(used, start=start, end=end) / (load.at_once * load.request)
