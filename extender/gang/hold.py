"""Decides what bind answers a member of a gang, anew whenever something about the group changes.

A held bind request is what a waiting pod is in the coscheduling plugin: kube-scheduler has assumed
the pod, so its other pods do not get the room. Members that are bound, being bound or waiting count
towards quorum. Another scheduler knows nothing of the room: if it has filled the node meanwhile,
the kubelet would refuse the member.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from extender.api.core_v1 import matches_selector
from extender.api.reasons import Reason
from extender.api.wellknown import INDEX_LABEL
from extender.gang.verdicts import (
    Allow,
    GangOptions,
    PermitVerdict,
    Refuse,
    Wait,
    about,
    not_admitted,
)
from extender.state.cluster.records import PodInfo, PodTerm, Shape
from extender.state.cluster.view import ClusterView


def bind_or_wait(group: str, *, view: ClusterView, now: float, deadline: float) -> PermitVerdict:
    """Return whether to bind the waiting members, to let them go on waiting, or to refuse them."""
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
    """Return why waiting members may no longer be bound, or None if they may."""
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

    A node without pods of another scheduler does not count: our watch may just be behind.
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
    """Return the refusal of all members that wait, or None if only the pod itself fails.

    A pod that no plan counts on fails alone, because the gang can do without it. So does every pod
    of a gang with quorum. If the gap to quorum is at most `reject_percentage` of minMember, the
    others go on waiting, because a retry of the pod may close the gap.
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
    """Return a planned member that kube-scheduler found no node for, and has not tried since.

    The pod's condition does not change when it fails again for the same reason, and kube-scheduler
    does not try it again before something related to that reason changes. A plan must therefore not
    count on it for long. `beside` is true once the members were tried beside all waiting siblings;
    before that, members that have to be near a sibling are left out.
    """
    for uid in view.tally(group).planned:
        pod = view.pods[uid]
        if is_refused(pod) and (beside or not are_sought(pod, view=view)):
            return pod
    return None


# --- members that may find a node only beside siblings -----------------------------------------
#
# kube-scheduler counts a pod whose bind request is held as being on its node. A member that its own
# filters refused may therefore find a node as soon as siblings are held, but kube-scheduler does
# not try it again, because nothing in the API has changed.


def are_sought(pod: PodInfo, *, view: ClusterView) -> bool:
    """Return whether a term of a member is about siblings, which then decide where it may go."""
    group = pod.group or ""
    return any(_is_about(term, pod, view.members(group)) for term in pod.shape.seeks)


def come_later(group: str, *, view: ClusterView) -> set[str]:
    """Return the UIDs of members that have to be near a sibling, and so find no node before it.

    A pod that has to be near its equals is left out: it may come first.
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

    Members whose UID is in `tried` are left out.
    """
    planned = (view.pods[uid] for uid in view.tally(group).planned if uid not in tried)
    return [pod for pod in planned if is_refused(pod) and _terms_about(pod, held)]


def is_refused(pod: PodInfo) -> bool:
    """Return whether kube-scheduler itself found no node for a member when it tried it last."""
    said = pod.unschedulable
    return bool(said) and about(pod.group or "") not in (said or "")


def to_patch(pods: Iterable[PodInfo], held: Sequence[PodInfo]) -> Mapping[str, bool]:
    """Return the UIDs of the pods to patch; the value is true for a pod with a spread constraint.

    One pod of each shape with a spread constraint is enough to have all of them tried again.
    """
    patched: dict[str, bool] = {}
    spread: dict[Shape, PodInfo] = {}
    for pod in pods:
        met = _terms_about(pod, held)
        if not all(met):
            patched[pod.uid] = False
        known = spread.get(pod.shape)
        if any(met) and (known is None or known.priority < pod.priority):
            spread[pod.shape] = pod
    return patched | {pod.uid: True for pod in spread.values()}


def _terms_about(pod: PodInfo, siblings: Sequence[PodInfo]) -> list[bool]:
    """Return, for each term of a pod that is about a sibling, whether it is a spread constraint."""
    return [term.spread for term in pod.shape.seeks if _is_about(term, pod, siblings)]


def _is_about(term: PodTerm, pod: PodInfo, siblings: Iterable[PodInfo]) -> bool:
    return any(_selects(term, pod, each) for each in siblings if each.uid != pod.uid)


def _selects(term: PodTerm, pod: PodInfo, sibling: PodInfo) -> bool:
    labels = sibling.labels
    if sibling.index is not None:
        labels = {**labels, INDEX_LABEL: str(sibling.index)}
    covers = term.covers(sibling.namespace, own=pod.namespace)
    return covers and matches_selector(term.selector, labels)
