"""Plans of groups: room for all members that are missing, in the order of the groups.

A plan is what the gates `PLANNED` find (`gang/gates.py`): where the pods go, or why they cannot.
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
"""How many pods of groups that go first are planned, at most, before the one that is asked for.

One call of filter cannot plan a queue of thousands. Beyond this number the order is the one in
which kube-scheduler brings the pods, which by priority and age is nearly the same.
"""


def plan_gang(
    pod: PodInfo,
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    offer: Offer = NO_OFFER,
    permitted: bool = False,
) -> Steps[Fit | Refuse]:
    """Return where this pod and enough of its siblings go, all of them, or the refusal of the gang.

    A `permitted` group has passed the check of its minResources not long ago.
    """
    attempt = attempt_of(pod, pod_group, view=view, offer=offer, permitted=permitted)
    yield
    return _answer((yield from planned(attempt)))


def plan_unasked(
    pod_group: PodGroupInfo, *, view: ClusterView, schedulers: Collection[str]
) -> Steps[Fit | Refuse | None]:
    """Return the plan of a group that is ahead of the one which is being tried, by our own reading.

    None for a group that we cannot judge: kube-scheduler judges its pods one by one, has
    found no node for one of them, or is not one of the `schedulers` that ask us. A refusal is not
    explained: that is done when the group's own turn comes.
    """
    group = pod_group.key
    pods = candidates(None, group, view=view)
    if not pods or not all(_is_ours_to_plan(pod, group, schedulers) for pod in pods):
        return None
    missing = view.quorum(pod_group) - view.tally(group).committed
    attempt = PlanAttempt(pod_group, pods, missing, view, explains=False)
    yield
    return _answer((yield from planned(attempt)))


def never_fits(pod_group: PodGroupInfo, *, view: ClusterView) -> Steps[Refuse | None]:
    """Return the refusal of a group that the usable nodes could not take if they were empty.

    A group that has room for some of its members is not asked: their nodes are taken by itself.
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
    """The last gate before that of room, and that of room unless the one before refuses."""
    free: Fit | None = None
    """On what is free; None where an earlier gate refuses."""
    unkept: Fit | None = None
    """If no room were kept for other groups; None where none is."""
    empty: Fit | None = None
    """If no pod were on the nodes; None where that says nothing."""


def explain_plan(
    pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView, permitted: bool = False
) -> Steps[PlanLook]:
    """Return all that the plan of a group says, for an explanation: it takes longer than a plan."""
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
    """Return, by UID, the nodes of those pods that can still have their room there.

    A plan may take so long that others have had their turn meanwhile.
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
# Extenders have no QueueSort, so the order is imposed where groups are planned, and where they are
# chosen to be tried again: priority, then age or last failure, then arrival, then the group's name.


def sort_key(group: str, *, view: ClusterView) -> Turn:
    """Return the place of a group in the order; the lowest is served first."""
    pod_group = view.pod_group(group)
    if pod_group is not None:
        return view.turn(pod_group)
    return -view.tally(group).priority, float("inf"), 0, group


def groups_ahead(
    pod_group: PodGroupInfo, *, view: ClusterView, skip: Callable[[PodGroupInfo], bool]
) -> Iterator[PodGroupInfo]:
    """Yield the groups to be planned before one, but for those that `skip` says no to.

    Each is asked for when it is its turn: a plan may take groups out of the queue meanwhile.
    """
    pods = 0
    for other in list(islice(_before(pod_group, view), AHEAD)):
        if pods >= AHEAD:
            return
        if not skip(other):
            pods += view.quorum(other)
            yield other


def refusal_behind(
    pod_group: PodGroupInfo, *, view: ClusterView, skip: Callable[[PodGroupInfo], bool]
) -> Refuse | None:
    """Return the refusal, in strict order, of a group that is behind any that is not skipped."""
    if all(map(skip, _before(pod_group, view))):
        return None
    text = f"{about(pod_group.key)}another gang is ahead of it, and the order is strict"
    return Refuse(Reason.WAITING_FOR_TURN, text)


def _before(pod_group: PodGroupInfo, view: ClusterView) -> Iterator[PodGroupInfo]:
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
    """Return whether a pod still waits for a node, and asks for the same."""
    now = view.pods.get(pod.uid)
    return (
        now is not None
        and (now.shape, now.group, now.node) == (pod.shape, pod.group, None)
        and not now.terminating
        and (not now.gates or now.is_gated_by_us)
        and view.reservation(pod.uid) is None
    )
