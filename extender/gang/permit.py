"""What bind answers a member of a gang, asked again whenever something about the group changes.

A held bind request is the plugin's waiting pod: kube-scheduler has assumed it, so its room is
taken for all other pods. Members that are bound, being bound or waiting count towards quorum.
"""

from extender.api.reasons import Reason
from extender.gang.verdicts import Allow, PermitVerdict, Refuse, Wait, about
from extender.state.cluster.view import ClusterView


def decide(group: str, *, view: ClusterView, now: float, deadline: float) -> PermitVerdict:
    """Return whether the waiting members are bound, go on waiting, or are refused."""
    pod_group = view.pod_group(group)
    if pod_group is None:
        return Refuse(Reason.POD_GROUP_DELETED, f"{about(group)}its PodGroup was deleted")
    tally, need = view.tally(group), view.quorum(pod_group)
    if tally.assigned >= need:
        return Allow()
    pods = len(tally.members)
    if pods < need:
        text = f"{about(group)}{pods} of the {need} pods that it needs are left"
        return Refuse(Reason.NOT_ENOUGH_PODS, text)
    if now >= deadline:
        text = f"{about(group)}{tally.assigned} of {need} pods got a node before the time-out"
        return Refuse(Reason.SCHEDULE_TIMEOUT, text, deny=True)
    return Wait(have=tally.assigned, need=need)
