"""What becomes of a gang when kube-scheduler finds no node for one of its members.

An extender is not called when no node passes kube-scheduler's own filters, so the signal is the
pod's `PodScheduled=False` condition in the watch.
"""

from extender.api.wellknown import Reason
from extender.gang.options import Options
from extender.gang.verdicts import Refuse, about
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot


def decide(pod: PodInfo, group: str, *, snapshot: Snapshot, options: Options) -> Refuse | None:
    """Return the refusal of everybody who waits, or None where the failure is the pod's own.

    A pod that no plan counts on fails alone: the gang can do without it. So does any pod at or
    above minMember. A gap to quorum of at most `reject_percentage` of minMember leaves the others
    waiting, for a retry of the pod may close it.
    """
    pod_group = snapshot.pod_group(group)
    if pod_group is None or snapshot.planned_node(pod.uid) is None:
        return None
    return _refusal(pod_group, coming=0, snapshot=snapshot, options=options)


def look_again(group: str, *, snapshot: Snapshot, options: Options) -> Refuse | None:
    """Return the refusal of everybody who waits for pods that kube-scheduler does not even try.

    It had found no node for them before they were planned. Such a pod's condition does not change
    when it fails again for the same reason, and it is not tried again before something changes
    that has to do with that reason; so a plan must not count on it for long. The other planned
    ones are on their way, and a large gang's are for a while: they are no gap.
    """
    pod_group, planned = snapshot.pod_group(group), snapshot.tally(group).planned
    stuck = sum(_is_stuck(snapshot.pods[uid], group) for uid in planned)
    if pod_group is None or not stuck:
        return None
    coming = len(planned) - stuck
    return _refusal(pod_group, coming=coming, snapshot=snapshot, options=options)


def _refusal(
    pod_group: PodGroupInfo, *, coming: int, snapshot: Snapshot, options: Options
) -> Refuse | None:
    quorum = snapshot.quorum(pod_group)
    missing = quorum - snapshot.tally(pod_group.key).assigned
    gap = missing - coming
    if gap <= 0 or gap * 100 <= options.reject_percentage * quorum:
        return None
    text = f"{about(pod_group.key)}no node for one of its pods, and {missing} more are needed"
    return Refuse(Reason.MEMBER_UNSCHEDULABLE, text, deny=True)


def _is_stuck(pod: PodInfo, group: str) -> bool:
    return bool(pod.unschedulable) and not is_ours(pod.unschedulable or "", group)


def is_ours(message: str, group: str) -> bool:
    """Return whether the condition's text repeats a refusal of ours: then it is no news."""
    return about(group) in message
