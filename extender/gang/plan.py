"""Plans for groups: room for all missing members, in the order of the groups.

A plan is the answer of the gates `PLANNED` (`gang/gates.py`): where the pods go, or a refusal.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from extender.api.reasons import Reason
from extender.gang.fit import NO_OFFER, Fit, Offer, candidates, finds_no_node, fits
from extender.gang.gates import Gate, GateCheck, PlanAttempt, attempt_of, impossible, planned
from extender.gang.room import Room
from extender.gang.verdicts import Refuse, about
from extender.resources.quantity import Resources, subtract
from extender.state.cluster.groups import Turn
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

AHEAD: Final = 256
"""The number of pods, of groups that go first, to plan before the group that was asked for.

One call of filter cannot plan a queue of thousands. Beyond this number the groups are planned in
the order in which kube-scheduler tries their pods: by priority and age, so nearly the same.
"""


def plan_gang(
    pod: PodInfo,
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    offer: Offer = NO_OFFER,
    permitted: bool = False,
) -> Steps[Fit | Refuse]:
    """Return where this pod and as many siblings as it needs go, or the refusal of the gang.

    A `permitted` group has passed the check of its minResources not long ago.
    """
    attempt = attempt_of(pod, pod_group, view=view, offer=offer, permitted=permitted)
    yield
    return _answer((yield from planned(attempt)))


def plan_unasked(
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    schedulers: Collection[str],
    explains: bool = False,
) -> Steps[Fit | Refuse | None]:
    """Return the plan of a group that is ahead of the one being tried, without kube-scheduler.

    Return None for a group that we cannot judge: kube-scheduler judges its pods one by one, has
    found no node for one of them, or is not one of the `schedulers` that ask us. A refusal is
    explained only if `explains`; else that is done when the group's own turn comes.
    """
    group = pod_group.key
    pods = candidates(None, group, view=view)
    if not pods or not all(_is_ours_to_plan(pod, group, schedulers) for pod in pods):
        return None
    missing = view.quorum(pod_group) - view.tally(group).committed
    attempt = PlanAttempt(pod_group, pods, missing, view, explains=explains)
    yield
    return _answer((yield from planned(attempt)))


def never_fits(pod_group: PodGroupInfo, *, view: ClusterView) -> Steps[Refuse | None]:
    """Return the refusal of a group that would not fit on the usable nodes if they were empty.

    Return None for a group that has room for some of its members: it uses some nodes itself.
    """
    pods = candidates(None, pod_group.key, view=view)
    missing = view.quorum(pod_group)
    if view.tally(pod_group.key).committed or len(pods) < missing:
        return None
    attempt = PlanAttempt(pod_group, pods, missing, view)
    refusal = impossible(attempt)
    if refusal is not None and refusal.reason is Reason.NEVER_FITS:
        return refusal
    return (yield from attempt.never_fits())


@dataclass(frozen=True, slots=True)
class PlanLook:
    """The plan of a group, and how many of its pods would fit if there were more room."""

    answer: Fit | Refuse
    checks: tuple[GateCheck, ...]
    """The gates `ABLE_PODS` and `ROOM`, or only the earlier gate that refuses."""
    free: Fit | None = None
    """The fit in free room; None if an earlier gate refuses."""
    unkept: Fit | None = None
    """The fit if no room were kept for other groups; None if none is kept."""
    empty: Fit | None = None
    """The fit on empty nodes; None if the extender cannot tell."""


def explain_plan(
    pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView, permitted: bool = False
) -> Steps[PlanLook]:
    """Return the plan of a group with all its details. This takes longer than a plan alone."""
    attempt = attempt_of(pod, pod_group, view=view, permitted=permitted)
    yield
    last = yield from planned(attempt)
    answer = _answer(last)
    if last.gate is not Gate.ROOM:
        return PlanLook(answer, (last,))
    free = yield from attempt.fit(Room.FREE)
    free = yield from free.explained()
    able = GateCheck(Gate.ABLE_PODS, None, len(attempt.pods), attempt.missing)
    checks = able, GateCheck(Gate.ROOM, last.refusal, free.count, attempt.missing)
    if free.complete:
        return PlanLook(answer, checks, free)
    unkept = (yield from attempt.fit(Room.UNKEPT)) if view.keeps_room else None
    empty = (yield from attempt.fit(Room.EMPTY)) if attempt.is_readable else None
    return PlanLook(answer, checks, free, unkept, empty)


def still_valid(
    placements: Iterable[tuple[PodInfo, str]], group: str, *, view: ClusterView
) -> Mapping[str, str]:
    """Return the nodes of the pods that can still have their planned room, by UID.

    While a plan is made, which may take long, other groups may have taken the room.
    """
    priority, left = view.tally(group).priority, dict[str, Resources]()
    kept: dict[str, str] = {}
    for pod, name in placements:
        node = view.nodes.get(name)
        if node is None or not node.ready or not _still_waits(pod, view):
            continue
        if name not in left:
            left[name] = view.free(node, priority=priority, group=group)
        if fits(pod.shape.requests, left[name]):
            subtract(left[name], pod.shape.requests)
            kept[pod.uid] = name
    return kept


# --- the order between groups ----------------------------------------------------------------
#
# An extender has no QueueSort, so the order is imposed when groups are planned, and when they are
# woken to be tried again: priority, then age or last failure, then arrival, then the group's name.


def sort_key(group: str, *, view: ClusterView) -> Turn:
    """Return the place of a group in the order; the lowest is served first."""
    pod_group = view.pod_group(group)
    if pod_group is not None:
        return view.turn(pod_group)
    return -view.tally(group).priority, float("inf"), 0, group


def groups_ahead(
    pod_group: PodGroupInfo, *, view: ClusterView, skip: Callable[[PodGroupInfo], bool]
) -> Iterator[PodGroupInfo]:
    """Yield the groups to be planned before a group, except those for which `skip` returns true.

    `skip` is called when the turn of a group comes: plans may take groups out of the queue.
    """
    pods = 0
    for other in list(islice(groups_before(pod_group, view=view), AHEAD)):
        if pods >= AHEAD:
            return
        if not skip(other):
            pods += view.quorum(other)
            yield other


def refusal_behind(
    pod_group: PodGroupInfo, *, view: ClusterView, skip: Callable[[PodGroupInfo], bool]
) -> Refuse | None:
    """Return the refusal, in strict order, of a group that is behind one that is not skipped."""
    if all(map(skip, groups_before(pod_group, view=view))):
        return None
    text = f"{about(pod_group.key)}another gang is ahead of it, and the order is strict"
    return Refuse(Reason.WAITING_FOR_TURN, text)


def groups_before(pod_group: PodGroupInfo, *, view: ClusterView) -> Iterator[PodGroupInfo]:
    """Yield the groups of the queue that go before a group, in their order."""
    for key in view.queue.ahead_of(view.turn(pod_group)):
        other = view.pod_group(key)
        if other is not None:
            yield other


def _answer(check: GateCheck) -> Fit | Refuse:
    answer = check.refusal or check.fit
    assert answer is not None  # the last gate is that of room
    return answer


def _is_ours_to_plan(pod: PodInfo, group: str, schedulers: Collection[str]) -> bool:
    stuck = finds_no_node(pod, group)
    asks = pod.scheduler in schedulers or pod.is_gated_by_us
    return asks and not stuck and not pod.shape.individually_constrained


def _still_waits(pod: PodInfo, view: ClusterView) -> bool:
    """Return whether a pod still waits for a node with an unchanged request."""
    now = view.pods.get(pod.uid)
    return (
        now is not None
        and (now.shape, now.group, now.node) == (pod.shape, pod.group, None)
        and not now.terminating
        and (not now.gates or now.is_gated_by_us)
        and view.reservation(pod.uid) is None
    )
