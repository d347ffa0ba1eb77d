"""Which of kube-scheduler's preemption proposals we let pass.

The proposals are per pod and per node, and the extender's filter was not asked about them.
"""

from collections.abc import Collection, Mapping

from extender.gang import unseen
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView


def decide(
    pod: PodInfo | None, victims: Mapping[str, Collection[str]], *, view: ClusterView
) -> Collection[str]:
    """Return the nodes on which preemption may go on; `victims` are pod UIDs by node.

    None for a pod that is bound or being bound: it needs no room, and kube-scheduler has not seen
    its Binding yet. None for a member whose gang has no plan and no quorum: room on one node does
    not start it.
    Nodes are left out where the pod has no room even then: kube-scheduler has not seen all pods on
    them. Nodes whose victims would break a running gang are left out while there are others.
    """
    if pod is not None and view.bound_node(pod) is not None:
        return ()
    if pod is not None and is_in_vain(pod, view=view):
        return ()
    if pod is not None and view.unseen.exist:
        victims = {
            node: uids
            for node, uids in victims.items()
            if unseen.has_room_without(pod, node, uids, view=view)
        }
    harmless = [node for node, uids in victims.items() if not _breaks_gang(uids, view)]
    return harmless or victims.keys()


def is_in_vain(pod: PodInfo, *, view: ClusterView) -> bool:
    """Return whether room on one node would not help a pod: its gang cannot start with it alone."""
    return pod.group is not None and not _may_start(pod, pod.group, view)


def _may_start(pod: PodInfo, group: str, view: ClusterView) -> bool:
    pod_group = view.pod_group(group)
    if pod_group is None:
        return False
    beside = view.tally(group).committed - (view.reservation(pod.uid) is not None)
    return beside + 1 >= view.quorum(pod_group)


def _breaks_gang(uids: Collection[str], view: ClusterView) -> bool:
    """Return whether losing these pods takes a gang that has its quorum below minMember."""
    losses: dict[str, int] = {}
    for uid in uids:
        pod = view.pods.get(uid)
        if pod is not None and pod.group is not None:
            losses[pod.group] = losses.get(pod.group, 0) + 1
    for group, lost in losses.items():
        pod_group = view.pod_group(group)
        assigned = view.tally(group).assigned
        if pod_group and assigned >= view.quorum(pod_group) > assigned - lost:
            return True
    return False
