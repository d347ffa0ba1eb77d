"""The gates that a group passes before it starts, in order, the last of which make its plan.

All callers use the same functions. Filter asks them when a member is tried (`gang/filter.py`), the
status of a PodGroup says at which gate it waits (`gang/status.py`), and `gang-extender explain`
shows them all (`explain/gates.py`). They are pure: the memory that a process has of a group is
an argument, and the reconciler, which remembers nothing, leaves it out.

If one gate refuses, no later gate is asked. The tables `CAN_START`, `MAY_BE_PLANNED` and `PLANNED`
have the order. A plan is the answer of the last ones: where the pods go, or a refusal.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from extender.api.reasons import TOO_LARGE, Reason
from extender.gang import topology
from extender.gang.fit import (
    NO_OFFER,
    Fit,
    Offer,
    candidates,
    finds_no_node,
    fits,
    fitting,
    lacking_resources,
    listed,
)
from extender.gang.verdicts import Lack, Refuse, Room, about, not_admitted
from extender.resources.quantity import Resources, subtract
from extender.state.cluster.index import GroupTally, Turn
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

AHEAD: Final = 256
"""The number of pods, of groups that go first, to plan before the group that was asked for.

One call of filter cannot plan a queue of thousands. Beyond this number the groups are planned in
the order in which kube-scheduler tries their pods: by priority and age, so nearly the same.
"""
MOST_MIN_RESOURCES: Final = 64
"""The number of resources that minResources may name; a node has fewer than that."""


class Gate(StrEnum):
    """One question about a group; if the answer is no, no later question is asked."""

    ADMISSION = "Admission"
    """Has its queue admitted the Job of its pods?"""
    POD_GROUP = "PodGroup"
    """Is there a PodGroup?"""
    ANNOTATIONS = "Annotations"
    """Can its annotations about topology and placement be satisfied at all?"""
    PODS = "Pods"
    """Do enough pods exist?"""
    SCHEDULING_GATES = "SchedulingGates"
    """Are enough of them free of gates that are not ours?"""
    RECENT_FAILURE = "RecentFailure"
    """Did it fail just now?"""
    TURN = "Turn"
    """Is it first in the queue, if the order is strict?"""
    TOPOLOGY = "Topology"
    """Are there nodes with the label that its annotation names?"""
    MIN_RESOURCES = "MinResources"
    """Are its minResources free, all nodes taken together?"""
    ABLE_PODS = "AblePods"
    """Can enough of its pods be placed now, all by one scheduler?"""
    ROOM = "Room"
    """Do the pods that it still needs fit, node by node?"""
    QUORUM = "Quorum"
    """Do enough pods have a node, or wait with one?"""


class GateCheck(NamedTuple):
    """The answer of a gate: `have` of `need`, and the refusal if that is too few."""

    gate: Gate
    refusal: Refuse | None = None
    have: int | None = None
    need: int | None = None
    fit: Fit | None = None
    """The nodes of its pods, if the gate `ROOM` does not refuse."""


def _no_refusal(_: str) -> Refuse | None:
    return None


@dataclass(frozen=True, slots=True)
class Known:
    """The memory that a process has of groups, as functions of a group's key."""

    failed: Callable[[str], Refuse | None] = _no_refusal
    """Return the refusal of a group that failed, while nothing has changed for it."""
    turn: Callable[[str], Refuse | None] = _no_refusal
    """Return the refusal of a group that has to wait for others."""


NOTHING_KNOWN: Final = Known()


@dataclass(frozen=True, slots=True)
class Asked:
    """The group that is asked about, and what a process remembers of it."""

    group: str
    view: ClusterView
    pod_group: PodGroupInfo | None
    tally: GroupTally
    need: int
    """The number of pods that it needs, not counting those that are done."""
    known: Known = NOTHING_KNOWN

    @property
    def missing(self) -> int:
        """The number of pods that the group needs and that have neither a node nor kept room."""
        return self.need - self.tally.committed


def asked(group: str, view: ClusterView, known: Known = NOTHING_KNOWN) -> Asked:
    """Return the question about a group, as the cluster is now."""
    pod_group = view.pod_group(group)
    need = view.quorum(pod_group) if pod_group is not None else 0
    return Asked(group, view, pod_group, view.tally(group), need, known)


# --- whether the group can start at all, whatever room there is ------------------------------


def is_admitted(ask: Asked) -> GateCheck:
    """Return whether no queue holds back a member. Filter checks only the pod that is tried."""
    for pod in ask.view.members(ask.group):
        held = ask.view.awaits_admission(pod) if pod.node is None else None
        if held is not None:
            return GateCheck(Gate.ADMISSION, not_admitted(held))
    return GateCheck(Gate.ADMISSION)


def has_pod_group(ask: Asked) -> GateCheck:
    """Return whether there is a PodGroup."""
    if ask.pod_group is not None:
        return GateCheck(Gate.POD_GROUP)
    text = f"{about(ask.group)}there is no such PodGroup"
    return GateCheck(Gate.POD_GROUP, Refuse(Reason.POD_GROUP_NOT_FOUND, text))


def has_good_annotations(ask: Asked) -> GateCheck:
    """Return whether the annotations about topology and placement can be satisfied."""
    found = ask.pod_group
    if found is None:
        return GateCheck(Gate.ANNOTATIONS)
    refusal = topology.contradiction(found) or topology.unknown_placement(found)
    return GateCheck(Gate.ANNOTATIONS, refusal)


def has_pods(ask: Asked) -> GateCheck:
    """Return whether enough pods exist.

    Every pod that has not finished counts: bound, terminating and gated ones too.
    """
    have, need = len(ask.tally.members), ask.need
    if have >= need:
        return GateCheck(Gate.PODS, None, have, need)
    text = f"{about(ask.group)}{have} of the {need} pods that it needs exist"
    return GateCheck(Gate.PODS, Refuse(Reason.NOT_ENOUGH_PODS, text), have, need)


def has_ungated_pods(ask: Asked) -> GateCheck:
    """Return whether enough pods are free of gates that are not ours."""
    have, need = len(ask.tally.members) - len(ask.tally.gated), ask.need
    if have >= need:
        return GateCheck(Gate.SCHEDULING_GATES, None, have, need)
    text = f"{about(ask.group)}{have} of the {need} pods that it needs are free of gates"
    return GateCheck(Gate.SCHEDULING_GATES, Refuse(Reason.GATED, text), have, need)


# --- whether it may be planned now, by what the process remembers ----------------------------


def has_not_failed(ask: Asked) -> GateCheck:
    """Return whether the group has not just failed, or something has changed for it since."""
    return GateCheck(Gate.RECENT_FAILURE, ask.known.failed(ask.group))


def has_its_turn(ask: Asked) -> GateCheck:
    """Return whether the group does not have to wait for a group ahead of it."""
    return GateCheck(Gate.TURN, ask.known.turn(ask.group))


# --- the plan: whether there is room ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanAttempt:
    """The pods of a group that could be placed now, beginning with the one that is tried."""

    pod_group: PodGroupInfo
    pods: Sequence[PodInfo]
    missing: int
    """The number of `pods` that the group needs."""
    view: ClusterView
    offer: Offer = NO_OFFER
    permitted: bool = False
    """True if its minResources were free not long ago."""
    explains: bool = True
    """True if a refusal is to explain why there is no room, which takes longer."""

    @property
    def about(self) -> str:
        """The beginning of a sentence about the group."""
        return about(self.pod_group.key)

    @property
    def is_readable(self) -> bool:
        """True if the extender can tell where its pods may go; else only kube-scheduler can."""
        return not any(pod.shape.individually_constrained for pod in self.pods)

    def fit(self, room: Room) -> Steps[Fit]:
        """Return where its pods fit, in a kind of room."""
        # kube-scheduler offers only nodes that have room now.
        offer = NO_OFFER if room is Room.EMPTY else self.offer
        group = self.pod_group.key
        return fitting(self.pods, self.missing, group=group, view=self.view, offer=offer, room=room)

    def never_fits(self) -> Steps[Refuse | None]:
        """Return the refusal of pods that would not fit on empty nodes."""
        if not self.is_readable:
            return None  # only kube-scheduler can judge them
        found = yield from self.fit(Room.EMPTY)
        if found.complete:
            return None
        text = (yield from found.explained()).sentence()
        lack = self.lack(found.missing, Room.EMPTY)
        text = f"{self.about}{text}, even with all nodes empty"
        return Refuse(self.view.too_large, text, deny=True, lack=lack)

    def lack(self, missing: int, room: Room) -> Lack:
        """Return what the nodes have to gain before `missing` more of its pods fit."""
        shapes = tuple(dict.fromkeys(pod.shape for pod in self.pods))
        group, missing = self.pod_group.key, missing if len(shapes) == 1 else 1
        return Lack(group, self.view.tally(group).priority, shapes, missing, room)


def attempt_of(
    pod: PodInfo,
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    offer: Offer = NO_OFFER,
    permitted: bool = False,
) -> PlanAttempt:
    """Return the attempt to place a pod and its siblings."""
    siblings = candidates(pod, pod_group.key, view=view)
    missing = view.quorum(pod_group) - view.tally(pod_group.key).committed
    return PlanAttempt(pod_group, [pod, *siblings], missing, view, offer, permitted)


def impossible(attempt: PlanAttempt) -> Refuse | None:
    """Return the refusal of a group whose annotations the nodes, or its own pods, contradict."""
    refusal = topology.unknown_placement(attempt.pod_group)
    refusal = refusal or topology.impossible(attempt.pod_group, view=attempt.view)
    if refusal is None or not refusal.deny:
        return refusal
    # One node that gets the label may be enough, so the group is looked at again.
    return replace(refusal, lack=attempt.lack(1, Room.EMPTY))


def has_topology(attempt: PlanAttempt) -> Steps[GateCheck]:
    """Return whether there are nodes with the topology that the PodGroup asks for."""
    yield from ()
    return GateCheck(Gate.TOPOLOGY, impossible(attempt))


def has_min_resources(attempt: PlanAttempt) -> Steps[GateCheck]:
    """Return whether its minResources are free; they are not checked again if it is `permitted`."""
    if attempt.permitted:
        return GateCheck(Gate.MIN_RESOURCES)
    pod_group, view, start = attempt.pod_group, attempt.view, attempt.about
    names = len(pod_group.min_resources)
    if names > MOST_MIN_RESOURCES:
        text = f"its minResources name {names} resources, and may name {MOST_MIN_RESOURCES}"
        refusal = Refuse(Reason.NEVER_FITS, start + text, deny=True)
        return GateCheck(Gate.MIN_RESOURCES, refusal)
    short = yield from lacking_resources(pod_group, view=view)
    if not short:
        return GateCheck(Gate.MIN_RESOURCES)
    text = f"{start}its minResources are short of {listed(short)}"
    reason = Reason.NOT_ENOUGH_RESOURCES
    if (yield from lacking_resources(pod_group, view=view, room=Room.EMPTY)):
        reason, text = view.too_large, f"{text}, even with all nodes empty"
    return GateCheck(Gate.MIN_RESOURCES, Refuse(reason, text, deny=True))


def has_able_pods(attempt: PlanAttempt) -> Steps[GateCheck]:
    """Return whether enough of its pods can be placed now, all by one scheduler."""
    yield from ()
    have, need = len(attempt.pods), attempt.missing
    if have >= need:
        return GateCheck(Gate.ABLE_PODS, None, have, need)
    text = f"{attempt.about}{have} of the {need} pods that it still needs can start"
    members = attempt.view.members(attempt.pod_group.key)
    scheduler = attempt.pods[0].scheduler
    foreign = sum(pod.node is None and pod.scheduler != scheduler for pod in members)
    if foreign:
        text += f", {foreign} wait for another scheduler"
    return GateCheck(Gate.ABLE_PODS, Refuse(Reason.NOT_ENOUGH_PODS, text), have, need)


def has_room(attempt: PlanAttempt) -> Steps[GateCheck]:
    """Return whether the pods that it still needs fit, node by node, and where they go.

    The reason of the refusal depends on what the group waits for: pods that have to end
    (NotEnoughResources), groups ahead of it (WaitingForTurn), or nodes that do not exist yet
    (NeverFits, or WaitingForNodes).
    """
    need = attempt.missing
    found = yield from _placed_by_index(attempt)
    if found is None:
        found = yield from attempt.fit(Room.FREE)
    if found.complete:
        return GateCheck(Gate.ROOM, None, found.count, need, found)
    refusal = yield from _why_no_room(attempt, found)
    return GateCheck(Gate.ROOM, refusal, found.count, need)


def _why_no_room(attempt: PlanAttempt, found: Fit) -> Steps[Refuse]:
    lack = attempt.lack(found.missing, Room.FREE)
    if not attempt.explains:
        text = f"{attempt.about}it does not fit"
        return Refuse(Reason.NOT_ENOUGH_RESOURCES, text, deny=True, lack=lack)
    view = attempt.view
    if view.keeps_room and (yield from attempt.fit(Room.UNKEPT)).complete:
        text = (
            f"{attempt.about}{found.count} of the {attempt.missing} pods that it still "
            f"needs fit{found.where} beside gangs that go first"
        )
        return Refuse(Reason.WAITING_FOR_TURN, text, deny=True, lack=lack)
    has_some = view.tally(attempt.pod_group.key).committed
    never = None if has_some else (yield from attempt.never_fits())
    if never is not None:
        return never
    text = attempt.about + (yield from found.explained()).sentence()
    of_offer = attempt.offer.complete and bool(attempt.offer.nodes)
    unseen = of_offer and lack.is_filled_beside({*attempt.offer.nodes}, view)
    reason = Reason.NOT_ENOUGH_RESOURCES
    return Refuse(reason, text, deny=True, of_offer=of_offer, unseen=unseen, lack=lack)


def _placed_by_index(attempt: PlanAttempt) -> Steps[Fit | None]:
    """Return the places of equal pods of lower index, and of the pod that is tried.

    If the gang has a quorum without the pod, equal pods of lower index go first, and the pod may
    get no place. Return None if they are too few for a quorum, or find no room.
    """
    pod, group = attempt.pods[0], attempt.pod_group.key
    if pod.index is None or pod.shape.individually_constrained:
        return None
    lower = [other for other in attempt.pods[1:] if _goes_before(other, pod, group)]
    if len(lower) < attempt.missing:
        return None
    # The pods are equal, so the nodes offered for the one are feasible for the others.
    found = yield from fitting(
        [*lower, pod], len(lower) + 1, group=group, view=attempt.view, offer=attempt.offer
    )
    enough = len(found.placements) >= attempt.missing
    return Fit(found.placements, attempt.missing) if enough else None


def _goes_before(other: PodInfo, pod: PodInfo, group: str) -> bool:
    """Return whether an equal pod of the same Job has a lower index, and can be placed.

    Indexes of different Jobs of one group are not compared.
    """
    return (
        other.index is not None
        and pod.index is not None
        and other.controller == pod.controller
        and other.index < pod.index
        and (other.priority, other.shape) == (pod.priority, pod.shape)
        and not finds_no_node(other, group)
    )


# --- the order -------------------------------------------------------------------------------

CAN_START: Final[Mapping[Gate, Callable[[Asked], GateCheck]]] = {
    Gate.POD_GROUP: has_pod_group,
    Gate.ANNOTATIONS: has_good_annotations,
    Gate.PODS: has_pods,
    Gate.SCHEDULING_GATES: has_ungated_pods,
}
"""The gates asked first: can the group start at all, whatever room there is? `ADMISSION` comes
before them, and is asked of every pod, with or without a group."""

MAY_BE_PLANNED: Final[Mapping[Gate, Callable[[Asked], GateCheck]]] = {
    Gate.RECENT_FAILURE: has_not_failed,
    Gate.TURN: has_its_turn,
}
"""The gates asked next of a group that lacks room: is a plan worth its time, and is it its turn?"""

PLANNED: Final[Mapping[Gate, Callable[[PlanAttempt], Steps[GateCheck]]]] = {
    Gate.TOPOLOGY: has_topology,
    Gate.MIN_RESOURCES: has_min_resources,
    Gate.ABLE_PODS: has_able_pods,
    Gate.ROOM: has_room,
}
"""The gates that make the plan, asked in steps. `QUORUM` comes after them, when members wait with
their nodes (`gang/hold.py`)."""


def first_refusal(gates: Mapping[Gate, Callable[[Asked], GateCheck]], ask: Asked) -> Refuse | None:
    """Return the refusal of the first of these gates that refuses, or None."""
    for gate in gates.values():
        refusal = gate(ask).refusal
        if refusal is not None:
            return refusal
    return None


def cannot_start(group: str, *, view: ClusterView) -> Refuse | None:
    """Return why a group cannot start whatever room there is, or None if it can."""
    return first_refusal(CAN_START, asked(group, view))


def through(
    gates: Mapping[Gate, Callable[[Asked], GateCheck]], ask: Asked
) -> Generator[GateCheck, None, bool]:
    """Yield the answer of each gate up to the first refusal; return whether none refused."""
    for gate in gates.values():
        check = gate(ask)
        yield check
        if check.refusal is not None:
            return False
    return True


def planned(attempt: PlanAttempt) -> Steps[GateCheck]:
    """Return the answer of the first gate of the plan that refuses, or of the last one."""
    check = GateCheck(Gate.ROOM)
    for gate in PLANNED.values():
        check = yield from gate(attempt)
        if check.refusal is not None:
            break
    return check


# --- plans: room for all missing members of a group -------------------------------------------


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
    return answer_of((yield from planned(attempt)))


def plan_unasked(
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    schedulers: Collection[str],
    explains: bool = False,
) -> Steps[Fit | Refuse | None]:
    """Return the plan of a group that is ahead of the one being tried, without kube-scheduler.

    Return None for a group that we cannot judge: kube-scheduler judges its pods one by one, has
    found no node for one of them, or is not one of the `schedulers` that ask us. With `explains` a
    refusal is explained, and a group that would fit on no empty node is refused whoever judges it;
    else that is done when the group's own turn comes.
    """
    group = pod_group.key
    pods = candidates(None, group, view=view)
    if not pods or not all(_is_ours_to_plan(pod, group, schedulers) for pod in pods):
        return (yield from never_fits(pod_group, view=view)) if explains else None
    missing = view.quorum(pod_group) - view.tally(group).committed
    attempt = PlanAttempt(pod_group, pods, missing, view, explains=explains)
    yield
    return answer_of((yield from planned(attempt)))


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
    if refusal is not None and refusal.reason in TOO_LARGE:
        return refusal
    return (yield from attempt.never_fits())


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


def answer_of(check: GateCheck) -> Fit | Refuse:
    """Return the plan, or the refusal, that the last answer of `planned` holds."""
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
