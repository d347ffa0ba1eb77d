"""Chooses the pods to wake: kube-scheduler does not notice when the reason of a refusal goes away.

kube-scheduler watches neither PodGroups nor our plans, so it does not retry a refused pod when a
sibling appears, the PodGroup is created, or a plan gives its room back. A patch of the pod's
metadata makes it try again; so does the removal of our own scheduling gate.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heapreplace
from typing import Final

from extender.api.reasons import TOO_LARGE, Reason
from extender.fit.candidates import is_feasible
from extender.gang.filter import DRY_ROUND, KEPT_FOR_GANG, NOT_SEEN
from extender.gang.fit import fits, is_readable
from extender.gang.gates import cannot_start, sort_key
from extender.gang.verdicts import NOT_ADMITTED, is_ours
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.records import NodeInfo, PodInfo, Refusal, Shape
from extender.state.cluster.view import NO_GROUP, ClusterView
from extender.steps import PIECE, Steps

# --- the table ---------------------------------------------------------------------------------
#
# kube-scheduler tries a pod again after events that it sees itself, for example a new node. On the
# occasions of this table, which it does not see, the pod is patched.


class Occasion(Enum):
    """An occasion on which a refused pod is woken."""

    GROUP = "its group changed, or is planned"
    """`gang/wake.py`, `decide_group`."""
    ROOM = "room came back that kube-scheduler does not see"
    """`gang/wake.py`, `deciding_room`."""
    TIME = "a time has passed: the end of a plan or of a window, or another look"
    """Set by `permit/filter.py` and `permit/plans.py`."""


_GROUP: Final = frozenset((Occasion.GROUP,))
_ROOM: Final = frozenset((Occasion.ROOM,))
_LATER: Final = frozenset((Occasion.GROUP, Occasion.TIME))

WOKEN_BY: Final[Mapping[str, frozenset[Occasion]]] = {
    Reason.POD_GROUP_NOT_FOUND: _GROUP,
    Reason.NOT_ENOUGH_PODS: _GROUP,
    Reason.GATED: _GROUP,
    Reason.NEVER_FITS: _GROUP,
    Reason.WAITING_FOR_NODES: _GROUP,
    Reason.NOT_ENOUGH_RESOURCES: _ROOM,
    Reason.RESERVED: _ROOM,
    Reason.ALREADY_BOUND: _GROUP,
    Reason.NOT_SEEN_YET: _LATER,
    Reason.WAITING_FOR_TURN: _ROOM,
    Reason.INVALID_TOPOLOGY: _GROUP,
    Reason.INVALID_PLACEMENT: _GROUP,
    Reason.OUTSIDE_TOPOLOGY: frozenset((Occasion.GROUP, Occasion.ROOM, Occasion.TIME)),
    Reason.NOT_ADMITTED: frozenset((Occasion.GROUP, Occasion.ROOM)),
    Reason.PLANNING: _LATER,
    Reason.RECENTLY_DENIED: _LATER,
    Reason.CACHE_BEHIND: _LATER,
    Reason.CACHE_STALE: _LATER,
    Reason.SCHEDULER_DISAGREES: _LATER,
    # kube-scheduler's own back-off ends this refusal, and no patch ends the back-off.
    Reason.NATIVE_GROUP_WAITS: frozenset((Occasion.TIME,)),
}


def is_woken_by(waker: Occasion, reason: str) -> bool:
    """Return whether an occasion wakes a pod that was refused with this reason."""
    return waker in WOKEN_BY.get(reason, _GROUP)


# --- pods without a group that may have room ---------------------------------------------------
#
# When room is given back, only pods that find room are worth another try. kube-scheduler tries each
# pod against all nodes, so thousands of pods are not woken for the room of one.


MOST_LOOKS: Final = 10_000
"""The number of nodes that one decision looks at for all pods: this takes some milliseconds."""

PodKind = tuple[Shape, int]
"""A shape and a priority. If a node has no room for one pod of a kind, it has none for others."""


class UngroupedPods:
    """Pods without a group that lack room, by kind."""

    def __init__(self) -> None:
        self._kinds: dict[PodKind, list[PodInfo]] = {}

    def add(self, pod: PodInfo) -> None:
        """Add a pod. If a kind has very many pods, only the oldest are kept."""
        there = self._kinds.setdefault((pod.shape, pod.priority), [])
        there.append(pod)
        if len(there) >= 2 * MOST_LOOKS:
            there.sort(key=_age)
            del there[MOST_LOOKS:]

    def with_room(
        self, view: ClusterView, *, looked: Collection[PodKind] = ()
    ) -> Steps[tuple[Sequence[PodInfo], frozenset[PodKind]]]:
        """Return the pods that find room beside each other, by priority and age.

        Return also the kinds to pass as `looked` to the next decision. Kinds that earlier decisions
        have `looked` for come last, so that each kind has its turn, even if kinds that never fit
        use up all looks. Room is judged by amounts, selectors and taints. Everything else is left
        to kube-scheduler: a pod woken in vain costs it one try.
        """
        before = frozenset(looked)
        if before.issuperset(self._kinds):
            before = frozenset()
        order = []
        for number, (kind, pods) in enumerate(self._kinds.items()):
            pods.sort(key=_age)
            rest = iter(pods)
            order.append((_turn(kind in before, pods[0], number), next(rest), rest))
            yield
        heapify(order)
        found, begun, rooms = list[PodInfo](), set[PodKind](), _Rooms(view)
        while order and rooms.may_look:
            turn, pod, rest = order[0]
            begun.add((pod.shape, pod.priority))
            has_room = rooms.take(pod)
            following = next(rest, None) if has_room else None
            if has_room:
                found.append(pod)
            if following is None:
                heappop(order)
            else:
                heapreplace(order, (_turn(turn[0], following, turn[-1]), following, rest))
        return found, frozenset() if rooms.may_look else before | begun


def _age(pod: PodInfo) -> float:
    return pod.created


def _turn(looked_before: bool, pod: PodInfo, number: int) -> tuple[bool, int, float, int]:  # noqa: FBT001
    return looked_before, -pod.priority, pod.created, number


class _Rooms:
    """The room left on each node, and the node that each kind has reached: room only shrinks."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._taken: dict[str, Resources] = {}
        self._looks = MOST_LOOKS
        self._cursors: dict[PodKind, tuple[Iterator[NodeInfo], NodeInfo | None]] = {}

    @property
    def may_look(self) -> bool:
        """True if another node may be looked at."""
        return self._looks > 0

    def take(self, pod: PodInfo) -> bool:
        """Return whether a node has room for a pod, and take that room."""
        kind = (pod.shape, pod.priority)
        nodes, node = self._cursors.get(kind) or (iter(self._view.nodes.values()), None)
        node = next(nodes, None) if node is None else node
        while node is not None and self._looks > 0 and not self._has_room(pod, node):
            node = next(nodes, None)
        self._cursors[kind] = nodes, node
        if node is None or self._looks <= 0:
            return False
        add(self._taken.setdefault(node.name, {}), pod.shape.requests)
        return True

    def _has_room(self, pod: PodInfo, node: NodeInfo) -> bool:
        self._looks -= 1
        used = self._view.used(node.name)
        asked = pod.shape.requests
        if any(used.get(r, 0) + n > node.allocatable.get(r, 0) for r, n in asked.items() if n):
            return False
        if not is_feasible(pod.shape, node):
            return False
        self._looks -= 3  # adding up costs more than a look
        free = self._view.free(node, priority=pod.priority)
        subtract(free, self._taken.get(node.name, {}))
        return fits(asked, free)


# --- pods of groups ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wake:
    """The pods to be tried again, and the pods that lose our gate."""

    retry: tuple[PodInfo, ...] = ()
    ungate: tuple[PodInfo, ...] = ()
    looked: frozenset[PodKind] = frozenset()
    """The kinds of pods to pass to the next decision about room."""


def decide_group(
    group: str,
    *,
    view: ClusterView,
    gate_until_fit: bool = False,
    resting: Collection[str] = (),
    probes: bool = False,
) -> Wake:
    """Return the pods to wake after a group changed; `gate_until_fit` as in `GangOptions`.

    If it `probes`, one pod alone loses our gate.

    Pods that are `resting`, by UID, could not be patched lately and have a pause of their own. A
    pod that is bound or being bound is never woken.

    Pods that a plan keeps room for are woken, because their siblings wait for them. If members are
    missing and the group can start, one more pod is enough: its plan wakes the others, and if there
    is no room, only one pod was tried in vain.
    """
    ungate = _natives_to_ungate(group, view)
    ungate = ungate or _to_ungate(group, view, gate_until_fit=gate_until_fit)
    if probes and ungate:
        # One that has lost it already shows where nodes come.
        ungate = ungate[: all(pod.gates for pod in view.members(group))]
    if ungate:
        return Wake(ungate=tuple(pod for pod in ungate if pod.uid not in resting))
    uids = (uid for uid in view.refused_of(group) if uid not in resting)
    pods = (view.pods.get(uid) for uid in uids)
    refused = [p for p in pods if p and p.group == group and view.bound_node(p) is None]
    planned = [pod for pod in refused if view.planned_node(pod.uid) is not None]
    expected = tuple(p for p in planned if view.refused[p.uid].reason not in DRY_ROUND)
    others = [
        pod
        for pod in refused
        if is_woken_by(Occasion.GROUP, view.refused[pod.uid].reason)
        and not _is_held(view.refused[pod.uid], view)
    ]
    if view.claims and view.tally(group).bound:
        others = refused  # a gang that has started may use room that other groups claim
    if not others or cannot_start(group, view=view) is not None:
        return Wake(retry=expected)
    waited_for = {pod.uid for pod in planned}
    others = [pod for pod in others if pod.uid not in waited_for]
    # The last to be tried are pods that were refused because the group never fits, and pods that
    # kube-scheduler's own filters have rejected since, because a patch may not make it retry them.
    others.sort(
        key=lambda pod: (
            view.refused[pod.uid].reason in TOO_LARGE,
            pod.unschedulable is not None and not is_ours(pod.unschedulable, group),
        )
    )
    pod_group = view.pod_group(group)
    assert pod_group is not None
    tally = view.tally(group)
    quorum = view.quorum(pod_group)
    if tally.assigned >= quorum:
        return Wake(retry=(*expected, *others))  # with quorum, each pod starts by itself
    if tally.committed >= quorum:
        return Wake(retry=expected)
    return Wake(retry=(*expected, *others[:1]))


def not_spared(
    group: str, pods: Sequence[PodInfo], *, view: ClusterView, coming: Collection[str]
) -> Sequence[PodInfo]:
    """Return the pods to wake, out of members that may be bound together with another one.

    These are the pods that kube-scheduler has to judge itself. If there are none, it is one pod, or
    none if a bind request of a member waits or is due. `coming` are the UIDs of pods whose bind
    requests are due.
    """
    needy = [pod for pod in pods if not _is_good(pod, view.planned_node(pod.uid), view)]
    tally = view.tally(group)
    comes = tally.waiting or not tally.planned.isdisjoint(coming)
    return needy or ([] if comes else pods[:1])


def deciding_room(
    *,
    view: ClusterView,
    strict: bool = False,
    resting: Collection[str] = (),
    looked: Collection[PodKind] = (),
) -> Steps[Wake]:
    """Return the pods to wake after a plan gave room back, in the order of their turns.

    First come the groups in their order: the first pod of each that lacked room, or all of them if
    the group has started. Then come the pods without a group: those whose Job may have pods now,
    and those that find room beside each other. In `strict` order only one group has its turn. Pods
    that are `resting`, by UID, could not be patched lately. `looked` comes from the last decision.
    """
    lacking: dict[str, list[PodInfo]] = {}
    ungrouped = UngroupedPods()
    free: list[PodInfo] = []
    for number, refusal in enumerate([*view.refused.values()]):
        if number % PIECE == 0:
            yield
        pod = refusal.pod
        if pod.uid in resting or view.bound_node(pod) is not None:
            continue
        if _is_held(refusal, view):
            continue
        if pod.group is None and refusal.reason == Reason.NOT_ADMITTED:
            free.append(pod)
        elif pod.group is None:
            ungrouped.add(pod)
        elif is_woken_by(Occasion.ROOM, refusal.reason):
            lacking.setdefault(pod.group, []).append(pod)
    found, looked = yield from ungrouped.with_room(view, looked=looked)
    order = sorted(lacking, key=lambda group: sort_key(group, view=view))
    behind = {*[group for group in order if group in view.queue][1:]} if strict else ()
    woken = list[PodInfo]()
    for group in order:
        pod_group = view.pod_group(group)
        started = pod_group and view.tally(group).assigned >= view.quorum(pod_group)
        if group not in behind:  # the plan of one pod wakes the others
            woken += lacking[group] if started else lacking[group][:1]
    return Wake(retry=(*woken, *view.admitted_of(free), *found), looked=looked)


def _is_held(refusal: Refusal, view: ClusterView) -> bool:
    """Return whether a refused pod still waits for its job to be admitted."""
    held = refusal.reason == Reason.NOT_ADMITTED
    return held and view.awaits_admission(refusal.pod) is not None


def _is_good(pod: PodInfo, node: str | None, view: ClusterView) -> bool:
    """Return whether kube-scheduler found a node feasible for an equal pod, and it is unchanged."""
    if pod.pattern is None or node is None or pod.uid not in view.pods:
        return False
    return view.is_good(pod.pattern, node)


def _natives_to_ungate(group: str, view: ClusterView) -> tuple[PodInfo, ...]:
    """Return the pods of a native group that our gate holds back though we do not start them.

    kube-scheduler tries no gated pod, so without this it would never show who starts native gangs.
    """
    pods = (view.pods.get(uid) for uid in view.naming(group))
    ours = view.natives_are_ours
    return tuple(pod for pod in pods if pod and pod.is_gated_by_us and not (ours and pod.group))


def _to_ungate(group: str, view: ClusterView, *, gate_until_fit: bool) -> tuple[PodInfo, ...]:
    """Return the pods that only our gate holds back, once the group can start.

    Then it has enough pods whose jobs are admitted, and annotations that mean something.

    With `gate_until_fit`, return only the pods that a plan keeps room for, unless the group has
    started or only kube-scheduler can judge its pods.
    """
    pod_group, tally = view.pod_group(group), view.tally(group)
    if pod_group is None or not tally.all_gated_by_us or cannot_start(group, view=view):
        return ()
    behind = [view.pods[uid] for uid in tally.all_gated_by_us]
    ours = tuple(pod for pod in behind if view.awaits_admission(pod) is None)
    quorum, held = view.quorum(pod_group), len(behind) - len(ours)
    if len(tally.members) - len(tally.gated) - held < quorum:
        return ()
    if not gate_until_fit or tally.assigned >= quorum or not is_readable(group, view=view):
        return ours
    return tuple(pod for pod in ours if view.planned_node(pod.uid) is not None)


def is_not_admitted(group: str, *, view: ClusterView) -> bool:
    """Return whether our gate holds pods back that a queue has not admitted: that is no event."""
    ours = (view.pods[uid] for uid in view.tally(group).all_gated_by_us)
    return any(view.awaits_admission(pod) is not None for pod in ours)


def refused_before(pod: PodInfo) -> Reason | None:
    """Return the reason of a refusal by an earlier run of this process, from the pod's condition.

    Refusals are kept in memory only, so after a restart the condition is all that is left of them.
    """
    if pod.node is not None or pod.gates or pod.unschedulable is None:
        return None
    if NOT_ADMITTED in pod.unschedulable:
        return Reason.NOT_ADMITTED
    if NOT_SEEN in pod.unschedulable:
        return Reason.NOT_SEEN_YET
    if pod.group is None:
        return Reason.RESERVED if KEPT_FOR_GANG in pod.unschedulable else None
    return Reason.RECENTLY_DENIED if is_ours(pod.unschedulable, pod.group) else None


# --- pods that were not woken ------------------------------------------------------------------
#
# Each refusal has an occasion that ends it and wakes the pod. The pods found here were missed by
# it, or wait for something that only kube-scheduler knows.


_MAY_BE_MISSED: Final = frozenset((
    *(Reason.NOT_ENOUGH_RESOURCES, Reason.OUTSIDE_TOPOLOGY, *TOO_LARGE),
    *(Reason.NOT_SEEN_YET, Reason.PLANNING, Reason.RECENTLY_DENIED),
    *(Reason.CACHE_BEHIND, Reason.CACHE_STALE, Reason.SCHEDULER_DISAGREES),
))  # fmt: skip


def waiting_unwoken(
    view: ClusterView, *, has_no_room: Callable[[str], bool]
) -> Steps[tuple[dict[str, str], dict[str, str]]]:
    """Return the UID of a pod to try again for each group, and each pod without a group.

    A group counts if it has no room and no member that is still to be tried; its pod is the first
    that kube-scheduler itself did not reject, if there is one. Keys are `namespace/name`, or
    `namespace/uid` for pods without a group.
    """
    groups, pods = dict[str, str](), dict[str, str]()
    for group in [*view.queue]:
        yield
        tally = view.tally(group)
        if group not in view.queue or has_no_room(group) or tally.committed:
            continue
        if any(uid in view.fresh for uid in tally.members):
            continue
        refused = [view.refused[uid] for uid in view.refused_of(group)]
        missed = [each for each in refused if _may_be_missed(each, view)]
        first = next(filter(_is_ours, missed), missed[0] if missed else None)
        if first is not None:
            groups[group] = first.pod.uid
    for uid in [*view.refused_of(NO_GROUP)]:
        yield
        refusal = view.refused.get(uid)
        if refusal is not None and _may_be_missed(refusal, view):
            pods[f"{refusal.pod.namespace}/{uid}"] = uid
    return groups, pods


def _may_be_missed(refusal: Refusal, view: ClusterView) -> bool:
    """Return whether the reason of a refusal may be over; for reserved room, if none is kept."""
    if refusal.reason == Reason.RESERVED:
        return not view.keeps_room
    return refusal.reason in _MAY_BE_MISSED


def _is_ours(refusal: Refusal) -> bool:
    said = refusal.pod.unschedulable
    return said is None or is_ours(said, refusal.pod.group or "")
