"""Which members of a gang are bound together, without a look of kube-scheduler's at each of them.

Whether one may be is decided in `gang/ahead.py`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from extender.fit.candidates import is_feasible
from extender.gang.ahead import Left, MembersAhead, PodsInHand
from extender.gang.fit import fits
from extender.state.cluster import events as ev
from extender.state.cluster.records import Pattern, PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps


@dataclass(frozen=True, slots=True)
class Together:
    """The members that may be bound now, all of them, and why the others are left."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """Node by UID, in the order in which they are to be written: those that kube-scheduler would
    try last come first."""
    left: Mapping[Left, int] = field(default_factory=Counter)
    coming: Sequence[str] = ()
    """MembersAhead whose own bind requests are to come in a moment: the group starts with them."""


def look(pattern: Pattern, sent: Sequence[str], *, view: ClusterView, at: float) -> ev.Looked:
    """Return what a filter request says of nodes for its pattern, at a time in seconds.

    Our books must agree about each of these nodes. Where they do not, they may be wrong about
    others too, or our watch is behind, so that the request says nothing. Of nodes on which
    kube-scheduler has not seen all pods they need not agree about room.
    """
    known, nodes, unseen = view.good_nodes(pattern), view.nodes, view.unseen.nodes
    left = view.left.all()
    news = [name for name in sent if name not in known]
    agrees = all(
        name in nodes
        and is_feasible(pattern.shape, nodes[name])
        and (fits(pattern.shape.requests, left[name]) or name in unseen)
        for name in news
    )
    return ev.Looked(pattern, news if agrees else (), at, agrees)


def deciding(
    group: str,
    *,
    view: ClusterView,
    schedulers: Collection[str],
    proven: Container[str],
    in_hand: PodsInHand,
    barred: Left | None = None,
) -> Steps[Together]:
    """Return the members of a group that may be bound together, if they make up its quorum.

    `schedulers` are the names of those that ask us, `proven` those of them all of whose pods pass
    our filter. `barred` says why none may be bound now. Members whose own bind requests are due
    count, or a kube-scheduler that has the next one filtered before it has the last one bound would
    bring them all. The answer about a large group is about the past: `still_able` judges its
    members once more.
    """
    planned = view.tally(group).planned
    if not planned:
        return Together()
    fresh = view.highest_fresh(schedulers)
    if barred is None and fresh is not None and fresh > view.tally(group).priority:
        barred = Left.PRIORITY
    if barred is not None:
        return Together(left=Counter({barred: len(planned)}))
    judge = partial(
        MembersAhead, view, group, schedulers=schedulers, proven=proven, in_hand=in_hand
    )
    able, left = yield from _judging(_last_first(group, view), judge, view)
    planned = view.tally(group).planned
    able = {uid: node for uid, node in able.items() if uid in planned}
    due = tuple(sorted(uid for uid in in_hand.coming & planned if _is_due(uid, view)))
    pod_group = view.pod_group(group)
    count = view.tally(group).assigned + len(able) + len(due)
    if pod_group is None or count < view.quorum(pod_group):
        return Together(left=left + Counter({Left.QUORUM: len(able)}))
    return Together(able, left, due)


def still_able(
    group: str,
    nodes: Mapping[str, str],
    *,
    view: ClusterView,
    schedulers: Collection[str],
    proven: Container[str],
    in_hand: PodsInHand,
) -> dict[str, str]:
    """Return the members that may be bound to their nodes now, of those that were found able."""
    members = MembersAhead(view, group, schedulers=schedulers, proven=proven, in_hand=in_hand)
    planned = ((uid, node) for uid, node in nodes.items() if view.planned_node(uid) == node)
    return {uid: node for uid, node in planned if members.bar_of(view.pods[uid], node) is None}


def has_room(pod: PodInfo, node: str, *, view: ClusterView) -> bool:
    """Return whether room on a node is still taken for the Binding of a member.

    It is not where the member was deleted, has left its group, or was bound by another client.
    """
    kept = view.reservation(pod.uid)
    return kept is not None and kept.kind is ReservationKind.BINDING and kept.node == node


def still_holds(pod: PodInfo, node: str, *, view: ClusterView) -> bool:
    """Return whether a member whose Binding is to be written now is to be bound to its node.

    Since the decision the node or the member may have changed, and pods with terms may have come.
    """
    now, there = view.pods.get(pod.uid), view.nodes.get(node)
    if now is None or now.pattern is None or there is None:
        return False
    return (
        has_room(pod, node, view=view)
        and view.is_good(now.pattern, node)
        and is_feasible(now.pattern.shape, there)
        and not view.is_named(now.pattern)
    )


def _judging(
    uids: Sequence[str], judge: Callable[[], MembersAhead], view: ClusterView
) -> Steps[tuple[dict[str, str], Counter[Left]]]:
    """Return the planned members that may be bound, with their nodes, and why others are left."""
    able: dict[str, str] = {}
    left = Counter[Left]()
    members, rest = judge(), iter(uids)
    while part := [*islice(rest, PIECE)]:
        for uid in part:
            pod, node = view.pods.get(uid), view.planned_node(uid)
            if pod is None or node is None:
                continue
            bar = members.bar_of(pod, node)
            if bar is None:
                able[uid] = node
            else:
                left[bar] += 1
        if len(part) == PIECE:
            yield
            members = judge()  # what was found before may not be so any more
    return able, left


def _last_first(group: str, view: ClusterView) -> list[str]:
    """Return the UIDs of members in the reverse of the order in which they are likely to be tried.

    kube-scheduler tries pods by priority, then by the time since which they are in its queue:
    those that it refused came back later.
    """
    refused = view.refused_of(group)
    there = [pod for pod in view.members(group) if pod.uid not in refused]
    there += [view.pods[uid] for uid in refused]
    there.reverse()
    there.sort(key=lambda pod: pod.priority)
    return [pod.uid for pod in there]


def _is_due(uid: str, view: ClusterView) -> bool:
    """Return whether the bind request of a pod in hand comes at once.

    What has no pattern may have volumes or claims, for which kube-scheduler waits before it.
    """
    pod = view.pods.get(uid)
    return pod is not None and pod.pattern is not None
