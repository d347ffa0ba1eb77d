"""Labels against selectors, taints against tolerations, as Kubernetes reads them.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from collections.abc import Iterable, Mapping

from extender.api.core_v1 import LabelSelector, NodeSelectorTerm, Requirement, Taint, Toleration


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether tolerations allow a taint. PreferNoSchedule allows every pod."""
    if taint.effect == "PreferNoSchedule":
        return True
    return any(
        each.effect in ("", taint.effect)
        and each.key in ("", taint.key)
        and (each.operator == "Exists" or (each.key and each.value == taint.value))
        for each in tolerations
    )


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], *, name: str) -> bool:
    """Return whether a node with that name and labels meets a term. No node meets an empty one."""
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    by_field = {"metadata.name": name}
    return all(matches(requirement, labels) for requirement in expressions) and all(
        matches(requirement, by_field) for requirement in fields
    )


def matches_selector(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a selector. None meets no labels, an empty selector all."""
    if selector is None:
        return False
    exact = (selector.match_labels or {}).items()
    expressions = selector.match_expressions or []
    return all(labels.get(key) == value for key, value in exact) and all(
        matches(requirement, labels) for requirement in expressions
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
