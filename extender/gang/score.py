"""How prioritize ranks nodes, 0 to 10, for the pods that filter leaves a choice."""

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

HIGHEST: Final = 10
_SIBLING, _DOMAIN = 0.8, 0.4
"""How near a sibling's node is beside that of the sibling next in rank, and a node of its domain.
"""
_NEAR, _FULL = 8, 2
"""To pack: points for nearness, and for what is in use: less than a step in nearness."""
_ALONE, _ZONE, _EMPTY = 7, 2, 1
"""To spread: points for few siblings on the node and in its zone, and for what is free. Nodes that
have more siblings than the fewest get half of the first at most: the others do not make up for it.
"""


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
    next_ones: Collection[str]
    """The nodes of the siblings next in rank; those of all for a pod without an index."""
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
        return {name: round(_NEAR * near[name] + _FULL * used[name]) for name in sent}

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
        """Return the domains of these in which siblings are; of a large gang soon all are known."""
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
        """Return what share of each node would be in use with the pod, of what the pod asks for."""
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
    """Return the nodes of the siblings next in rank; indexes of other owners are not compared."""
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
    """Return the share of what pods ask for that is in use once there is one more of them."""
    shares = (1 - (left.get(r, 0) - n) / max(1, whole.get(r, 1)) for r, n in asked)
    return sum(min(1.0, max(0.0, each)) for each in shares) / len(asked)
