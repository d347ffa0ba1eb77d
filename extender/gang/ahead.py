"""Decides what starts without a request of kube-scheduler: groups in their turn, and equal members.

kube-scheduler's judgment of nodes for a pod also holds for equal pods, of other groups too, as long
as these nodes have not changed. The extender itself judges room, at the moment of the decision. A
group starts in its turn if kube-scheduler has judged equals of all members that it needs. Otherwise
kube-scheduler goes first, and the groups behind wait for it. A member with volumes, claims,
affinity between pods or spread constraints is left to kube-scheduler.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from typing import Protocol

from extender.fit.candidates import clashes, is_feasible
from extender.gang.fit import finds_no_node, fits, is_readable
from extender.gang.verdicts import is_ours
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, Pattern, PodGroupInfo, PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps


class PodsInHand(Protocol):
    """The pods that passed filter and whose bind requests have not come."""

    def __contains__(self, uid: object) -> bool:
        """Return whether a pod passed filter just now: kube-scheduler is about to bind it."""

    def assumed_on(self, node: str | None) -> Iterable[str]:
        """Yield the UIDs of pods that kube-scheduler may have assumed on a node.

        With None, yield the pods that it may have assumed on any node.
        """

    @property
    def coming(self) -> frozenset[str]:
        """The UIDs of the pods that filter gave one node, and whose bind request is due."""


class Left(StrEnum):
    """The reason why a member is left to kube-scheduler."""

    BEHIND = "behind"
    """kube-scheduler has not seen pods that were bound without it, or our own watch is stale."""
    PRIORITY = "priority"
    """kube-scheduler has not judged a pod of higher priority yet."""
    QUORUM = "quorum"
    """Too few members of the group can be bound."""
    UNCONFIRMED = "unconfirmed"
    """The member was seen in a request only, and not yet in the watch."""
    GATED = "gated"
    NOMINATED = "nominated"
    """kube-scheduler makes room for the member, or on its node for a pod of at least its priority.
    kube-scheduler judges other pods as if the nominated pod were on the node."""
    NOT_ADMITTED = "not admitted"
    IN_HAND = "in hand"
    """kube-scheduler has just assumed the member, and is about to bind it."""
    MANAGED = "managed"
    """It is not known that every pod of the member's scheduler passes our filter."""
    CONSTRAINED = "constrained"
    """The member has no pattern: kube-scheduler judges it by itself."""
    NAMED = "named by affinity"
    """An affinity term of another pod may select the member."""
    UNEQUAL = "unequal"
    """kube-scheduler has judged no pod of the member's pattern."""
    DISAGREES = "disagrees"
    """The extender and kube-scheduler count differently on nodes for the member's pattern."""
    NOT_LOOKED_AT = "not looked at"
    """The member's node was not sent for its pattern, or has changed since."""
    OTHER_SCHEDULER = "other scheduler"
    """Pods of a scheduler that does not ask us are on the member's node, or were a moment ago."""
    NOT_FEASIBLE = "not feasible"
    """The extender finds that the member's node takes no pod like it."""
    NO_ROOM = "no room"


def _is_used(pod: PodInfo, view: ClusterView) -> bool:
    """Return whether the room of a pod counts as taken on a node for every other pod."""
    kept = view.reservation(pod.uid)
    return pod.node is not None or (kept is not None and kept.kind is not ReservationKind.PLANNED)


class _Kind:
    """The members of one pattern and priority. What holds for all of them is worked out once."""

    __slots__ = ("asked", "bar", "on_node", "pattern", "priority")

    def __init__(self, pattern: Pattern, priority: int, bar: Left | None) -> None:
        self.pattern, self.priority, self.bar = pattern, priority, bar
        self.asked = [what for what, amount in pattern.shape.requests.items() if amount]
        self.on_node: dict[str, Left | None] = {}


class _Anywhere:
    """The pods that may be assumed on any node. Each of them counts on every node."""

    __slots__ = ("planned", "sum", "with_ports")

    def __init__(self) -> None:
        self.sum: Resources = {}
        """The sum of the requests of the pods without planned room."""
        self.planned: list[PodInfo] = []
        self.with_ports: list[PodInfo] = []


class MembersAhead:
    """Judges the members of a group one by one. Its results hold until the state changes."""

    def __init__(
        self,
        view: ClusterView,
        group: str,
        *,
        schedulers: Collection[str],
        proven: Container[str],
        in_hand: PodsInHand,
    ) -> None:
        self._view, self._group, self._schedulers = view, group, schedulers
        self._proven, self._in_hand = proven, in_hand
        self._others = view.nodes_of_others(proven)
        self._kinds: dict[tuple[Pattern, int], _Kind] = {}
        self._anywhere: _Anywhere | None = None

    def bar_anywhere(self, pod: PodInfo) -> Left | None:
        """Return why a member may not be bound to any node, or None if it may."""
        bar, pattern = self._bar_of_pod(pod), pod.pattern
        if bar is not None or pattern is None:
            return bar or Left.CONSTRAINED
        kind = self._kinds.get((pattern, pod.priority))
        if kind is None:
            kind = _Kind(pattern, pod.priority, self._bar_of_pattern(pattern))
            self._kinds[pattern, pod.priority] = kind
        return kind.bar

    def bar_of(self, pod: PodInfo, node: str) -> Left | None:
        """Return why a planned member may not be bound to its node, or None if it may."""
        bar = self.bar_anywhere(pod)
        if bar is not None or pod.pattern is None:
            return bar
        kind = self._kinds[pod.pattern, pod.priority]
        bars = kind.on_node
        bar = bars[node] if node in bars else bars.setdefault(node, self._bar_of_node(kind, node))
        if bar is None and pod.shape.host_ports and self._ports_taken(pod, node):
            return Left.NO_ROOM
        return bar

    def _bar_of_pod(self, pod: PodInfo) -> Left | None:
        if pod.uid in self._in_hand:
            return Left.IN_HAND
        if pod.gates:
            return Left.GATED
        if pod.nominated:
            return Left.NOMINATED
        if pod.scheduler not in self._proven:
            return Left.MANAGED
        if pod.uid in self._view.seen:
            return Left.UNCONFIRMED
        return Left.NOT_ADMITTED if self._view.awaits_admission(pod) else None

    def _bar_of_pattern(self, pattern: Pattern) -> Left | None:
        seen = self._view.look(pattern)
        if seen is None:
            return Left.UNEQUAL
        if not seen.agrees:
            return Left.DISAGREES
        return Left.NAMED if self._view.is_named(pattern) else None

    def _bar_of_node(self, kind: _Kind, name: str) -> Left | None:
        """Return why no member of a kind may be bound to a node, or None if they may."""
        view, node = self._view, self._view.nodes.get(name)
        if node is None or not view.is_good(kind.pattern, name):
            return Left.NOT_LOOKED_AT
        if any(name in there for there in self._others):
            return Left.OTHER_SCHEDULER
        if not is_feasible(kind.pattern.shape, node):
            return Left.NOT_FEASIBLE
        if self._is_promised(kind.priority, name):
            return Left.NOMINATED
        return None if self._has_room(kind, node) else Left.NO_ROOM

    def _is_promised(self, priority: int, node: str) -> bool:
        """Return whether kube-scheduler counts another pod on a node before it is there."""
        return any(
            other.priority >= priority and other.scheduler in self._schedulers
            for other in self._view.nominated_to(node)
        )

    def _has_room(self, kind: "_Kind", node: NodeInfo) -> bool:
        """Return whether the pods planned on a node from a priority up have room beside the rest.

        The members of the kind are among them, so no resource that they ask for may be overdrawn.
        """
        name, priority, anywhere = node.name, kind.priority, self._on_any_node()
        free = self._view.free(node, priority=priority, group=self._group)
        subtract(free, anywhere.sum)
        for other in chain(self._assumed_on(name), anywhere.planned):
            if other.priority < priority or self._view.planned_node(other.uid) != name:
                subtract(free, other.shape.requests)  # no plan keeps it from these members
        return all(free.get(what, 0) >= 0 for what in kind.asked)

    def _ports_taken(self, pod: PodInfo, node: str) -> bool:
        ports, anywhere = pod.shape.host_ports, self._on_any_node()
        there = chain(self._view.shunning(node), self._assumed_on(node), anywhere.with_ports)
        others = (each for each in there if each.uid != pod.uid)
        return any(clashes(ports, other.shape.host_ports) for other in others)

    def _assumed_on(self, node: str | None) -> Iterator[PodInfo]:
        """Yield the pods that kube-scheduler may have assumed on a node and we do not count."""
        for uid in self._in_hand.assumed_on(node):
            pod = self._view.pods.get(uid)
            if pod is not None and not _is_used(pod, self._view):
                yield pod

    def _on_any_node(self) -> "_Anywhere":
        """Return the pods that kube-scheduler may have assumed on any node, added up."""
        if self._anywhere is None:
            found = self._anywhere = _Anywhere()
            for pod in self._assumed_on(None):
                if self._view.planned_node(pod.uid) is None:
                    add(found.sum, pod.shape.requests)
                else:
                    found.planned.append(pod)
                if pod.shape.host_ports:
                    found.with_ports.append(pod)
        return self._anywhere


# --- the members that are bound ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Together:
    """All members that may be bound now, and why the others are left."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """The node of each member, by UID, in the order in which the Bindings are to be written. The
    members that kube-scheduler would try last come first."""
    left: Mapping[Left, int] = field(default_factory=Counter)
    coming: Sequence[str] = ()
    """The members whose own bind requests are about to come: the group starts with them."""


def nodes_looked_at(
    pattern: Pattern, sent: Sequence[str], *, view: ClusterView, at: float
) -> ev.Looked:
    """Return what a filter request says about nodes for its pattern, at a time in seconds.

    Our own count must agree about each of these nodes. If it does not, it may be wrong about other
    nodes too, or our watch is behind, so the request is not used. On nodes where kube-scheduler has
    not seen all pods, the two need not agree about room.
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


def members_able(
    group: str,
    *,
    view: ClusterView,
    schedulers: Collection[str],
    proven: Container[str],
    in_hand: PodsInHand,
    barred: Left | None = None,
) -> Steps[Together]:
    """Return the members of a group that may be bound together, if they make up its quorum.

    `schedulers` are the schedulers that ask us; all pods of the `proven` ones pass our filter.
    `barred` says why no member may be bound now. Members whose own bind requests are due count
    towards the quorum: otherwise a kube-scheduler that filters the next member before it binds the
    last one would handle them all itself. The answer about a large group takes time and may be
    outdated: `still_able` judges its members once more.
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
    # A pod without a pattern may have volumes or claims, for which kube-scheduler waits first.
    coming = (view.pods.get(uid) for uid in sorted(in_hand.coming & planned))
    due = tuple(pod.uid for pod in coming if pod is not None and pod.pattern is not None)
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
    """Return the members found by `members_able` that may still be bound to their nodes."""
    members = MembersAhead(view, group, schedulers=schedulers, proven=proven, in_hand=in_hand)
    planned = ((uid, node) for uid, node in nodes.items() if view.planned_node(uid) == node)
    return {uid: node for uid, node in planned if members.bar_of(view.pods[uid], node) is None}


def has_room(pod: PodInfo, node: str, *, view: ClusterView) -> bool:
    """Return whether room on a node is still reserved for the Binding of a member.

    It is not if the member was deleted, has left its group, or was bound by another client.
    """
    kept = view.reservation(pod.uid)
    return kept is not None and kept.kind is ReservationKind.BINDING and kept.node == node


def still_holds(pod: PodInfo, node: str, *, view: ClusterView) -> bool:
    """Return whether a member whose Binding is about to be written may still go to its node.

    Since the decision, the node or the member may have changed, or pods with terms may have come.
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
            members = judge()  # the state may have changed during the pause
    return able, left


def _last_first(group: str, view: ClusterView) -> list[str]:
    """Return the UIDs of members, beginning with those that kube-scheduler will likely try last.

    kube-scheduler tries pods by priority, then by the time at which they entered its queue. A pod
    that was refused entered it again later.
    """
    refused = view.refused_of(group)
    there = [pod for pod in view.members(group) if pod.uid not in refused]
    there += [view.pods[uid] for uid in refused]
    there.reverse()
    there.sort(key=lambda pod: pod.priority)
    return [pod.uid for pod in there]


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
