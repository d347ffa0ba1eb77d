"""What bind answers a member of a gang, asked again whenever something about the group changes.

A held bind request is the plugin's waiting pod: kube-scheduler has assumed it, so its room is
taken for all other pods of this scheduler. Members that are bound, being bound or waiting count
towards quorum. Another scheduler knows nothing of the room: where it has filled a node meanwhile,
the kubelet would refuse the member.
"""

from collections.abc import Collection, Iterable

from extender.api.reasons import Reason
from extender.gang.verdicts import Allow, PermitVerdict, Refuse, Wait, about, not_admitted
from extender.state.cluster.view import ClusterView


def decide(group: str, *, view: ClusterView, now: float, deadline: float) -> PermitVerdict:
    """Return whether the waiting members are bound, go on waiting, or are refused."""
    pod_group = view.pod_group(group)
    if pod_group is None:
        return Refuse(Reason.POD_GROUP_DELETED, f"{about(group)}its PodGroup was deleted")
    tally, need = view.tally(group), view.quorum(pod_group)
    if tally.assigned >= need:
        return _lost(group, tally.waiting, view) or Allow()
    pods = len(tally.members)
    if pods < need:
        text = f"{about(group)}{pods} of the {need} pods that it needs are left"
        return Refuse(Reason.NOT_ENOUGH_PODS, text)
    if now >= deadline:
        text = f"{about(group)}{tally.assigned} of {need} pods got a node before the time-out"
        return Refuse(Reason.SCHEDULE_TIMEOUT, text, deny=True)
    return Wait(have=tally.assigned, need=need)


def _lost(group: str, waiting: Collection[str], view: ClusterView) -> Refuse | None:
    """Return why waiting members may not be bound any more."""
    for uid in waiting:
        held = view.awaits_admission(view.pods[uid])
        if held is not None:
            return not_admitted(held)
    if not _is_taken(waiting, view):
        return None
    text = f"{about(group)}another scheduler has filled a node on which one of its pods waits"
    return Refuse(Reason.ROOM_TAKEN, text)


def _is_taken(waiting: Iterable[str], view: ClusterView) -> bool:
    """Return whether a node of a waiting member has pods of another scheduler and is too full.

    Without such pods it is not: our books may only be behind those of kube-scheduler.
    """
    others: dict[str, list[Collection[str]]] = {}
    for uid in waiting:
        held, scheduler = view.reservation(uid), view.pods[uid].scheduler
        if scheduler not in others:
            others[scheduler] = view.nodes_of_others((scheduler,))
        if held is None or not any(held.node in nodes for nodes in others[scheduler]):
            continue
        node, used = view.nodes.get(held.node or ""), view.used(held.node or "")
        asked = view.pods[uid].shape.requests.items()
        whole = node.allocatable if node is not None else {}
        if any(n and what in whole and used.get(what, 0) > whole[what] for what, n in asked):
            return True
    return False
