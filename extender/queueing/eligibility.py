"""Which flavors the pods of a shape may use, apart from quota."""

from collections.abc import Iterator, Mapping

from extender.api.core_v1 import NodeSelectorTerm
from extender.api.selectors import is_tolerated, matches_term
from extender.queueing.quota import QuotaTree
from extender.state.cluster.records import Shape
from extender.state.queue.records import ClusterQueueInfo, FlavorInfo, ResourceGroupInfo
from extender.state.queue.view import QueueView


def unfit(
    shape: Shape, queue: ClusterQueueInfo, number: int, *, tree: QuotaTree, view: QueueView
) -> tuple[str | None, ...]:
    """Return for each flavor of a resource group why it is unsuitable, or None."""
    known = tree.unfit.setdefault(shape, {})
    found = known.get((queue.name, number))
    if found is None:
        group = queue.resource_groups[number]
        found = known[queue.name, number] = tuple(_unfit(shape, group, view.flavors))
    return found


def _unfit(
    shape: Shape, group: ResourceGroupInfo, flavors: Mapping[str, FlavorInfo]
) -> Iterator[str | None]:
    there = [flavors.get(quotas.flavor) for quotas in group.flavors]
    keys = {key for flavor in there if flavor for key in flavor.node_labels}
    for flavor, quotas in zip(there, group.flavors, strict=True):
        if flavor is None:
            yield f"flavor {quotas.flavor} not found"
        elif taint := _untolerated(shape, flavor):
            yield f"untolerated taint {taint} in flavor {quotas.flavor}"
        elif not _selects(shape, flavor, keys):
            yield f"flavor {quotas.flavor} doesn't match node affinity"
        else:
            yield None


def _untolerated(shape: Shape, flavor: FlavorInfo) -> str | None:
    tolerations = (*shape.tolerations, *flavor.tolerations)
    for taint in flavor.node_taints:
        if not is_tolerated(taint, tolerations):
            return f"{taint.key}={taint.value}:{taint.effect}"
    return None


def _selects(shape: Shape, flavor: FlavorInfo, keys: set[str]) -> bool:
    """Return whether pods select the flavor's nodes, by the labels that the group's flavors use."""
    labels = flavor.node_labels
    if any(labels.get(key) != value for key, value in shape.node_selector.items() if key in keys):
        return False
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    return any(_admits(term, labels, keys) for term in required.node_selector_terms)


def _admits(term: NodeSelectorTerm, labels: Mapping[str, str], keys: set[str]) -> bool:
    relevant = [each for each in term.match_expressions or () if each.key in keys]
    # A term about other labels only may match nodes of each flavor.
    return not relevant or matches_term(NodeSelectorTerm(relevant), labels, name="")
