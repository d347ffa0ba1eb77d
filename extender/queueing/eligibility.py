"""Which flavors the pods of a shape may use, apart from quota."""

from collections.abc import Iterator, Mapping

from extender.api.core_v1 import NodeSelectorTerm
from extender.api.selectors import is_tolerated, matches_term
from extender.api.values import wrong_label
from extender.queueing.quota import QuotaTree
from extender.queueing.room import has_topology
from extender.state.cluster.records import Shape
from extender.state.queue.records import ClusterQueueInfo, FlavorInfo, PodSetInfo, ResourceGroupInfo
from extender.state.queue.view import QueueView


def unfit(
    pod_set: PodSetInfo, queue: ClusterQueueInfo, number: int, *, tree: QuotaTree, view: QueueView
) -> tuple[str | None, ...]:
    """Return for each flavor of a resource group why it is unsuitable, or None."""
    known = tree.unfit.setdefault(pod_set.shape, {})
    found = known.get((queue.name, number))
    if found is None:
        group = queue.resource_groups[number]
        found = known[queue.name, number] = tuple(_unfit(pod_set.shape, group, view.flavors))
    if not has_topology(queue, view.flavors) and pod_set.topology is None:
        return found
    names = [quotas.flavor for quotas in queue.resource_groups[number].flavors]
    topologies = [_unfit_by_topology(pod_set, name, queue, view=view) for name in names]
    return tuple(why or other for why, other in zip(found, topologies, strict=True))


def _unfit_by_topology(
    pod_set: PodSetInfo, name: str, queue: ClusterQueueInfo, *, view: QueueView
) -> str | None:
    """Return why the pods' wishes about domains and a flavor's topology do not go together.

    Pods without wishes get a flavor with a topology only where the ClusterQueue has no others.
    """
    flavor, asked = view.flavors.get(name), pod_set.topology
    explicit = asked is not None and asked.is_explicit
    topology = flavor.topology if flavor is not None else None
    if topology is None:
        return f"flavor {name} has no topology" if explicit else None
    if asked is None or not explicit:
        flavors = [view.flavors[each] for each in queue.flavors if each in view.flavors]
        if all(each.topology for each in flavors):
            return None
        return f"flavor {name} is for pods with a topology annotation"
    found = view.topologies.get(topology)
    missing = [each for each in asked.levels if found is None or each not in found.levels]
    if missing:
        return f"topology {topology} of flavor {name} has no level {missing[0]}"
    return None


def _unfit(
    shape: Shape, group: ResourceGroupInfo, flavors: Mapping[str, FlavorInfo]
) -> Iterator[str | None]:
    there = [flavors.get(quotas.flavor) for quotas in group.flavors]
    for flavor, quotas in zip(there, group.flavors, strict=True):
        if flavor is None:
            yield f"flavor {quotas.flavor} not found"
        elif wrong := wrong_label(flavor.node_labels):
            yield f"no node can have the label {wrong} of flavor {quotas.flavor}"
        elif taint := _untolerated(shape, flavor):
            yield f"untolerated taint {taint} in flavor {quotas.flavor}"
        elif not _selects(shape, flavor):
            yield f"flavor {quotas.flavor} doesn't match node affinity"
        else:
            yield None


def _untolerated(shape: Shape, flavor: FlavorInfo) -> str | None:
    tolerations = (*shape.tolerations, *flavor.tolerations)
    for taint in flavor.node_taints:
        if not is_tolerated(taint, tolerations):
            return f"{taint.key}={taint.value}:{taint.effect}"
    return None


def _selects(shape: Shape, flavor: FlavorInfo) -> bool:
    """Return whether pods may run on the flavor's nodes, by the labels that the flavor declares.

    Its nodes may have any other label: pods that ask for one find out when they are scheduled.
    """
    labels = flavor.node_labels
    if any(labels.get(key, value) != value for key, value in shape.node_selector.items()):
        return False
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    return any(_admits(term, labels) for term in required.node_selector_terms)


def _admits(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    relevant = [each for each in term.match_expressions or () if each.key in labels]
    # A term about other labels only may match nodes of each flavor.
    return not relevant or matches_term(NodeSelectorTerm(relevant), labels, name="")
