"""How prioritize ranks nodes, 0 to 10, for the pods that filter leaves a choice."""

from collections.abc import Mapping, Sequence

from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot

HIGHEST = 10


def score(pod: PodInfo | None, sent: Sequence[str], *, snapshot: Snapshot) -> Mapping[str, int]:
    """Return points by node, or nothing where all are equal.

    A member is drawn to the nodes of its gang. Whoever is outside is kept away from the nodes that
    a plan counts on, although what is left there may be taken.
    """
    home = _nodes_of_group(pod, snapshot) if pod is not None and pod.group else set()
    if home:
        return {name: HIGHEST if name in home else 0 for name in sent}
    if snapshot.keeps_room:
        return {name: 0 if snapshot.is_kept(name) else HIGHEST for name in sent}
    return {}


def _nodes_of_group(pod: PodInfo, snapshot: Snapshot) -> set[str]:
    nodes = set()
    for member in snapshot.members(pod.group or ""):
        assumption = snapshot.assumption(member.uid)
        node = assumption.node if assumption else member.node
        if node is not None:
            nodes.add(node)
    return nodes
