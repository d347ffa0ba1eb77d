"""What bind answers a member of a gang, asked again whenever something about the group changes.

A held bind request is the plugin's waiting pod: kube-scheduler has assumed it, so its room is
taken for all other pods of this scheduler. Members that are bound, being bound or waiting count
towards quorum. Another scheduler knows nothing of the room: where it has filled a node meanwhile,
the kubelet would refuse the member.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from extender.api.reasons import Reason
from extender.api.selectors import matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.gang.options import GangOptions
from extender.gang.verdicts import Allow, PermitVerdict, Refuse, Wait, about, not_admitted
from extender.state.cluster.records import PodInfo, PodTerm, Shape
from extender.state.cluster.view import ClusterView


def bind_or_wait(group: str, *, view: ClusterView, now: float, deadline: float) -> PermitVerdict:
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


# --- a member for which kube-scheduler finds no node -------------------------------------------
#
# An extender is not called when no node passes kube-scheduler's own filters, so the signal is the
# pod's `PodScheduled=False` condition in the watch.


def no_node(pod: PodInfo, group: str, *, view: ClusterView, options: GangOptions) -> Refuse | None:
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


def stuck_member(group: str, *, view: ClusterView, beside: bool = True) -> PodInfo | None:
    """Return a planned member that kube-scheduler had found no node for, and has not tried since.

    Such a pod's condition does not change when it fails again for the same reason, and it is not
    even tried again before something changes that has to do with that reason. So a plan must not
    count on it for long. `beside` says that members were tried beside all siblings that wait:
    before that, those that have to be near some are left out.
    """
    for uid in view.tally(group).planned:
        pod = view.pods[uid]
        if is_refused(pod) and (beside or not are_sought(pod, view=view)):
            return pod
    return None


def is_ours(message: str, group: str) -> bool:
    """Return whether the condition's text repeats a refusal of ours: then it is no news."""
    return about(group) in message


# --- members that may find a node only beside siblings -----------------------------------------
#
# kube-scheduler counts a pod whose bind request is held as one that is on its node. So a member
# that its own filters refused may find a node as soon as siblings are held; but it is not tried
# again for that, because nothing in the API has changed.


def are_sought(pod: PodInfo, *, view: ClusterView) -> bool:
    """Return whether siblings decide where a member may go."""
    group = pod.group or ""
    return any(_is_about(term, pod, view.members(group)) for term in pod.shape.seeks)


def come_later(group: str, *, view: ClusterView) -> set[str]:
    """Return the UIDs of members that find no node before a sibling has one.

    They have to be near one. A pod that has to be near its equals may come first.
    """
    waiting = (pod for pod in view.members(group) if pod.node is None and pod.shape.seeks)
    return {
        pod.uid
        for pod in waiting
        for term in pod.shape.seeks
        if not (term.spread or _selects(term, pod, pod))
        and _is_about(term, pod, view.members(group))
    }


def refused_beside(
    held: Sequence[PodInfo], group: str, *, view: ClusterView, tried: Container[str]
) -> list[PodInfo]:
    """Return the planned members that kube-scheduler refused, and that held siblings may help.

    Those that were `tried` are left out.
    """
    planned = (view.pods[uid] for uid in view.tally(group).planned if uid not in tried)
    return [pod for pod in planned if is_refused(pod) and _met(pod, held)]


def is_refused(pod: PodInfo) -> bool:
    """Return whether kube-scheduler itself found no node for a member when it tried it last."""
    said = pod.unschedulable
    return bool(said) and about(pod.group or "") not in (said or "")


def to_patch(pods: Iterable[PodInfo], held: Sequence[PodInfo]) -> Mapping[str, bool]:
    """Return which of such members are patched, by UID, and whether for their spread.

    One of each shape that has to be spread is enough to have all of it tried again.
    """
    patched: dict[str, bool] = {}
    spread: dict[Shape, PodInfo] = {}
    for pod in pods:
        met = _met(pod, held)
        if not all(met):
            patched[pod.uid] = False
        known = spread.get(pod.shape)
        if any(met) and (known is None or known.priority < pod.priority):
            spread[pod.shape] = pod
    return patched | {pod.uid: True for pod in spread.values()}


def _met(pod: PodInfo, siblings: Sequence[PodInfo]) -> list[bool]:
    """Return of each term of a pod that is about one of its siblings whether it is of spread."""
    return [term.spread for term in pod.shape.seeks if _is_about(term, pod, siblings)]


def _is_about(term: PodTerm, pod: PodInfo, siblings: Iterable[PodInfo]) -> bool:
    return any(_selects(term, pod, each) for each in siblings if each.uid != pod.uid)


def _selects(term: PodTerm, pod: PodInfo, sibling: PodInfo) -> bool:
    labels = sibling.labels
    if sibling.index is not None:
        labels = {**labels, INDEX_LABEL: str(sibling.index)}
    covers = term.covers(sibling.namespace, own=pod.namespace)
    return covers and matches_selector(term.selector, labels)
