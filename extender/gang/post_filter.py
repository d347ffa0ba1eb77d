"""What becomes of a gang when kube-scheduler finds no node for one of its members.

An extender is not called when no node passes kube-scheduler's own filters, so the signal is the
pod's `PodScheduled=False` condition in the watch.
"""

from extender.api.reasons import Reason
from extender.gang import siblings
from extender.gang.options import GangOptions
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView


def decide(pod: PodInfo, group: str, *, view: ClusterView, options: GangOptions) -> Refuse | None:
    """Return the refusal of all members that wait, or None where the failure is the pod's own.

    A pod that no plan counts on fails alone: the gang can do without it. So does any pod at or
    above minMember. A gap to quorum of at most `reject_percentage` of minMember leaves the others
    waiting, for a retry of the pod may close it.
    """
    pod_group = view.pod_group(group)
    if pod_group is None or view.planned_node(pod.uid) is None:
        return None
    quorum = view.quorum(pod_group)
    gap = quorum - view.tally(group).assigned
    if gap <= 0 or gap * 100 <= options.reject_percentage * quorum:
        return None
    text = f"{about(group)}no node for one of its pods, and {gap} more are needed"
    return Refuse(Reason.MEMBER_UNSCHEDULABLE, text, deny=True)


def stuck(group: str, *, view: ClusterView, beside: bool = True) -> PodInfo | None:
    """Return a planned member that kube-scheduler had found no node for, and has not tried since.

    Such a pod's condition does not change when it fails again for the same reason, and it is not
    even tried again before something changes that has to do with that reason. So a plan must not
    count on it for long. `beside` says that members were tried beside all siblings that wait:
    before that, those that have to be near some are left out.
    """
    for uid in view.tally(group).planned:
        pod = view.pods[uid]
        if siblings.is_refused(pod) and (beside or not siblings.are_sought(pod, view=view)):
            return pod
    return None


def is_ours(message: str, group: str) -> bool:
    """Return whether the condition's text repeats a refusal of ours: then it is no news."""
    return about(group) in message
