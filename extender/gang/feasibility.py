"""Whether a node may take a pod at all, room aside: our own reading of selectors and taints.

kube-scheduler answers this for the nodes that it sends. This reading is for the others, when a
whole gang is planned and the nodes sent for one member are too few or are another member's.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from collections.abc import Mapping

from extender.api.core_v1 import NodeSelectorTerm, Requirement, Taint, Toleration
from extender.state.nodes import NodeInfo
from extender.state.pods import Shape

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_feasible(shape: Shape, node: NodeInfo) -> bool:
    """Return whether selectors, required node affinity, taints and readiness let the pod in."""
    if not node.ready:
        return False
    if node.unschedulable and not _is_tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
        return False
    if any(node.labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    if not all(_is_tolerated(taint, shape.tolerations) for taint in node.taints):
        return False
    return _matches_affinity(shape, node)


def _is_tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _matches_affinity(shape: Shape, node: NodeInfo) -> bool:
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    return any(_matches_term(term, node) for term in required.node_selector_terms)


def _matches_term(term: NodeSelectorTerm, node: NodeInfo) -> bool:
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False  # an empty term selects nothing
    by_field = {"metadata.name": node.name}
    return all(matches(requirement, node.labels) for requirement in expressions) and all(
        matches(requirement, by_field) for requirement in fields
    )


def matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet one requirement of a node or label selector."""
    have, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return have is not None and have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, have, values)
        case _:
            return False


def _compares(operator: str, have: str | None, values: list[str]) -> bool:
    try:
        number, bound = int(have or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound
