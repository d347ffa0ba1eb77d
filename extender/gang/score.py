"""How prioritize ranks nodes, 0 to 10, for the pods that filter leaves a choice."""

from collections.abc import Mapping, Sequence

from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

HIGHEST = 10


def score(pod: PodInfo | None, sent: Sequence[str], *, view: ClusterView) -> Mapping[str, int]:
    """Return points by node, or nothing where all are equal.

    A member is drawn to the nodes of its gang. Other pods are kept away from the nodes that
    a plan counts on, although what is left there may be taken.
    """
    home = _nodes_of_group(pod, view) if pod is not None and pod.group else set()
    if home:
        return {name: HIGHEST if name in home else 0 for name in sent}
    if view.keeps_room:
        return {name: 0 if view.is_kept(name) else HIGHEST for name in sent}
    return {}


def _nodes_of_group(pod: PodInfo, view: ClusterView) -> set[str]:
    nodes = set()
    for member in view.members(pod.group or ""):
        reserved = view.reservation(member.uid)
        node = reserved.node if reserved else member.node
        if node is not None:
            nodes.add(node)
    return nodes
