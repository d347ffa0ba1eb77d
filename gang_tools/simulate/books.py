"""Use of nodes and of quota, summed up while a simulation runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from extender.resources.quantity import Resources, add
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.queue.records import FlavorResource
from extender.state.queue.view import QueueView
from gang_tools.simulate.world import SimJob

_MOST_SAMPLES: Final = 500


@dataclass(frozen=True, slots=True)
class Moment:
    """The amounts in use and the number of waiting jobs by class, from a time on."""

    at: float = field(compare=False)
    used: Resources
    held: Mapping[str, Mapping[FlavorResource, int]]
    waiting: Mapping[str, int]


class Books:
    """Sums over time. An amount times its seconds is added up where it begins and where it ends."""

    def __init__(self, nodes: Iterable[NodeInfo]) -> None:
        self.whole: Resources = {}
        for node in nodes:
            add(self.whole, node.allocatable)
        self.used: Resources = {}
        self._area: dict[str, float] = {}
        self.held: dict[str, dict[FlavorResource, int]] = {}
        self.held_area: dict[str, dict[FlavorResource, float]] = {}
        self.held_most: dict[str, dict[FlavorResource, int]] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, set[SimJob]] = {}
        self.samples: list[Moment] = []
        self._due = self._interval = 0.0

    def begin(self, pod: PodInfo, now: float) -> None:
        """Count a pod on a node."""
        used, area = self.used, self._area
        for name, amount in pod.shape.requests.items():
            used[name] = used.get(name, 0) + amount
            area[name] = area.get(name, 0.0) - amount * now

    def end(self, pod: PodInfo, now: float) -> None:
        """Count a pod on its node no more."""
        used, area = self.used, self._area
        for name, amount in pod.shape.requests.items():
            used[name] -= amount
            area[name] += amount * now

    def waits(self, job: SimJob) -> None:
        """Count a job that waits for nodes."""
        self._waiting.setdefault(job.kind, set()).add(job)

    def starts(self, job: SimJob) -> None:
        """Count a waiting job no more."""
        self._waiting[job.kind].discard(job)

    def sample(self, since: float, until: float) -> None:
        """Record what is the same from one time to another, unless that is too short to be seen.

        What is left out lasts no longer than the interval between samples, which grows with time.
        """
        if until > self._due:
            self._keep(self._now(since), until)
            if len(self.samples) == _MOST_SAMPLES:
                dense, self.samples = self.samples, []
                self._due, self._interval = 0.0, 2 * since / _MOST_SAMPLES
                for each, following in pairwise([*dense, self._now(until)]):
                    self._keep(each, following.at)

    def _keep(self, sample: Moment, until: float) -> None:
        if until > self._due:
            if not self.samples or sample != self.samples[-1]:
                self.samples.append(sample)
            self._due = max(until, self._due + self._interval)

    def _now(self, at: float) -> Moment:
        waiting = {kind: len(jobs) for kind, jobs in self._waiting.items()}
        return Moment(at, {**self.used}, {**self.held}, waiting)

    def look_at_quota(self, view: QueueView, now: float) -> None:
        """Add up the quota that is in use, where that has changed."""
        for name in view.cluster_queues:
            version, since = self._seen.get(name, (-1, now))
            if version != view.usage_version(name):
                self._add_quota(name, now - since)
                held = {what: n for what, n in view.usage(name).items() if n}
                self.held[name] = held
                most = self.held_most.setdefault(name, {})
                for what, amount in held.items():
                    most[what] = max(most.get(what, 0), amount)
                self._seen[name] = view.usage_version(name), now

    def _add_quota(self, name: str, seconds: float) -> None:
        area = self.held_area.setdefault(name, {})
        for what, amount in self.held.get(name, {}).items():
            area[what] = area.get(what, 0.0) + amount * seconds

    def close(self, now: float) -> None:
        """End what is open; `now` is the end."""
        for name, (version, since) in self._seen.items():
            self._add_quota(name, now - since)
            self._seen[name] = version, now
        self.samples = [each for each in self.samples if each.at < now] + [self._now(now)]

    def mean(self, now: float) -> dict[str, float]:
        """Return the mean use of nodes by resource, from the beginning to now."""
        if not now:
            return {name: float(amount) for name, amount in self.used.items()}
        area = self._area
        return {name: (area[name] + self.used[name] * now) / now for name in sorted(area)}
