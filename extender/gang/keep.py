"""Which part of a plan still holds, when the plan took so long that others had their turn."""

from collections.abc import Iterable, Mapping

from extender.gang.fit import fits
from extender.resources.quantity import Resources, subtract
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView


def good(
    placements: Iterable[tuple[PodInfo, str]], group: str, *, view: ClusterView
) -> Mapping[str, str]:
    """Return, by UID, the nodes of those pods that can still have their room there."""
    priority, left = view.tally(group).priority, dict[str, Resources]()
    kept: dict[str, str] = {}
    for pod, name in placements:
        node = view.nodes.get(name)
        if node is None or not node.ready or not _is_as_it_was(pod, view):
            continue
        if name not in left:
            left[name] = view.free(node, priority=priority, group=group)
        if fits(pod.shape.requests, left[name]):
            subtract(left[name], pod.shape.requests)
            kept[pod.uid] = name
    return kept


def _is_as_it_was(pod: PodInfo, view: ClusterView) -> bool:
    """Return whether a pod still waits for a node, and asks for the same."""
    now = view.pods.get(pod.uid)
    return (
        now is not None
        and (now.shape, now.group, now.node) == (pod.shape, pod.group, None)
        and not now.terminating
        and (not now.gates or now.is_gated_by_us)
        and view.reservation(pod.uid) is None
    )
