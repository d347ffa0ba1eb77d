"""Decides whether a group may start in its turn, before kube-scheduler asks for one of its members.

kube-scheduler's judgment of nodes for a pod also holds for equal pods of other groups. A group
starts in its turn if kube-scheduler has judged equals of all members that it needs. Otherwise
kube-scheduler goes first, and the groups behind wait for it.
"""

from collections import Counter
from collections.abc import Collection, Container
from enum import StrEnum
from itertools import islice

from extender.gang.ahead import Left, MembersAhead, PodsInHand
from extender.gang.fit import finds_no_node, is_readable
from extender.gang.verdicts import is_ours
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps


class Prospect(StrEnum):
    """The outlook of a group whose turn it is."""

    BEGINS = "begins"
    """kube-scheduler has judged equals of as many members as it needs."""
    IN_HAND = "in hand"
    """kube-scheduler is about to ask for the Binding of a member."""
    ASKED_FOR = "asked for"
    """kube-scheduler has yet to judge a member that is needed."""
    LACKS_NODES = "lacks nodes"
    """kube-scheduler found no room for its members. A plan finds out whether there is room now."""
    UNREADABLE = "unreadable"
    """kube-scheduler found no node, and the extender cannot tell when there will be one. The group
    may start at any time, so kube-scheduler also starts the groups of lower priority."""
    STANDS_ASIDE = "stands aside"
    """The group cannot start regardless of room. The groups behind it do not wait for it."""


def is_outranked(priority: int, *, view: ClusterView, schedulers: Collection[str]) -> bool:
    """Return whether a pod of higher priority waits that kube-scheduler is to place first.

    This is a pod that kube-scheduler has not judged yet, or a pod without a group for which it
    found no node: it may try that pod again as soon as there is room.
    """
    waiting = (view.highest_fresh(schedulers), view.highest_plain(schedulers))
    return any(each is not None and each > priority for each in waiting)


def prospect_of(
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    schedulers: Collection[str],
    proven: Container[str],
    in_hand: PodsInHand,
) -> Steps[Prospect]:
    """Return whether enough members of a group may be bound, leaving nodes and room aside.

    `schedulers` are the schedulers that ask us; all pods of the `proven` ones pass our filter.
    """
    group, found = pod_group.key, Counter[Prospect]()
    members = MembersAhead(view, group, schedulers=schedulers, proven=proven, in_hand=in_hand)
    uids = iter([*view.tally(group).members])
    while part := [*islice(uids, PIECE)]:
        pods = (view.pods.get(uid) for uid in part)
        waiting = (pod for pod in pods if pod is not None and _has_no_node(pod, view))
        found.update(_member_prospect(pod, members, schedulers) for pod in waiting)
        if len(part) == PIECE:
            yield
    for decisive in (Prospect.STANDS_ASIDE, Prospect.UNREADABLE, Prospect.IN_HAND):
        if found[decisive]:
            return decisive
    if found[Prospect.BEGINS] >= view.quorum(pod_group) - view.tally(group).assigned:
        return Prospect.BEGINS
    if found[Prospect.ASKED_FOR]:
        return Prospect.ASKED_FOR
    return Prospect.LACKS_NODES if is_readable(group, view=view) else Prospect.UNREADABLE


def _has_no_node(pod: PodInfo, view: ClusterView) -> bool:
    """Return whether a member waits without a node; a plan may keep room for it."""
    there = pod.node is not None or pod.terminating
    kept = view.reservation(pod.uid)
    return not there and (kept is None or kept.kind is ReservationKind.PLANNED)


def _member_prospect(pod: PodInfo, members: MembersAhead, schedulers: Collection[str]) -> Prospect:
    """Return the outlook of a group as far as one member decides it."""
    group = pod.group or ""
    if pod.scheduler not in schedulers:
        return Prospect.STANDS_ASIDE
    if finds_no_node(pod, group):
        return Prospect.UNREADABLE
    bar = members.bar_anywhere(pod)
    if bar is None:
        return Prospect.BEGINS
    if bar is Left.NOT_ADMITTED:
        return Prospect.STANDS_ASIDE
    if bar is Left.IN_HAND:
        return Prospect.IN_HAND
    judged = pod.unschedulable is not None and not is_ours(pod.unschedulable, group)
    return Prospect.LACKS_NODES if judged else Prospect.ASKED_FOR
