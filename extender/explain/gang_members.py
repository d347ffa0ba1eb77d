"""Where the pods of a group are."""

from collections.abc import Mapping
from typing import Final

from extender.api.gang_explanations import ExplainedMember, GroupState, MemberCounts, MemberState
from extender.gang.verdicts import is_ours
from extender.state.cluster.records import PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps

MOST: Final = 1000
"""How many pods are listed."""

_RESERVED: Final[Mapping[ReservationKind, MemberState]] = {
    ReservationKind.BINDING: "Binding",
    ReservationKind.WAITING: "Held",
    ReservationKind.PLANNED: "Planned",
}
_FINISHED: Final = frozenset(("Finished", "Failed"))


def counts(group: str, view: ClusterView) -> MemberCounts:
    """Return how many pods are where."""
    tally = view.tally(group)
    kept = len(tally.binding) + len(tally.waiting) + len(tally.planned)
    there = len(tally.bound) + kept + len(tally.gated) + len(tally.gated_by_us) + len(tally.leaving)
    return MemberCounts(
        exist=len(tally.members),
        bound=len(tally.bound),
        binding=len(tally.binding),
        held=len(tally.waiting),
        planned=len(tally.planned),
        gated=len(tally.gated),
        gated_by_us=len(tally.gated_by_us),
        leaving=len(tally.leaving),
        waiting=len(tally.members) - there,
    )


def group_state(group: str, view: ClusterView) -> GroupState:
    """Return how far a group is."""
    tally, pod_group = view.tally(group), view.pod_group(group)
    phase = pod_group.status.phase if pod_group is not None else ""
    if not tally.members and (phase in _FINISHED or view.finished(group)):
        return "Finished"
    need = view.quorum(pod_group) if pod_group is not None else None
    if need is None or not tally.members:
        return "Waiting"
    if len(tally.bound) >= need:
        return "Started"
    if tally.assigned >= need:
        return "Binding"
    if tally.waiting:
        return "Held"
    return "Planned" if tally.committed >= need else "Waiting"


def members(group: str, view: ClusterView) -> Steps[list[ExplainedMember]]:
    """Return the pods of a group, those first that have no node; `MOST` of them at most."""
    found = [view.pods[uid] for uid in view.tally(group).members]
    pods = sorted(found, key=lambda pod: (pod.node is not None, pod.index or 0, pod.name))[:MOST]
    shown = []
    for number, pod in enumerate(pods):
        if number % PIECE == PIECE - 1:
            yield
        shown.append(member(pod, view))
    return shown


def member(pod: PodInfo, view: ClusterView) -> ExplainedMember:
    """Return where one pod is."""
    reserved, refused = view.reservation(pod.uid), view.refused.get(pod.uid)
    return ExplainedMember(
        name=pod.name,
        state=member_state(pod, view),
        node=pod.node or (reserved.node if reserved is not None else None),
        reason=refused.reason if refused is not None else None,
        message=pod.unschedulable,
        gates=list(pod.gates),
    )


def member_state(pod: PodInfo, view: ClusterView) -> MemberState:
    """Return how far a pod is."""
    reserved = view.reservation(pod.uid)
    if pod.finished or pod.terminating:
        return "Finished" if pod.finished else "Leaving"
    if pod.node is not None:
        return "Bound"
    if reserved is not None:
        return _RESERVED.get(reserved.kind, "Waiting")
    if pod.gates:
        return "GatedByUs" if pod.is_gated_by_us else "Gated"
    return _of_pending(pod, view)


def _of_pending(pod: PodInfo, view: ClusterView) -> MemberState:
    if pod.uid in view.refused:
        return "Refused"
    if pod.unschedulable is None:
        return "Waiting"
    ours = pod.group is not None and is_ours(pod.unschedulable, pod.group)
    return "Refused" if ours else "Unschedulable"
