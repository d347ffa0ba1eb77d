"""What a PodGroup says of topology, and the domains in which its pods are already."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.api.reasons import Reason
from extender.api.values import is_label_key
from extender.api.wellknown import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from extender.gang.placement import with_nodes
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from extender.state.cluster.view import ClusterView


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """One domain, or as few as possible, of a label."""

    label: str
    required: bool

    @property
    def annotation(self) -> str:
        """The annotation that says so."""
        return REQUIRED_TOPOLOGY if self.required else PREFERRED_TOPOLOGY

    def of(self, node: NodeInfo | None) -> str | None:
        """Return the domain of a node; None where it is in none."""
        return node.labels.get(self.label) if node is not None else None


def of(pod_group: PodGroupInfo | None) -> GroupTopology | None:
    """Return what a group asks for; of two annotations the required one."""
    if pod_group is None:
        return None
    if pod_group.required_topology is not None:
        return GroupTopology(pod_group.required_topology, required=True)
    if pod_group.preferred_topology is not None:
        return GroupTopology(pod_group.preferred_topology, required=False)
    return None


def contradiction(pod_group: PodGroupInfo) -> Refuse | None:
    """Return the refusal of a group with both annotations, or with one that names no label.

    What is no key of a label is not repeated: it may be of any length, with any signs in it.
    """
    asked = of(pod_group)
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
    """Return the refusal of a group whose annotations no node, or none of its own, can keep."""
    asked = of(pod_group)
    refusal = contradiction(pod_group)
    if asked is None or refusal is not None:
        return refusal
    prefix = about(pod_group.key)
    if not any(asked.label in node.labels for node in view.nodes.values()):
        text = (
            f"no node has the label '{asked.label}' that its annotation {asked.annotation} "
            "names: label the nodes, or correct the annotation"
        )
        return Refuse(Reason.NEVER_FITS, prefix + text, deny=True)
    there = {*standing(pod_group.key, asked, view=view)} if asked.required else set()
    if len(there) <= 1 and None not in there:
        return None
    where = "in more than one domain of" if len(there) > 1 else "on nodes without the label"
    text = (
        f"its pods are {where} '{asked.label}' already, and its annotation {REQUIRED_TOPOLOGY} "
        "asks for one domain: remove the annotation, or delete these pods"
    )
    return Refuse(Reason.INVALID_TOPOLOGY, prefix + text)


def standing(group: str, asked: GroupTopology, *, view: ClusterView) -> Iterator[str | None]:
    """Yield the domains of the members that have a node or a plan, and do not leave it.

    None for a node without the label.
    """
    for _, name in with_nodes(group, view=view):
        node = view.nodes.get(name)
        if node is not None:
            yield asked.of(node)


def within(group: str, sent: Sequence[str], *, view: ClusterView) -> Sequence[str]:
    """Return the nodes on which another member of a group may be; all, where it has none yet.

    None, where those that it has are on nodes without the label.
    """
    asked = of(view.pod_group(group))
    if asked is None or not asked.required:
        return sent
    usable = sent
    for domain in standing(group, asked, view=view):
        if domain is not None:
            return tuple(name for name in sent if asked.of(view.nodes.get(name)) == domain)
        usable = ()
    return usable
