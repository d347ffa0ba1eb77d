"""What a history comes to."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench import over_time
from tests.bench.percentiles import percentile
from tests.bench.queue.history import Seen
from tests.bench.queue.ledger import Ledger
from tests.bench.queue.load import Load


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds from the creation of a Workload to its first admission, both as the watch showed."""

    count: int
    mean: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Times are of the monotonic clock; `start` is the first creation, `end` the last finish."""

    start: float
    end: float
    created: int
    admitted: int
    finished: int
    evictions: int
    waits: Mapping[str, Wait]  # by class, of those that were admitted
    usage: float  # of the nominal quota, on average while there were Workloads to admit
    broken: int  # events after which more quota was held than there is
    violations: Sequence[str]  # the first of them, as sentences


@dataclass(slots=True)
class _Life:
    kind: str
    created: float
    admitted: float | None = None
    finished: float | None = None
    evictions: int = 0
    evicted: bool = False

    def take(self, seen: Seen) -> None:
        if seen.admitted and self.admitted is None:
            self.admitted = seen.time
        if seen.finished and self.finished is None:
            self.finished = seen.time
        self.evictions += seen.evicted and not self.evicted
        self.evicted = seen.evicted


def measure(history: Sequence[Seen], load: Load) -> Measures:
    """Return the measures of a history, which begins before the first Workload was made."""
    ledger = Ledger(load)
    lives: dict[str, _Life] = {}
    for seen in history:
        ledger.apply(seen)
        lives.setdefault(seen.name, _Life(seen.kind, seen.time)).take(seen)
    finishes = [life.finished for life in lives.values() if life.finished is not None]
    start = history[0].time if history else 0.0
    return Measures(
        start=start,
        end=max(finishes, default=start),
        created=len(lives),
        admitted=sum(life.admitted is not None for life in lives.values()),
        finished=len(finishes),
        evictions=sum(life.evictions for life in lives.values()),
        waits=_waits(lives, load),
        usage=_usage(history, lives, load),
        broken=ledger.broken,
        violations=tuple(ledger.violations),
    )


def _waits(lives: Mapping[str, _Life], load: Load) -> dict[str, Wait]:
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for life in lives.values():
        if life.admitted is not None:
            seconds[life.kind].append(life.admitted - life.created)
    return {
        kind: Wait(len(each), sum(each) / len(each), percentile(each, 0.99))
        for kind in load.classes()
        if (each := seconds[kind])
    }


def _usage(history: Sequence[Seen], lives: Mapping[str, _Life], load: Load) -> float:
    """Return the mean share of quota in use, from the first creation to the last admission."""
    admissions = [life.admitted for life in lives.values() if life.admitted is not None]
    if not admissions:
        return 0.0
    used = ((seen.time, seen.name, seen.held if seen.admitted else 0) for seen in history)
    return over_time.mean(used, start=history[0].time, end=max(admissions)) / load.nominal
