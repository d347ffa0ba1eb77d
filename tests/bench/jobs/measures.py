"""What a history of Jobs and their Workloads comes to."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tests.bench.jobs.load import Load
from tests.bench.queue.measures import Books, Ledger, Life, Seen, Times, times
from tests.bench.queue.wire import JobEvent
from tests.bench.tables import mean_over_time


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Job after one event; amounts are thousandths of a core."""

    time: float
    name: str
    queue: str
    used: int = 0
    """By the pods that it may have running."""
    complete: bool = False
    failed: bool = False


Event = JobSeen | Seen


def seen(event: JobEvent, now: float) -> JobSeen:
    """Return what an event says."""
    job = event.object
    return JobSeen(
        time=now,
        name=job.metadata.name,
        queue=job.queue,
        used=0 if event.type == "DELETED" else job.used,
        complete=job.is_true("Complete"),
        failed=job.is_true("Failed"),
    )


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


def measure(history: Sequence[Event], load: Load) -> Measures:
    """Return the measures of a history, which begins before the first Job was made.

    There are two books of the same quota, each exact by itself: what Workloads hold, and what Jobs
    use. The second asks nothing of the controller but that it starts Jobs and stops them.
    """
    ledger, used = Ledger(load.quotas()), Books(load.quotas())
    lives: dict[str, Life] = {}
    failed = set()
    for each in history:
        life = lives.setdefault(each.name, Life())
        if isinstance(each, Seen):
            ledger.apply(each)
            life.take(each)
            continue
        used.put(each.name, each.queue, each.used)
        ledger.note(f"Jobs: {fault}" for fault in used.exceeded(each.name))
        life.created = each.time if life.created is None else life.created
        if each.complete and life.finished is None:
            life.finished = each.time
        failed.update([each.name] if each.failed else [])
    every = lives.values()
    ends = [life.finished for life in every if life.finished is not None]
    start = min((life.created for life in every if life.created is not None), default=0.0)
    end = max(ends, default=start)
    in_use = ((each.time, each.name, each.used) for each in history if isinstance(each, JobSeen))
    return Measures(
        start=start,
        end=end,
        created=sum(life.created is not None for life in every),
        admitted=sum(life.admitted is not None for life in every),
        complete=len(ends),
        failed=len(failed),
        evictions=sum(life.evictions for life in every),
        to_admission=times((life.created, life.admitted) for life in every),
        to_complete=times((life.created, life.finished) for life in every),
        running=times((life.admitted, life.finished) for life in every),
        usage=mean_over_time(in_use, start=start, end=end) / (load.at_once * load.request),
        broken=ledger.broken,
        violations=tuple(ledger.violations),
    )
