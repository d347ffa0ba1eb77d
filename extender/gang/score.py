"""How prioritize ranks nodes, 0 to 10, for the pods that filter leaves a choice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.api.wellknown import ZONE_LABEL
from extender.fit.placement import GangPlacement
from extender.gang import placement, topology
from extender.resources.quantity import PODS
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

HIGHEST: Final = 10
_SIBLING, _DOMAIN = 0.8, 0.4
"""How near a sibling's node is beside that of the sibling next in rank, and a node of its domain.
"""
_NEAR, _FULL = 7, 3
"""To pack: points for nearness, and for what is in use."""
_ALONE, _ZONE, _EMPTY = 6, 2, 2
"""To spread: points for few siblings on the node and in its zone, and for what is free."""


def score(pod: PodInfo | None, sent: Sequence[str], *, view: ClusterView) -> Mapping[str, int]:
    """Return points by node, or nothing where all are equal.

    A member is drawn to its gang, or away from it, as the placement of its gang asks. Other pods
    are kept away from the nodes that a plan counts on, although what is left there may be taken.
    """
    gang = _Gang.of(pod, view=view) if pod is not None else None
    if gang is not None and (gang.siblings or gang.placement is not None):
        return gang.points(sent)
    if view.keeps_room:
        return {name: 0 if view.is_kept(name) else HIGHEST for name in sent}
    return {}


@dataclass(frozen=True, slots=True)
class _Gang:
    """A member that may choose, and where the others are."""

    pod: PodInfo
    placement: GangPlacement | None
    label: str
    """Of which the values are domains: what the group asks for, or zones."""
    siblings: Counter[str]
    view: ClusterView

    @classmethod
    def of(cls, pod: PodInfo, *, view: ClusterView) -> "_Gang | None":
        if pod.group is None:
            return None
        pod_group = view.pod_group(pod.group)
        asked = topology.of(pod_group)
        label = asked.label if asked is not None else ZONE_LABEL
        siblings = placement.siblings(pod.group, view=view, but=pod.uid)
        return cls(pod, placement.of(pod_group), label, siblings, view)

    def points(self, sent: Sequence[str]) -> Mapping[str, int]:
        if self.placement is GangPlacement.SPREAD:
            return self._apart(sent)
        near = self._near(sent)
        if self.placement is None:
            return {name: round(HIGHEST * near[name]) for name in sent}
        return {name: round(_NEAR * near[name] + _FULL * self._used(name)) for name in sent}

    def _near(self, sent: Sequence[str]) -> Mapping[str, float]:
        next_ones = self._next_in_rank()
        domains = {self._domain(name, self.label) for name in self.siblings} - {None}
        near: dict[str, float] = {}
        for name in sent:
            if name in next_ones:
                near[name] = 1.0
            elif name in self.siblings:
                near[name] = _SIBLING
            else:
                near[name] = _DOMAIN if self._domain(name, self.label) in domains else 0.0
        return near

    def _next_in_rank(self) -> frozenset[str]:
        """Return the nodes of the siblings next in rank; those of all for a pod without an index.

        Indexes of different owners are not compared.
        """
        own = self.pod
        if own.index is None:
            return frozenset(self.siblings)
        far: dict[str, int] = {}
        for pod, node in placement.with_nodes(own.group or "", view=self.view, but=own.uid):
            if pod.index is not None and pod.controller == own.controller:
                away = abs(pod.index - own.index)
                far[node] = min(away, far.get(node, away))
        nearest = min(far.values(), default=None)
        return frozenset(name for name, away in far.items() if away == nearest)

    def _apart(self, sent: Sequence[str]) -> Mapping[str, int]:
        zones = Counter[str | None]()
        for name, count in self.siblings.items():
            zones[self._domain(name, ZONE_LABEL)] += count
        there = {name: zones[self._domain(name, ZONE_LABEL)] for name in sent}
        most = max((self.siblings[name] for name in sent), default=0)
        most_in_zone = max(there.values(), default=0)
        return {
            name: round(
                _ALONE * (1 - self.siblings[name] / max(1, most))
                + _ZONE * (1 - there[name] / max(1, most_in_zone))
                + _EMPTY * (1 - self._used(name))
            )
            for name in sent
        }

    def _domain(self, name: str, label: str) -> str | None:
        node = self.view.nodes.get(name)
        return node.labels.get(label) if node is not None else None

    def _used(self, name: str) -> float:
        """Return what share of a node would be in use with the pod, of what the pod asks for."""
        node, left = self.view.nodes.get(name), self.view.left.all().get(name)
        if node is None or left is None:
            return 0.0
        asked = {what: n for what, n in self.pod.shape.requests.items() if n and what != PODS}
        whole = node.allocatable
        shares = [
            min(1.0, max(0.0, 1 - (left.get(what, 0) - n) / max(1, whole.get(what, 1))))
            for what, n in asked.items()
        ]
        return sum(shares) / len(shares) if shares else 0.0
