"""Decides which of kube-scheduler's preemption proposals pass.

The proposals are per pod and per node, and the extender's filter was not asked about them.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from extender.gang import topology
from extender.gang.filter import has_room_without
from extender.gang.fit import fits
from extender.gang.preempt.choice import worth
from extender.gang.room import is_exempt
from extender.resources.quantity import add
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView


def decide(
    pod: PodInfo | None, victims: Mapping[str, Collection[str]], *, view: ClusterView
) -> Collection[str]:
    """Return the nodes on which preemption may go on; `victims` are pod UIDs by node.

    Return no node for a pod that is bound or being bound: it needs no room, and kube-scheduler has
    not seen its Binding yet. Return none for a member of a gang for which victims already make
    room: kube-scheduler may see them go later than the extender. Return none for a member whose
    gang has no plan and no quorum: room on one node does not start it.

    Leave out nodes where the pod would still have no room: they have pods that kube-scheduler has
    not seen, their room is kept for a gang that preempts, or they are outside the pod's domain.
    Leave out nodes whose victims would break a running gang of the same or a higher priority. Of
    the others, return the nodes whose victims break no running gang. If there are none, return
    those where each broken gang goes as a whole, so that none runs on below minMember; else all.

    If the pod's nominated node is among the nodes to return, return it alone: kube-scheduler has
    begun to evict there, and has perhaps not seen yet that it need not evict any more.
    """
    if pod is None:
        return _least_harm(victims, view)
    if view.bound_node(pod) is not None or pod.group in view.nominated:
        return ()
    if is_in_vain(pod, view=view):
        return ()
    near = {*victims}
    if pod.group is not None:
        near = {*topology.nodes_near(pod, pod.group, [*victims], view=view)}
    victims = {
        node: uids
        for node, uids in victims.items()
        if node in near
        and has_room_without(pod, node, uids, view=view)
        and not _is_kept(pod, node, uids, view=view)
        and not any(worth(each.pod, view) >= pod.priority for each in _broken(uids, view))
    }
    found = _least_harm(victims, view)
    return (pod.nominated,) if pod.nominated is not None and pod.nominated in found else found


def is_in_vain(pod: PodInfo, *, view: ClusterView) -> bool:
    """Return whether room on one node is of no use: the pod's gang cannot start with it alone."""
    if pod.group is None:
        return False
    pod_group = view.pod_group(pod.group)
    if pod_group is None:
        return True
    beside = view.tally(pod.group).committed - (view.reservation(pod.uid) is not None)
    return beside + 1 < view.quorum(pod_group)


def _is_kept(pod: PodInfo, name: str, victims: Collection[str], *, view: ClusterView) -> bool:
    """Return whether the room that victims would leave is kept for a gang that preempts."""
    node = view.nodes.get(name)
    if node is None or not view.is_nominated(name):
        return False
    if pod.group is None and is_exempt(pod, node, view=view):
        return False
    free = view.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
    for uid in victims:
        if uid in view.pods_on(name):
            add(free, view.pods[uid].shape.requests)
    return not fits(pod.shape.requests, free)


class _Broken(NamedTuple):
    """A gang that has its quorum and would fall below minMember."""

    pod: PodInfo
    """One of the pods that it would lose."""
    left: int
    """The number of running members that it would keep."""


def _least_harm(victims: Mapping[str, Collection[str]], view: ClusterView) -> Collection[str]:
    """Return the nodes where no gang breaks; else those where all go whole; else all nodes."""
    broken = {node: _broken(uids, view) for node, uids in victims.items()}
    harmless = [node for node, gangs in broken.items() if not gangs]
    whole = [node for node, gangs in broken.items() if not any(each.left for each in gangs)]
    return harmless or whole or victims.keys()


def _broken(uids: Collection[str], view: ClusterView) -> list[_Broken]:
    """Return the running gangs that victims would break; pods that leave anyway do not count."""
    losses: dict[str, list[PodInfo]] = {}
    for uid in uids:
        pod = view.pods.get(uid)
        if pod is not None and pod.group is not None and not pod.terminating:
            losses.setdefault(pod.group, []).append(pod)
    broken = []
    for group, lost in losses.items():
        pod_group = view.pod_group(group)
        assigned = view.tally(group).assigned
        left = assigned - len(lost)
        if pod_group and assigned >= view.quorum(pod_group) > left:
            broken.append(_Broken(lost[0], left))
    return broken
