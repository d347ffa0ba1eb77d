"""The domain that a gang gets when its gate is removed, on a cluster that grows.

A gang that asks for one domain of a topology gets it written on its pods when it is released: an
autoscaler, which looks at one pod after the other, then adds its nodes there. Without that it adds
none where each pod fits into some domain, or spreads the nodes over them. Where no node shows what
domains there are, one pod is released alone, and the domain of the node that comes for it counts.

A domain in which no node comes in time is given up: the pods are made anew for the next one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from extender.api.wellknown import DOMAIN_LABEL, HOSTNAME_LABEL, ConditionType
from extender.fit import domains
from extender.fit.candidates import Feasibility
from extender.gang.fit import candidates, pod_shape
from extender.gang.restart import parted
from extender.gang.topology import domains_in_use, topology_of
from extender.state.cluster.records import PodGroupInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

MOST_TRIED: Final = 32
"""The most domains that are remembered as given up."""


@dataclass(frozen=True, slots=True)
class Release:
    """The nodes that released pods may use."""

    domain: tuple[str, str] | None = None
    """The label that their nodes have to have, and its value; None for any nodes."""
    probes: bool = False
    """True if one of them goes alone."""


ANYWHERE: Final = Release()
PROBE: Final = Release(probes=True)


def required_label(pod_group: PodGroupInfo | None, view: ClusterView) -> str | None:
    """Return the label of which a domain is chosen for a group when it is released, if any.

    A node that is added brings a host name of its own.
    """
    asked = topology_of(pod_group) if view.growing and pod_group is not None else None
    if asked is None or not asked.required or asked.label == HOSTNAME_LABEL:
        return None
    return asked.label if pod_group is not None and not pod_group.assigned else None


def choosing(group: str, *, view: ClusterView) -> Steps[Release]:
    """Return the nodes for pods of a group that are about to lose our gate.

    The domain is that of its other pods, or else the one that takes most of it now, of those that
    were not given up, or at least not last. Nodes that its pods may not use are in no domain.
    """
    pod_group = view.pod_group(group)
    label = required_label(pod_group, view)
    asked = topology_of(pod_group)
    if pod_group is None or label is None or asked is None or not view.tally(group).all_gated_by_us:
        return ANYWHERE
    for domain in domains_in_use(group, asked, view=view):
        if domain is not None:
            return Release((label, domain))
    tried = tried_domains(pod_group.status)
    for pod in view.members(group):
        asks = pod.shape.node_selector.get(label)
        # Pods leave the domain that was given up one by one, and new ones come meanwhile.
        leaves = DOMAIN_LABEL in pod.labels and asks in tried[-1:]
        if asks is not None and not pod.terminating and not leaves:
            return Release((label, asks))
    pods = candidates(None, group, view=view)
    if not pods:
        return ANYWHERE
    feasible = Feasibility(view)
    allows = feasible.of(pods[0].shape).allows
    usable = [node for node in view.nodes.values() if allows(node)]
    yield
    there = domains.by_label(usable, label)
    if not there:
        return PROBE
    lefts = (
        {d: n for d, n in there.items() if d not in given_up} for given_up in (tried, tried[-1:])
    )
    left = next(filter(None, lefts), there)
    order = view.left.all()
    counts = yield from domains.counting(
        left,
        [*Counter(map(pod_shape, pods)).items()],
        amounts=lambda node: order.get(node.name, {}),
        allowing=lambda each: feasible.of(each.shape).allows,
    )
    chosen = max(left, key=lambda domain: (counts[domain], len(left[domain]), domain))
    return Release((label, chosen))


# --- domains in which no node came ---------------------------------------------------------------


def tried_domains(status: PodGroupStatusInfo) -> Sequence[str]:
    """Return the domains that were given up, by the status of a group."""
    said = status.condition(ConditionType.DOMAINS_TRIED)
    return said.message.split(", ") if said is not None and said.message else ()


@dataclass(frozen=True, slots=True)
class AwaitedNodes:
    """The domain in which a group waits for nodes, and how many it has."""

    domain: str
    nodes: int
    others: bool
    """True if there are other domains."""
    split: bool = False
    """True if its pods ask for several: two processes have released them, each its own part."""


def awaited(pod_group: PodGroupInfo, *, view: ClusterView) -> AwaitedNodes | None:
    """Return the domain in which a released group waits for nodes; None for any other group."""
    label = required_label(pod_group, view)
    pods = [pod for pod in view.members(pod_group.key) if not pod.terminating]
    if label is None or len(pods) < view.quorum(pod_group):
        return None
    given = {pod.labels[DOMAIN_LABEL] for pod in pods if DOMAIN_LABEL in pod.labels}
    if not given or any(pod.node is not None or pod.gates for pod in pods):
        return None
    there, domain = domains.by_label(view.nodes.values(), label), min(given)
    nodes = len(there.get(domain, ()))
    return AwaitedNodes(domain, nodes, bool(there.keys() - {domain}), split=len(given) > 1)


def movable(pod_group: PodGroupInfo, *, view: ClusterView) -> tuple[PodInfo, ...]:
    """Return the pods of a group that their owners make anew when all of them are gone.

    A Job that cannot be suspended counts each of them as failed, so none is moved then.
    """
    pods = [pod for pod in view.members(pod_group.key) if not pod.terminating]
    singles, _ = parted(pods, view)
    costs = any(not pod.owners or view.job(pod.controller or "") is not None for pod in singles)
    return () if costs else tuple(pods)
