"""Whether a node may take a pod at all, room aside: our own reading of selectors and taints.

kube-scheduler answers this for the nodes that it sends. This reading is for the others, when a
whole gang is planned and the nodes sent for one member are too few or are another member's.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from extender.api.core_v1 import Affinity, Taint
from extender.api.selectors import is_tolerated, matches_term
from extender.state.cluster.records import NodeInfo, Shape

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_feasible(shape: Shape, node: NodeInfo) -> bool:
    """Return whether the node's state, taints, labels and declared features let the pod in."""
    if not node.ready:
        return False
    if node.unschedulable and not is_tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
        return False
    if not shape.features <= node.features:
        return False
    selector = shape.node_selector
    if selector and any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    if node.taints and not all(is_tolerated(taint, shape.tolerations) for taint in node.taints):
        return False
    return shape.affinity is None or _matches_affinity(shape.affinity, node)


def _matches_affinity(of_pod: Affinity, node: NodeInfo) -> bool:
    affinity = of_pod.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    terms = required.node_selector_terms
    return any(matches_term(term, node.labels, name=node.name) for term in terms)
