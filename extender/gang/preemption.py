"""Which of kube-scheduler's preemption proposals we let pass.

The proposals are per pod and per node, and the extender's filter was not asked about them.
"""

from collections.abc import Collection, Mapping

from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot


def decide(
    pod: PodInfo | None, victims: Mapping[str, Collection[str]], *, snapshot: Snapshot
) -> Collection[str]:
    """Return the nodes on which preemption may go on; `victims` are pod UIDs by node.

    None for a member whose gang has no plan and no quorum: room on one node does not start it.
    Nodes whose victims would break a running gang are left out while there are others.
    """
    if pod is not None and pod.group is not None and not _may_start(pod, pod.group, snapshot):
        return ()
    harmless = [node for node, uids in victims.items() if not _breaks_gang(uids, snapshot)]
    return harmless or victims.keys()


def _may_start(pod: PodInfo, group: str, snapshot: Snapshot) -> bool:
    pod_group = snapshot.pod_group(group)
    if pod_group is None:
        return False
    beside = snapshot.tally(group).committed - (snapshot.assumption(pod.uid) is not None)
    return beside + 1 >= snapshot.quorum(pod_group)


def _breaks_gang(uids: Collection[str], snapshot: Snapshot) -> bool:
    """Return whether losing these pods takes a gang that has its quorum below minMember."""
    losses: dict[str, int] = {}
    for uid in uids:
        pod = snapshot.pods.get(uid)
        if pod is not None and pod.group is not None:
            losses[pod.group] = losses.get(pod.group, 0) + 1
    for group, lost in losses.items():
        pod_group = snapshot.pod_group(group)
        assigned = snapshot.tally(group).assigned
        if pod_group and assigned >= snapshot.quorum(pod_group) > assigned - lost:
            return True
    return False
