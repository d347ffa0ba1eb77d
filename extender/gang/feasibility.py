"""Whether a node may take a pod at all, room aside: our own reading of selectors and taints.

kube-scheduler answers this for the nodes that it sends. This reading is for the others, when a
whole gang is planned and the nodes sent for one member are too few or are another member's.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from extender.api.core_v1 import Taint
from extender.api.selectors import is_tolerated, matches_term
from extender.state.nodes import NodeInfo
from extender.state.pods import Shape

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_feasible(shape: Shape, node: NodeInfo) -> bool:
    """Return whether selectors, required node affinity, taints and readiness let the pod in."""
    if not node.ready:
        return False
    if node.unschedulable and not is_tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
        return False
    if any(node.labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    if not all(is_tolerated(taint, shape.tolerations) for taint in node.taints):
        return False
    return _matches_affinity(shape, node)


def _matches_affinity(shape: Shape, node: NodeInfo) -> bool:
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    terms = required.node_selector_terms
    return any(matches_term(term, node.labels, name=node.name) for term in terms)
