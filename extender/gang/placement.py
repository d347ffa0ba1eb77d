"""What a PodGroup says of placement, and where its pods are already."""

from collections import Counter
from collections.abc import Iterator

from extender.api.reasons import Reason
from extender.api.wellknown import PLACEMENT_ANNOTATION
from extender.fit.placement import GangPlacement, PlacementChoice
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView


def of(pod_group: PodGroupInfo | None) -> GangPlacement | None:
    """Return what a group asks for; None where it says nothing that is known."""
    said = pod_group.placement if pod_group is not None else None
    return GangPlacement(said) if said in list(GangPlacement) else None


def unknown(pod_group: PodGroupInfo) -> Refuse | None:
    """Return the refusal of a group whose annotation is no placement."""
    if pod_group.placement is None or of(pod_group) is not None:
        return None
    words = " nor ".join(f"'{each}'" for each in GangPlacement)
    text = f"its annotation {PLACEMENT_ANNOTATION} is neither {words}: correct or remove it"
    return Refuse(Reason.INVALID_PLACEMENT, about(pod_group.key) + text)


def choice(group: str, *, view: ClusterView) -> PlacementChoice | None:
    """Return by what the nodes of a group's plan are chosen; None where it asks for nothing."""
    asked = of(view.pod_group(group))
    return None if asked is None else PlacementChoice(asked, siblings(group, view=view))


def siblings(group: str, *, view: ClusterView, but: str | None = None) -> Counter[str]:
    """Return how many members have, or are to have, each node; those that leave do not count.

    Nor does the one with the UID `but`.
    """
    return Counter(node for _, node in with_nodes(group, view=view, but=but))


def with_nodes(
    group: str, *, view: ClusterView, but: str | None = None
) -> Iterator[tuple[PodInfo, str]]:
    """Yield the members but for one that have, or are to have, a node, and do not leave it."""
    for pod in view.members(group):
        if pod.terminating or pod.uid == but:
            continue
        if pod.node is not None:
            yield pod, pod.node
        elif (kept := view.reservation(pod.uid)) is not None:
            yield pod, kept.node
