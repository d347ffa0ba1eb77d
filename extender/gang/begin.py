"""Whether a group may begin in its turn, before kube-scheduler asks for one of its members.

What kube-scheduler has said of nodes for a pod is good for its equals in other groups. Where all
that a group needs has been said, its turn is enough. Where something has not, kube-scheduler goes
first, and the groups behind wait for that.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container
from enum import StrEnum
from itertools import islice
from typing import Final

from extender.gang.ahead import Left, MembersAhead, PodsInHand
from extender.gang.fit import finds_no_node, is_readable
from extender.gang.verdicts import is_ours
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps


class Prospect(StrEnum):
    """What becomes of a group whose turn it is."""

    BEGINS = "begins"
    """kube-scheduler has judged equals of as many members as it needs."""
    IN_HAND = "in hand"
    """kube-scheduler is about to ask for the Binding of a member."""
    ASKED_FOR = "asked for"
    """kube-scheduler has yet to judge a member that is needed."""
    LACKS_NODES = "lacks nodes"
    """kube-scheduler found no room for its members. Whether there is some by now a plan says."""
    UNREADABLE = "unreadable"
    """kube-scheduler found no node for it, and our own reading does not say when there is one. It
    may start at any time, so the groups of lower priority are kube-scheduler's to try as well."""
    STANDS_ASIDE = "stands aside"
    """It cannot start, whatever room there is: the groups behind it need not wait."""


def is_outranked(priority: int, *, view: ClusterView, schedulers: Collection[str]) -> bool:
    """Return whether a pod of higher priority waits that kube-scheduler is to place first.

    kube-scheduler tries pods by priority. It has said nothing yet of such a pod, or it found no
    node for a plain one: that one may stand in its queue again, as soon as there is room.
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
    """Return whether enough members of a group may be bound, their nodes and room aside.

    `schedulers` are the names of those that ask us, `proven` those of them all of whose pods pass
    our filter.
    """
    group, found = pod_group.key, Counter[Prospect]()
    members = MembersAhead(view, group, schedulers=schedulers, proven=proven, in_hand=in_hand)
    uids = iter([*view.tally(group).members])
    while part := [*islice(uids, PIECE)]:
        pods = (view.pods.get(uid) for uid in part)
        waiting = (pod for pod in pods if pod is not None and _has_no_node(pod, view))
        found.update(_by_member(pod, members, schedulers) for pod in waiting)
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
    """Return whether a member waits, with room that a plan keeps for it or without."""
    there = pod.node is not None or pod.terminating
    kept = view.reservation(pod.uid)
    return not there and (kept is None or kept.kind is ReservationKind.PLANNED)


def _by_member(pod: PodInfo, members: MembersAhead, schedulers: Collection[str]) -> Prospect:
    """Return what one member says of its group: with enough that may begin it does."""
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


# --- gangs that are being created --------------------------------------------------------------


MOST_MEMBERS: Final = 512
"""A gang that needs more pods takes longer to be created than is waited for."""
MOST_STUCK: Final = 64
"""With more such pods none counts as stuck: that many have to be looked at each time."""


def lacks_pods(group: str, *, view: ClusterView) -> bool:
    """Return whether a gang has a PodGroup and pods, none of them with room, and needs more."""
    tally, pod_group = view.tally(group), view.pod_group(group)
    if pod_group is None or tally.committed or not tally.members:
        return False
    able = len(tally.members) - len(tally.gated) - len(tally.leaving)
    return able < view.quorum(pod_group) <= MOST_MEMBERS


def others_wait(group: str, *, view: ClusterView, is_stuck: Callable[[str], bool]) -> bool:
    """Return whether there is more for kube-scheduler to do than to judge members of a gang.

    That is a pod that was not judged yet, or one that a plan has room for. What was judged before
    may have another try, and has time. `is_stuck` says of a pod, by its UID, that it has been there
    for so long that kube-scheduler is not going to judge it.
    """
    if view.has_plans:
        return True
    members, stuck = view.tally(group).members, 0
    for uid in view.latest_fresh():
        if uid not in members:
            stuck += 1
            if stuck > MOST_STUCK or not is_stuck(uid):
                return True
    return False
