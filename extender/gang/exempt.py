"""Pods of the cluster itself, which use room whatever plans and claims keep.

Those are pods of a system priority, and pods of DaemonSets: each of these has one node to go to,
and a node without its agents is of no use to a gang either. But a user who may make pods in one
namespace may also make DaemonSets there, or pods that look like theirs. So outside of kube-system
the pods of one namespace that are made that way take a small share of a node from others, and not
more, however many DaemonSets they name.
"""

from itertools import chain
from typing import Final

from extender.resources.quantity import Resources, add
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.reservations import SYSTEM_CRITICAL
from extender.state.cluster.view import ClusterView

SYSTEM_NAMESPACE: Final = "kube-system"
SHARE: Final = 10
"""Per cent of a node that DaemonSets of another namespace may take from what is kept there."""


def is_exempt(pod: PodInfo, node: NodeInfo, *, view: ClusterView) -> bool:
    """Return whether a pod of no gang may use room on a node that is kept for gangs."""
    if pod.priority >= SYSTEM_CRITICAL:
        return True
    if pod.only_node != node.name:
        return False
    if pod.namespace == SYSTEM_NAMESPACE:
        return True
    # What made room for a gang may not take it again, or it would be evicted without end.
    return not view.is_nominated(node.name) and _is_small(pod, node, view)


def is_of_system(pod: PodInfo) -> bool:
    """Return whether no gang may take the room of a pod: the cluster itself runs it on its node."""
    return pod.mirror or (pod.only_node is not None and pod.namespace == SYSTEM_NAMESPACE)


def _is_small(pod: PodInfo, node: NodeInfo, view: ClusterView) -> bool:
    """Return whether the pods of its kind and namespace have no more than their share of a node."""
    together = Resources(pod.shape.requests)
    for uid in chain(view.pods_on(node.name), view.coming_to(node.name)):
        other = view.pods.get(uid)
        if other is not None and other.uid != pod.uid and _is_alike(other, pod):
            add(together, other.shape.requests)
    whole = node.allocatable
    return all(value * 100 <= whole.get(name, 0) * SHARE for name, value in together.items())


def _is_alike(other: PodInfo, pod: PodInfo) -> bool:
    return other.only_node is not None and other.namespace == pod.namespace
