"""Use of nodes and of quota, summed up while a simulation runs."""

from collections.abc import Iterable

from extender.resources.quantity import Resources, add
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.queue.records import FlavorResource
from extender.state.queue.view import QueueView


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

    def mean(self, now: float) -> dict[str, float]:
        """Return the mean use of nodes by resource, from the beginning to now."""
        if not now:
            return {name: float(amount) for name, amount in self.used.items()}
        area = self._area
        return {name: (area[name] + self.used[name] * now) / now for name in sorted(area)}
