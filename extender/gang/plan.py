"""Room for all members that are missing, or why there is none.

The answer to "why not" depends on what the gang waits for: for pods to end (NotEnoughResources),
for gangs that are ahead (WaitingForTurn), or for nodes that do not exist yet (NeverFits).
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from extender.api.reasons import Reason
from extender.gang import min_resources, placement, topology
from extender.gang.fit import NO_OFFER, Fit, Offer, fitting
from extender.gang.gates import Gate, GateCheck
from extender.gang.lack import Lack, lack_of
from extender.gang.post_filter import is_ours
from extender.gang.room import Room
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

_ROOM_TEXT: Final = re.compile(
    r"\bInsufficient \S|\bToo many pods\b"
    r"|\bno nodes available to schedule pods\b|\b0/0 nodes are available\b"
    r"|\bnode\.kubernetes\.io/(not-ready|unreachable|unschedulable|network-unavailable)\b"
)
"""How kube-scheduler says that a node is full, that there is none, or that it is not ready: our own
reading of the nodes sees all of these, and sees when they are over."""


def making(
    pod: PodInfo,
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    offer: Offer = NO_OFFER,
    permitted: bool = False,
) -> Steps[Fit | Refuse]:
    """Return where this pod and enough of its siblings go, all of them, or the refusal of the gang.

    Where the gang can do without this pod and has equal ones of lower index, those go first, and it
    may have no place. A `permitted` group has passed the check of its minResources not long ago.
    """
    attempt = _attempt(pod, pod_group, view=view, offer=offer)
    yield
    refusal = (yield from attempt.before_room(permitted=permitted)).refusal
    if refusal is not None:
        return refusal
    by_index = yield from attempt.placed_by_index()
    return by_index if by_index is not None else (yield from attempt.placed())


@dataclass(frozen=True, slots=True)
class PlanLook:
    """What `making` finds for a group, and how many pods would fit if there were more room."""

    answer: Fit | Refuse
    checks: tuple[GateCheck, ...]
    """The last gate before that of room, and that of room unless the one before refuses."""
    free: Fit | None = None
    """On what is free; None where an earlier gate refuses."""
    unkept: Fit | None = None
    """If no room were kept for other groups; None where none is."""
    empty: Fit | None = None
    """If no pod were on the nodes; None where that says nothing."""


def looking(
    pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView, permitted: bool = False
) -> Steps[PlanLook]:
    """Return all that the plan of a group says, for an explanation: it takes longer than a plan."""
    attempt = _attempt(pod, pod_group, view=view, offer=NO_OFFER)
    yield
    check = yield from attempt.before_room(permitted=permitted)
    if check.refusal is not None:
        return PlanLook(check.refusal, (check,))
    answer = yield from attempt.placed()
    free = yield from attempt.fit(Room.FREE)
    free = yield from free.explained()
    refusal = answer if isinstance(answer, Refuse) else None
    checks = check, GateCheck(Gate.ROOM, refusal, free.count, attempt.missing)
    if free.complete:
        return PlanLook(answer, checks, free)
    unkept = (yield from attempt.fit(Room.UNKEPT)) if view.keeps_room else None
    empty = (yield from attempt.fit(Room.EMPTY)) if attempt.is_readable else None
    return PlanLook(answer, checks, free, unkept, empty)


def making_ahead(
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
    attempt = _Attempt(pod_group, pods, missing, NO_OFFER, view)
    yield
    refusal = (yield from attempt.before_room()).refusal
    return refusal if refusal is not None else (yield from attempt.placed(explain=False))


def never_fitting(pod_group: PodGroupInfo, *, view: ClusterView) -> Steps[Refuse | None]:
    """Return the refusal of a group that the usable nodes could not take if they were empty.

    A group that has room for some of its members is not asked: their nodes are taken by itself.
    """
    pods = candidates(None, pod_group.key, view=view)
    missing = view.quorum(pod_group)
    if view.tally(pod_group.key).committed or len(pods) < missing:
        return None
    attempt = _Attempt(pod_group, pods, missing, NO_OFFER, view)
    refusal = attempt.cannot_stand_so()
    if refusal is not None and refusal.reason is Reason.NEVER_FITS:
        return refusal
    return (yield from attempt.never_fits())


def finds_no_node(pod: PodInfo, group: str) -> bool:
    """Return whether kube-scheduler found no node for a pod, for a reason that no plan sees.

    Room is what plans see: a pod that lacked it is tried again when there is some.
    """
    text = pod.unschedulable
    return text is not None and not is_ours(text, group) and not _ROOM_TEXT.search(text)


def is_readable(group: str, *, view: ClusterView) -> bool:
    """Return whether our own reading of a group's pods says where they may go."""
    return not any(pod.shape.individually_constrained for pod in view.members(group))


def candidates(pod: PodInfo | None, group: str, *, view: ClusterView) -> list[PodInfo]:
    """Return the other members that may still be placed, in the order in which room is given.

    Those that ask for another scheduler than `pod` are left out. Those that only our
    own gate holds back are: it goes when there is a plan. Those are left out too for which their
    jobs are not admitted beside `pod`.
    """
    able = [
        sibling
        for sibling in view.members(group)
        if (pod is None or (sibling.uid != pod.uid and sibling.scheduler == pod.scheduler))
        and sibling.node is None
        and (not sibling.gates or sibling.is_gated_by_us)
        and not sibling.terminating
        and view.reservation(sibling.uid) is None
    ]
    able.sort(key=lambda p: (-p.priority, p.index or 0, p.created, p.name))
    return view.admitted_of(able, first=pod)


def _is_ours_to_plan(pod: PodInfo, group: str, schedulers: Collection[str]) -> bool:
    stuck = finds_no_node(pod, group)
    asks = pod.scheduler in schedulers or pod.is_gated_by_us
    return asks and not stuck and not pod.shape.individually_constrained


def _goes_before(other: PodInfo, pod: PodInfo, group: str) -> bool:
    """Return whether an equal pod does an earlier part of the same work, and can be placed.

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


def _attempt(
    pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView, offer: Offer
) -> "_Attempt":
    siblings = candidates(pod, pod_group.key, view=view)
    missing = view.quorum(pod_group) - view.tally(pod_group.key).committed
    return _Attempt(pod_group, [pod, *siblings], missing, offer, view)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The pods of a group that could be placed now, first of all the one that is tried."""

    pod_group: PodGroupInfo
    pods: Sequence[PodInfo]
    missing: int
    offer: Offer
    view: ClusterView

    @property
    def about(self) -> str:
        return about(self.pod_group.key)

    @property
    def is_readable(self) -> bool:
        """Whether our own reading says where its pods may go; else kube-scheduler alone does."""
        return not any(pod.shape.individually_constrained for pod in self.pods)

    def before_room(self, *, permitted: bool = False) -> Steps[GateCheck]:
        """Return the first gate before that of room which refuses, or the last of them."""
        refusal = self.cannot_stand_so()
        if refusal is not None:
            return GateCheck(Gate.TOPOLOGY, refusal)
        refusal = None if permitted else (yield from self.lacks_min_resources())
        if refusal is not None:
            return GateCheck(Gate.MIN_RESOURCES, refusal)
        return GateCheck(Gate.ABLE_PODS, self.lacks_pods(), len(self.pods), self.missing)

    def cannot_stand_so(self) -> Refuse | None:
        refusal = placement.unknown(self.pod_group)
        refusal = refusal or topology.impossible(self.pod_group, view=self.view)
        if refusal is None or not refusal.deny:
            return refusal
        # A node that gets the label may be enough for another look.
        group = self.pod_group.key
        return replace(
            refusal, lack=lack_of(self.pods, 1, group=group, room=Room.EMPTY, view=self.view)
        )

    def lacks_min_resources(self) -> Steps[Refuse | None]:
        view, names = self.view, len(self.pod_group.min_resources)
        if names > min_resources.MOST:
            text = f"its minResources name {names} resources, and may name {min_resources.MOST}"
            return Refuse(Reason.NEVER_FITS, self.about + text, deny=True)
        short = yield from min_resources.shortage(self.pod_group, view=view)
        if not short:
            return None
        text = f"{self.about}its minResources are short of {min_resources.sentence(short)}"
        if (yield from min_resources.shortage(self.pod_group, view=view, room=Room.EMPTY)):
            return Refuse(Reason.NEVER_FITS, f"{text}, even with all nodes empty", deny=True)
        return Refuse(Reason.NOT_ENOUGH_RESOURCES, text, deny=True)

    def lacks_pods(self) -> Refuse | None:
        able = len(self.pods)
        if able >= self.missing:
            return None
        text = f"{self.about}{able} of the {self.missing} pods that it still needs can start"
        members = self.view.members(self.pod_group.key)
        scheduler = self.pods[0].scheduler
        foreign = sum(pod.node is None and pod.scheduler != scheduler for pod in members)
        if foreign:
            text += f", {foreign} wait for another scheduler"
        return Refuse(Reason.NOT_ENOUGH_PODS, text)

    def placed_by_index(self) -> Steps[Fit | None]:
        """Return the places of enough pods that come before the one that is tried, and its own.

        None where they are too few to be a quorum without it, or find no room.
        """
        pod, group = self.pods[0], self.pod_group.key
        if pod.index is None or pod.shape.individually_constrained:
            return None
        lower = [other for other in self.pods[1:] if _goes_before(other, pod, group)]
        if len(lower) < self.missing:
            return None
        # They are equal, so that what was offered for the one is good for the others.
        found = yield from fitting(
            [*lower, pod],
            len(lower) + 1,
            group=group,
            view=self.view,
            offer=self.offer,
        )
        enough = len(found.placements) >= self.missing
        return Fit(found.placements, self.missing) if enough else None

    def placed(self, *, explain: bool = True) -> Steps[Fit | Refuse]:
        found = yield from self.fit(Room.FREE)
        if found.complete:
            return found
        lack = self._lacks(found, Room.FREE)
        if not explain:
            text = f"{self.about}it does not fit"
            return Refuse(Reason.NOT_ENOUGH_RESOURCES, text, deny=True, lack=lack)
        view, group = self.view, self.pod_group.key
        if view.keeps_room and (yield from self.fit(Room.UNKEPT)).complete:
            text = (
                f"{self.about}{len(found.placements)} of the {self.missing} pods that it still "
                f"needs fit{found.where} beside gangs that go first"
            )
            return Refuse(Reason.WAITING_FOR_TURN, text, deny=True, lack=lack)
        never = None if view.tally(group).committed else (yield from self.never_fits())
        if never is not None:
            return never
        text = self.about + (yield from found.explained()).sentence()
        offered = frozenset(self.offer.nodes if self.offer.complete else ())
        return Refuse(Reason.NOT_ENOUGH_RESOURCES, text, deny=True, offered=offered, lack=lack)

    def never_fits(self) -> Steps[Refuse | None]:
        if not self.is_readable:
            return None  # only kube-scheduler can judge them
        found = yield from self.fit(Room.EMPTY)
        if found.complete:
            return None
        text = (yield from found.explained()).sentence()
        lack = self._lacks(found, Room.EMPTY)
        text = f"{self.about}{text}, even with all nodes empty"
        return Refuse(Reason.NEVER_FITS, text, deny=True, lack=lack)

    def _lacks(self, found: Fit, room: Room) -> Lack:
        group = self.pod_group.key
        return lack_of(self.pods, found.missing, group=group, room=room, view=self.view)

    def fit(self, room: Room) -> Steps[Fit]:
        """Return where its pods fit, of that kind of room."""
        return fitting(
            self.pods,
            self.missing,
            group=self.pod_group.key,
            view=self.view,
            # What kube-scheduler offers are nodes that have room now.
            offer=NO_OFFER if room is Room.EMPTY else self.offer,
            room=room,
        )
