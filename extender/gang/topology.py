"""The nodes that a gang may use for its topology and placement, and where its pods are already."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from extender.api.reasons import Reason
from extender.api.values import is_label_key, whole
from extender.api.wellknown import (
    JOB_SET_INDEX_LABEL,
    PLACEMENT_ANNOTATION,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
)
from extender.fit.placement import GangPlacement, PlacementChoice
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.records import Domain, DomainAssignment, NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

Places = Sequence[tuple[Sequence[NodeInfo], Sequence[PodInfo]]]
"""Nodes, each time with the pods that go there."""


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """The request for one domain of a node label, or for as few domains as possible."""

    label: str
    required: bool

    @property
    def annotation(self) -> str:
        """The annotation that makes the request."""
        return REQUIRED_TOPOLOGY if self.required else PREFERRED_TOPOLOGY

    def of(self, node: NodeInfo | None) -> str | None:
        """Return the domain of a node; None if it has none."""
        return node.labels.get(self.label) if node is not None else None


def topology_of(pod_group: PodGroupInfo | None) -> GroupTopology | None:
    """Return the topology that a group asks for; of two annotations the required one counts."""
    if pod_group is None:
        return None
    if pod_group.required_topology is not None:
        return GroupTopology(pod_group.required_topology, required=True)
    if pod_group.preferred_topology is not None:
        return GroupTopology(pod_group.preferred_topology, required=False)
    return None


def contradiction(pod_group: PodGroupInfo) -> Refuse | None:
    """Return the refusal of a group with both annotations, or with a value that is no label key.

    The message does not repeat the value: it may have any length and contain any characters.
    """
    asked = topology_of(pod_group)
    if asked is None:
        return None
    if pod_group.required_topology is not None and pod_group.preferred_topology is not None:
        both = f"{REQUIRED_TOPOLOGY} and {PREFERRED_TOPOLOGY}"
        text = f"it has both annotations {both}: remove one of them"
    elif not is_label_key(asked.label):
        text = f"its annotation {asked.annotation} is no key of a label: correct or remove it"
    else:
        return None
    return Refuse(Reason.INVALID_TOPOLOGY, about(pod_group.key) + text)


def impossible(pod_group: PodGroupInfo, *, view: ClusterView) -> Refuse | None:
    """Return the refusal of a group whose annotations the nodes, or its own pods, contradict."""
    asked = topology_of(pod_group)
    refusal = contradiction(pod_group)
    if asked is None or refusal is not None:
        return refusal
    prefix = about(pod_group.key)
    if not any(asked.label in node.labels for node in view.nodes.values()):
        text = (
            f"no node has the label '{asked.label}' that its annotation {asked.annotation} "
            "names: label the nodes, or correct the annotation"
        )
        return Refuse(view.too_large, prefix + text, deny=True)
    there = {*domains_in_use(pod_group.key, asked, view=view)} if asked.required else set()
    if len(there) <= 1 and None not in there:
        return None
    where = "in more than one domain of" if len(there) > 1 else "on nodes without the label"
    text = (
        f"its pods are {where} '{asked.label}' already, and its annotation {REQUIRED_TOPOLOGY} "
        "asks for one domain: remove the annotation, or delete these pods"
    )
    return Refuse(Reason.INVALID_TOPOLOGY, prefix + text)


def domains_in_use(group: str, asked: GroupTopology, *, view: ClusterView) -> Iterator[str | None]:
    """Yield the domain of each member that has a node or a plan, and is not being deleted.

    The domain of a node without the label is None.
    """
    for _, name in with_nodes(group, view=view):
        node = view.nodes.get(name)
        if node is not None:
            yield asked.of(node)


def nodes_within(group: str, sent: Sequence[str], *, view: ClusterView) -> Sequence[str]:
    """Return the nodes on which another member of a group may be; all nodes if it is the first.

    Return no node if the other members are on nodes without the label.
    """
    asked = topology_of(view.pod_group(group))
    if asked is None or not asked.required:
        return sent
    usable = sent
    for domain in domains_in_use(group, asked, view=view):
        if domain is not None:
            return tuple(name for name in sent if asked.of(view.nodes.get(name)) == domain)
        usable = ()
    return usable


# --- placement: packed or spread ---------------------------------------------------------------


def placement_of(pod_group: PodGroupInfo | None) -> GangPlacement | None:
    """Return the placement that a group asks for; None if it asks for none or an unknown one."""
    said = pod_group.placement if pod_group is not None else None
    return GangPlacement(said) if said in list(GangPlacement) else None


def unknown_placement(pod_group: PodGroupInfo) -> Refuse | None:
    """Return the refusal of a group whose annotation names an unknown placement."""
    if pod_group.placement is None or placement_of(pod_group) is not None:
        return None
    words = " nor ".join(f"'{each}'" for each in GangPlacement)
    text = f"its annotation {PLACEMENT_ANNOTATION} is neither {words}: correct or remove it"
    return Refuse(Reason.INVALID_PLACEMENT, about(pod_group.key) + text)


def placement_choice(group: str, *, view: ClusterView) -> PlacementChoice | None:
    """Return how the nodes of a group's plan are chosen; None if it asks for no placement."""
    asked = placement_of(view.pod_group(group))
    if asked is None:
        return None
    return PlacementChoice(asked, Counter(node for _, node in with_nodes(group, view=view)))


def with_nodes(
    group: str, *, view: ClusterView, but: str | None = None
) -> Iterator[tuple[PodInfo, str]]:
    """Yield the members, except `but`, that stay on a node or have a plan, each with its node."""
    for pod in view.members(group):
        if pod.terminating or pod.uid == but:
            continue
        if pod.node is not None:
            yield pod, pod.node
        elif (kept := view.reservation(pod.uid)) is not None:
            yield pod, kept.node


# --- domains that a queue has chosen -----------------------------------------------------------
#
# The pods alone decide which pod goes where: by their index, or else by the places left in each
# domain. A restart therefore changes nothing, and a pod that replaces another goes where that one
# was.


def domains_of(
    pods: Sequence[PodInfo],
    assigned: Mapping[str, DomainAssignment],
    *,
    others: Iterable[PodInfo],
    view: ClusterView,
    given: Mapping[str, Domain] | None = None,
) -> Mapping[str, Domain]:
    """Return the domain of each of these pods without a node, by UID. Surplus pods are left out.

    Pods of an Indexed Job have the domain of their index, if the assignment has enough places; so
    do the pods of a JobSet's equal Jobs, one Job after the other. All other pods get, in their
    order, the places that the `others` of their pod set leave. The domain of one of the `others`
    follows from its node, plan or node selector, or is `given` by UID.
    """
    found: dict[str, Domain] = {}
    others = [*others]
    for name, places in assigned.items():
        some = [pod for pod in pods if pod.pod_set == name]
        if not some:
            continue
        standing = [pod for pod in others if pod.pod_set == name]
        by_rank, ranks = [*places.by_rank()], _ranks(some, standing, view)
        if len({n for n in ranks if n is not None and n < len(by_rank)}) == len(ranks):
            found |= {pod.uid: by_rank[n or 0] for pod, n in zip(some, ranks, strict=True)}
        else:
            left = _left(places, standing, view=view, given=given or {})
            found |= dict(zip((pod.uid for pod in some), left, strict=False))
    return found


def domains_of_members(
    pods: Sequence[PodInfo], pod_group: PodGroupInfo, *, view: ClusterView
) -> Mapping[str, Domain]:
    """Return the domain of each of these members of a group, by UID."""
    own = {pod.uid for pod in pods}
    others = [pod for pod in view.members(pod_group.key) if pod.uid not in own]
    return domains_of(pods, pod_group.assigned, others=others, view=view)


def places_of(
    pods: Sequence[PodInfo],
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    granted: Collection[str] = (),
) -> Steps[Places]:
    """Return the nodes of each domain of these members of a group, and the members that go there.

    The nodes where room was `granted` come first. Members of a pod set without domains get all
    nodes; surplus members get none.
    """
    domains = domains_of_members(pods, pod_group, view=view)
    yield
    there: dict[tuple[str | None, Domain | None], list[PodInfo]] = {}
    for pod in pods:
        there.setdefault((pod.pod_set, domains.get(pod.uid)), []).append(pod)
    nodes = sorted(view.nodes.values(), key=lambda n: (n.name not in granted, n.name))
    yield
    by_domain: dict[tuple[str | None, Domain | None], list[NodeInfo]] = {}
    for pod_set, given in pod_group.assigned.items():
        for number, node in enumerate(nodes):
            if number % PIECE == PIECE - 1:
                yield
            key = (pod_set, given.of(node.labels))
            if key in there and key[1] is not None:
                by_domain.setdefault(key, []).append(node)
    return [
        (by_domain.get(key, ()) if key[0] in pod_group.assigned else nodes, some)
        for key, some in there.items()
    ]


def nodes_near(
    pod: PodInfo, group: str, sent: Sequence[str], *, view: ClusterView
) -> Sequence[str]:
    """Return the nodes that the topology of a group leaves to one of its pods.

    They are in the domain that a queue has chosen for the pod, or else in that of its gang.
    """
    pod_group = view.pod_group(group)
    if pod_group is not None and pod_group.assigned:
        return _in_its_domain(pod, pod_group, sent, view=view)
    return nodes_within(group, sent, view=view)


def _in_its_domain(
    pod: PodInfo, pod_group: PodGroupInfo, sent: Sequence[str], *, view: ClusterView
) -> Sequence[str]:
    """Return the nodes that are in the domain of a pod; all nodes if its pod set has no domains.

    A planned pod has the domain of its planned node.
    """
    given = pod_group.assigned.get(pod.pod_set or "")
    if given is None:
        return sent
    planned = view.nodes.get(view.planned_node(pod.uid) or "")
    if planned is not None:
        domain = given.of(planned.labels)
    else:
        domain = domains_of_members([pod], pod_group, view=view).get(pod.uid)
    nodes = ((name, view.nodes.get(name)) for name in sent)
    return tuple(n for n, node in nodes if node is not None and given.of(node.labels) == domain)


def _ranks(
    pods: Sequence[PodInfo], siblings: Iterable[PodInfo], view: ClusterView
) -> Sequence[int | None]:
    """Return the rank of each pod in its pod set; None for a pod whose rank is not known."""
    if len({pod.controller for pod in chain(pods, siblings)}) == 1:
        return [pod.index for pod in pods]
    return [_rank_in_set(pod, view) for pod in pods]


def _rank_in_set(pod: PodInfo, view: ClusterView) -> int | None:
    """Return the rank of a pod among those of a JobSet's Jobs, which are equal in size."""
    number, job = whole(pod.labels.get(JOB_SET_INDEX_LABEL, "")), view.job(pod.controller or "")
    if pod.index is None or number is None or job is None or pod.index >= job.begun:
        return None
    return number * job.begun + pod.index


def _left(
    places: DomainAssignment,
    standing: Iterable[PodInfo],
    *,
    view: ClusterView,
    given: Mapping[str, Domain],
) -> Iterator[Domain]:
    """Yield the domain of each place that no other pod has."""
    there = Counter[Domain]()
    for other in standing:
        domain = given.get(other.uid) or _domain(other, places, view=view)
        if domain is not None and not other.terminating:
            there[domain] += 1
    for domain, n in places.domains:  # one may be there twice
        taken = min(n, there[domain])
        there[domain] -= taken
        yield from repeat(domain, n - taken)


def _domain(pod: PodInfo, places: DomainAssignment, *, view: ClusterView) -> Domain | None:
    """Return the domain where a pod is, or has to go."""
    reserved = view.reservation(pod.uid)
    node = view.nodes.get((reserved.node if reserved is not None else pod.node) or "")
    return places.of(node.labels if node is not None else pod.shape.node_selector)
