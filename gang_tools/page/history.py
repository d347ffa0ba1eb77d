"""The last hours of the queues, kept in memory while the page runs; no I/O, no clock."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from statistics import fmean
from typing import Any, Final

from extender.api.reasons import EvictionReason
from extender.api.wellknown import ConditionType, WorkloadCondition
from extender.explain.facts import Facts
from extender.state.cluster.view import ClusterView

SAMPLE_SECONDS: Final = 60.0
_HOUR: Final = 3600
MOST: Final = 360
"""The number of samples to keep: six hours."""
_LINES: Final = 7
"""The most queues with a line of their own."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The queues at one time, in seconds since the epoch."""

    at: float
    use: dict[str, int]
    """The use of each ClusterQueue, in per cent of the nominal quota of its busiest resource."""
    waiting: dict[str, int]
    started: int
    """Workloads that were admitted since the sample before."""
    preempted: int
    """Workloads that were preempted since then."""


@dataclass(frozen=True, slots=True)
class TimeShown:
    """The use and the waiting of the busiest queues over time, and all queues in numbers."""

    use: dict[str, list[tuple[float, int]]]
    waiting: dict[str, list[tuple[float, int]]]
    rows: list[dict[str, Any]]
    note: str
    numbers: dict[str, int]


class History:
    """Samples of the queues, the oldest first."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=MOST)
        self._before: tuple[list[float], list[float]] = [], []
        """When workloads were admitted and preempted in the hour before the first sample."""
        self.note = "Of the time since the page runs, six hours at most."

    def put_before(self, earlier: Sequence[Sample]) -> None:
        """Put samples before the first; the last of them counts what the first does."""
        *before, same = earlier
        first, *later = self.samples
        self._before = [], []
        first = replace(first, started=same.started, preempted=same.preempted)
        self.samples = deque([*before, first, *later], MOST)

    def is_due(self, now: float) -> bool:
        """Return whether it is time for the next sample; `now` in seconds since the epoch."""
        return not self.samples or now >= self.samples[-1].at + SAMPLE_SECONDS

    def add(self, facts: Facts) -> None:
        """Record the state of the queues."""
        since = self.samples[-1].at if self.samples else facts.now - _HOUR
        started = _turned(facts, WorkloadCondition.ADMITTED, since=since)
        preempted = _turned(
            facts, WorkloadCondition.EVICTED, since=since, reason=EvictionReason.PREEMPTED
        )
        if not self.samples:
            self._before, started, preempted = (started, preempted), [], []
        names = [*facts.queues.cluster_queues]
        waiting = {name: len(facts.pending.queue(name).orders()) for name in names}
        self.samples.append(
            Sample(
                facts.now,
                {name: percent for name in names if (percent := _use(name, facts))},
                {name: number for name, number in waiting.items() if number},
                len(started),
                len(preempted),
            )
        )

    def shown(self, cluster: ClusterView) -> TimeShown:
        """Return what the page shows of the samples, and of the gangs that are partial now."""
        samples = [*self.samples]
        since = samples[-1].at - _HOUR if samples else 0
        hour = [each for each in samples if each.at > since]
        started, preempted = (sum(at > since for at in times) for times in self._before)
        total = Counter[str]()
        for each in samples:
            total.update(each.use)
            total.update(dict.fromkeys(each.waiting, 1))
        busiest = [name for name, _ in total.most_common(_LINES)]
        groups = filter(None, map(cluster.pod_group, cluster.pod_groups))
        parted = (group.status.condition(ConditionType.PARTIAL) for group in groups)
        partial = sum(each is not None and each.status == "True" for each in parted)
        return TimeShown(
            {name: [(each.at, each.use.get(name, 0)) for each in samples] for name in busiest},
            {name: [(each.at, each.waiting.get(name, 0)) for each in samples] for name in busiest},
            [_row(name, hour) for name, _ in total.most_common()],
            self.note,
            {
                "workloads started in the last hour": started + sum(each.started for each in hour),
                "preempted in the last hour": preempted + sum(each.preempted for each in hour),
                "gangs that are partial now": partial,
            },
        )


def _use(name: str, facts: Facts) -> int:
    node = facts.tree.queue(name)
    shares = (
        100 * used / node.quotas[what].nominal
        for what, used in node.usage.items()
        if what in node.quotas and node.quotas[what].nominal
    )
    return round(max(shares, default=0))


def _turned(
    facts: Facts, kind: WorkloadCondition, *, since: float, reason: str | None = None
) -> list[float]:
    """Return when workloads got a condition since a sample; its time is in whole seconds."""
    found = (each.condition(kind) for each in facts.queues.workloads.values())
    return [
        each.transition
        for each in found
        if each is not None
        and each.status == "True"
        and floor(since) <= each.transition < floor(facts.now)
        and reason in (None, each.reason)
    ]


def _row(name: str, hour: list[Sample]) -> dict[str, Any]:
    waiting = [each.waiting.get(name, 0) for each in hour]
    use = [each.use.get(name, 0) for each in hour]
    return {
        "id": name,
        "queue": name,
        "now": f"{use[-1]} %",
        "mean": f"{round(fmean(use))} %",
        "waits": waiting[-1],
        "most": max(waiting),
    }
