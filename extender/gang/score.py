"""Ranks nodes for prioritize, from 0 to 10, for pods to which filter leaves a choice."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from extender.api.wellknown import ZONE_LABEL
from extender.fit.placement import GangPlacement
from extender.gang import topology
from extender.resources.quantity import PODS
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

_SIBLING, _DOMAIN = 0.8, 0.4
"""The nearness of a sibling's node, and of a node of its domain; 1 is that of the next in rank."""
_ALONE, _ZONE, _EMPTY = 7, 2, 1
"""The points, to spread, for few siblings on the node, few in its zone, and free room. A node with
more siblings than the fewest gets at most half of the first: the others do not make up for it."""
HIGHEST: Final = _ALONE + _ZONE + _EMPTY
_FULL = _ZONE
"""The points, to pack, for used room: less than a step nearer is worth. Nearness has the others."""


def score(pod: PodInfo | None, sent: Sequence[str], *, view: ClusterView) -> Mapping[str, int]:
    """Return points by node, or nothing if all nodes are equal.

    A member is drawn to its gang, or away from it, as the placement of its gang asks. Other pods
    are kept away from the nodes that a plan counts on, although they may use what is left there.
    """
    gang = _Gang.of(pod, view=view) if pod is not None else None
    if gang is not None and (gang.siblings or gang.placement is not None):
        return gang.points(sent)
    if view.keeps_room:
        return {name: 0 if view.is_kept(name) else HIGHEST for name in sent}
    return {}


@dataclass(frozen=True, slots=True)
class _Gang:
    """A member that has a choice of nodes, and the nodes of its siblings."""

    pod: PodInfo
    placement: GangPlacement | None
    label: str
    """The node label whose values are domains: the label that the group asks for, or zones."""
    siblings: Counter[str]
    next_ones: Collection[str]
    """The nodes of the siblings next in rank; for a pod without an index, of all siblings."""
    view: ClusterView

    @classmethod
    def of(cls, pod: PodInfo, *, view: ClusterView) -> "_Gang | None":
        if pod.group is None:
            return None
        pod_group = view.pod_group(pod.group)
        asked = topology.topology_of(pod_group)
        label = asked.label if asked is not None else ZONE_LABEL
        there = [*topology.with_nodes(pod.group, view=view, but=pod.uid)]
        siblings = Counter([node for _, node in there])
        next_ones = siblings if pod.index is None else _next_in_rank(pod, pod.index, there)
        return cls(pod, topology.placement_of(pod_group), label, siblings, next_ones, view)

    def points(self, sent: Sequence[str]) -> Mapping[str, int]:
        if self.placement is GangPlacement.SPREAD:
            return self._apart(sent)
        near = self._near(sent)
        if self.placement is None:
            return {name: round(HIGHEST * near[name]) for name in sent}
        used = self._used(sent)
        return {name: round((HIGHEST - _FULL) * near[name] + _FULL * used[name]) for name in sent}

    def _near(self, sent: Sequence[str]) -> Mapping[str, float]:
        domains = {name: self._domain(name, self.label) for name in sent}
        home = self._domains_with_siblings({*domains.values()} - {None})
        near: dict[str, float] = {}
        for name, domain in domains.items():
            if name in self.next_ones:
                near[name] = 1.0
            elif name in self.siblings:
                near[name] = _SIBLING
            else:
                near[name] = _DOMAIN if domain in home else 0.0
        return near

    def _domains_with_siblings(self, asked: Set[str | None]) -> Collection[str | None]:
        """Return those of the domains `asked` for that have siblings."""
        found = set[str | None]()
        for name in self.siblings:
            domain = self._domain(name, self.label)
            if domain in asked:
                found.add(domain)
            if len(found) == len(asked):
                break
        return found

    def _apart(self, sent: Sequence[str]) -> Mapping[str, int]:
        zones = Counter[str | None]()
        for name, count in self.siblings.items():
            zones[self._domain(name, ZONE_LABEL)] += count
        there = {name: zones[self._domain(name, ZONE_LABEL)] for name in sent}
        fewest = min((self.siblings[name] for name in sent), default=0)
        most = max((self.siblings[name] for name in sent), default=0)
        most_in_zone, used = max(there.values(), default=0), self._used(sent)

        def alone(siblings: int) -> float:
            return 1.0 if siblings == fewest else (1 - siblings / most) / 2

        return {
            name: round(
                _ALONE * alone(self.siblings[name])
                + _ZONE * (1 - there[name] / max(1, most_in_zone))
                + _EMPTY * (1 - used[name])
            )
            for name in sent
        }

    def _domain(self, name: str, label: str) -> str | None:
        node = self.view.nodes.get(name)
        return node.labels.get(label) if node is not None else None

    def _used(self, sent: Sequence[str]) -> Mapping[str, float]:
        """Return the share of each node's resources that would be in use with the pod."""
        nodes, left = self.view.nodes, self.view.left.all()
        asked = [(r, n) for r, n in self.pod.shape.requests.items() if n and r != PODS]
        used = dict.fromkeys(sent, 0.0)
        for name in sent if asked else ():
            if name in nodes and name in left:
                used[name] = _share_in_use(asked, left[name], nodes[name].allocatable)
        return used


def _next_in_rank(
    pod: PodInfo, index: int, siblings: Sequence[tuple[PodInfo, str]]
) -> Collection[str]:
    """Return the nodes of the siblings of the same owner with the nearest index."""
    owner, nearest, found = pod.controller, None, set[str]()
    for each, node in siblings:
        if each.index is None or each.controller != owner:
            continue
        away = abs(each.index - index)
        if nearest is None or away < nearest:
            nearest, found = away, {node}
        elif away == nearest:
            found.add(node)
    return found


def _share_in_use(
    asked: Sequence[tuple[str, int]], left: Mapping[str, int], whole: Mapping[str, int]
) -> float:
    """Return the mean share of the requested resources in use once one more pod is there."""
    shares = (1 - (left.get(r, 0) - n) / max(1, whole.get(r, 1)) for r, n in asked)
    return sum(min(1.0, max(0.0, each)) for each in shares) / len(asked)
