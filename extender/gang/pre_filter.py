"""What filter answers a member of a gang: plan the whole gang before the first member is placed.

The checks come in the order of the coscheduling plugin: does the group exist, has it the pods, are
they free of gates, has it failed just now, are its minResources there. Then comes what the plugin
does not ask: would the members that are missing fit, node by node? If so, room is kept for all of
them and each later call is answered from the plan; if not, the group is refused at once and holds
nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from extender.api.wellknown import Reason
from extender.gang import plan
from extender.gang.exempt import is_exempt
from extender.gang.fit import Fit, Offer, fits, has_equal
from extender.gang.room import without_room
from extender.gang.verdicts import AnyNode, FilterVerdict, OneOf, Place, Refuse, about
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot

MIN_SAMPLE = 100
"""kube-scheduler sends every good node while there are fewer than this (minFeasibleNodesToFind)."""


ELSEWHERE = "the room planned for this pod is not on the nodes to choose from"
BEHIND = "kube-scheduler sees room that is news here"
Make = Callable[[PodInfo, PodGroupInfo, Offer], Fit | Refuse]
"""Returns the plan of a pod's group, or why there is none now."""

FIRST_ONES = "room is left only for the pods that it starts with"
KEPT_FOR_GANG = "room is kept for a gang that goes first"


def decide(
    pod: PodInfo,
    group: str,
    sent: Sequence[str],
    *,
    snapshot: Snapshot,
    denied: Refuse | None,
    make: Make | None = None,
) -> FilterVerdict:
    """Return where a member may go.

    `sent` are the node names of the request, `denied` the verdict of the group's recent failure
    while that still counts; `make` plans, and may answer that the plan is being made.
    """
    if snapshot.planned_node(pod.uid) is not None:
        return follow_plan(pod, group, sent, snapshot=snapshot)
    refusal = check_group(group, snapshot=snapshot)
    if refusal is not None:
        return refusal
    pod_group = snapshot.pod_group(group)
    assert pod_group is not None
    missing = snapshot.quorum(pod_group) - snapshot.tally(group).committed
    if missing <= 0:
        return beside_plans(pod, sent, snapshot=snapshot)
    if denied is not None:
        refusal = Refuse(Reason.RECENTLY_DENIED, failed_recently(group, denied))
        return unless_behind(refusal, pod, sent, snapshot=snapshot)
    offer = Offer(sent, complete=_is_complete(pod, sent))
    if make is None:
        found = plan.make(pod, pod_group, snapshot=snapshot, offer=offer)
    else:
        found = make(pod, pod_group, offer)
    return _placed(found, pod, sent, snapshot=snapshot)


def failed_recently(group: str, denied: Refuse) -> str:
    """Return the sentence about a group that is not looked at again so soon, and why it failed."""
    return f"{about(group)}failed recently, {denied.message.removeprefix(about(group))}"


def check_group(group: str, *, snapshot: Snapshot) -> Refuse | None:
    """Return why the group cannot start whatever room there is, or None.

    Every pod that has not finished counts as a sibling: bound, terminating and gated ones too; but
    those behind a gate that is not ours cannot be part of the quorum.
    """
    pod_group = snapshot.pod_group(group)
    if pod_group is None:
        return Refuse(Reason.POD_GROUP_NOT_FOUND, f"{about(group)}there is no such PodGroup")
    tally, need = snapshot.tally(group), snapshot.quorum(pod_group)
    pods = len(tally.members)
    if pods < need:
        text = f"{about(group)}{pods} of the {need} pods that it needs exist"
        return Refuse(Reason.NOT_ENOUGH_PODS, text)
    ungated = pods - len(tally.gated)
    if ungated < need:
        text = f"{about(group)}{ungated} of the {need} pods that it needs are free of gates"
        return Refuse(Reason.GATED, text)
    return None


def follow_plan(
    pod: PodInfo, group: str, sent: Sequence[str], *, snapshot: Snapshot
) -> FilterVerdict:
    """Return the planned node if it was sent, else move the room to one that was.

    On big clusters what is sent is a sample, so that the planned node is often not in it; any node
    of the sample with room will do. Where a plan keeps all of that room, an equal member's slot
    is as good as one's own: the two are exchanged. Where nothing is left and what was sent is all
    there is, the room was lost, to a pod of higher priority or with its node.
    """
    planned = snapshot.planned_node(pod.uid)
    assert planned is not None
    if planned in sent and not _is_outbid(pod, planned, snapshot):
        return Place(planned)
    node = _first_with_room(pod, sent, snapshot)
    if node is not None:
        return Place(node, reserve={pod.uid: node})
    for theirs in sent:
        uid = _sibling_planned_on(theirs, pod, snapshot)
        if uid is not None:
            return Place(theirs, reserve={pod.uid: theirs, uid: planned})
    return Refuse(Reason.RESERVED, about(group) + ELSEWHERE, lost=_is_complete(pod, sent))


def beside_plans(pod: PodInfo, sent: Sequence[str], *, snapshot: Snapshot) -> FilterVerdict:
    """Return the nodes where a pod takes nothing that a plan keeps for its equals or betters.

    This is the answer for pods outside any gang, and for members that the gang can do without.
    """
    open_nodes = tuple(name for name in sent if _has_room(pod, name, snapshot))
    if len(open_nodes) == len(sent):
        return AnyNode()
    if open_nodes:
        return OneOf(open_nodes)
    if any(not _has_ever_room(pod, name, snapshot) for name in sent):
        return Refuse(Reason.CACHE_BEHIND, KEPT_FOR_GANG)
    return Refuse(Reason.RESERVED, about(pod.group) + FIRST_ONES if pod.group else KEPT_FOR_GANG)


def _placed(
    found: Fit | Refuse, pod: PodInfo, sent: Sequence[str], *, snapshot: Snapshot
) -> FilterVerdict:
    if isinstance(found, Refuse):
        return unless_behind(found, pod, sent, snapshot=snapshot)
    node = found.placements.get(pod.uid)
    if node in sent and node is not None:
        return Place(node, reserve=found.placements)
    text = about(pod.group) + (ELSEWHERE if node else FIRST_ONES)
    return Refuse(Reason.RESERVED, text, reserve=found.placements)


def unless_behind(
    refusal: Refuse, pod: PodInfo, sent: Sequence[str], *, snapshot: Snapshot
) -> Refuse:
    """Return the refusal of a gang that does not fit, unless it is us who lag behind.

    Each node that was sent has room for this pod in kube-scheduler's eyes. One that is unknown to
    us, or full, is news that our watch has not told yet; and when it does, kube-scheduler will not
    try the pod again on that account, for it has known all along.
    """
    failed = refusal.deny or refusal.reason is Reason.RECENTLY_DENIED
    if failed and any(True for _ in without_room(pod, sent, snapshot)):
        return Refuse(Reason.CACHE_BEHIND, about(pod.group) + BEHIND)
    return refusal


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What kube-scheduler and the extender count differently."""

    node: str
    resources: tuple[str, ...] = ()
    """Sorted; none where the extender does not know the node."""

    def sentence(self) -> str:
        """Return it for the pod, the same for each node."""
        if not self.resources:
            return (
                "kube-scheduler and the extender disagree: kube-scheduler offers a node that the "
                "extender does not know"
            )
        return (
            f"kube-scheduler and the extender disagree about {', '.join(self.resources)}: "
            "kube-scheduler offers a node that has too little by the extender's count; what "
            "kube-scheduler ignores has to be named in gang.ignoredResources"
        )


def disagreement(pod: PodInfo, sent: Sequence[str], *, snapshot: Snapshot) -> Disagreement | None:
    """Return on what the two disagree, first of all what no pod that ends would change."""
    behind = tuple(without_room(pod, sent, snapshot))
    asked = [(resource, n) for resource, n in pod.shape.requests.items() if n]
    for name in behind:
        node = snapshot.nodes.get(name)
        lacks = _lacking(node, asked, {}) if node is not None else ()
        if lacks:
            return Disagreement(name, lacks)
    for name in behind:
        node = snapshot.nodes.get(name)
        lacks = _lacking(node, asked, snapshot.used(name)) if node is not None else ()
        if node is None or lacks:
            return Disagreement(name, lacks)
    return None


def _lacking(
    node: NodeInfo, asked: Sequence[tuple[str, int]], used: Mapping[str, int]
) -> tuple[str, ...]:
    whole = node.allocatable
    return tuple(sorted(r for r, n in asked if used.get(r, 0) + n > whole.get(r, 0)))


def _has_ever_room(pod: PodInfo, name: str, snapshot: Snapshot) -> bool:
    """Return whether a node would take the pod if no plan kept anything on it."""
    return not any(True for _ in without_room(pod, (name,), snapshot))


def _is_outbid(pod: PodInfo, planned: str, snapshot: Snapshot) -> bool:
    """Return whether a plan of higher priority has since taken the room of this one."""
    betters = (a.pod.priority > pod.priority for a in snapshot.reserved(planned).values())
    node = snapshot.nodes.get(planned)
    if node is None or not any(betters):
        return False
    free = snapshot.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
    return not fits(pod.shape.requests, free)


def _sibling_planned_on(node: str, pod: PodInfo, snapshot: Snapshot) -> str | None:
    """Return an equal member of the pod's group for which a plan keeps room on a node."""
    for uid, kept in snapshot.reserved(node).items():
        if uid != pod.uid and kept.pod.group == pod.group and kept.pod.shape is pod.shape:
            return uid
    return None


def _is_complete(pod: PodInfo, sent: Sequence[str]) -> bool:
    """Return whether kube-scheduler sent all nodes that it found good, and not a sample of them.

    A pod with a nominated node is first tried on that one alone; and the nodes that are good for a
    pod with volumes or the like say nothing of those for its equals.
    """
    return (
        len(sent) < MIN_SAMPLE
        and tuple(sent) != (pod.nominated,)
        and not pod.shape.individually_constrained
    )


def _first_with_room(pod: PodInfo, sent: Sequence[str], snapshot: Snapshot) -> str | None:
    nodes = snapshot.nodes
    for name in sent:
        node = nodes.get(name)
        if node is None or (pod.shape.one_per_node and has_equal(pod, name, snapshot)):
            continue
        free = snapshot.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
        if fits(pod.shape.requests, free):
            return name
    return None


def _has_room(pod: PodInfo, name: str, snapshot: Snapshot) -> bool:
    """Return whether a node that kube-scheduler found good leaves the plans on it their room."""
    if not snapshot.is_kept(name):
        return True
    node = snapshot.nodes.get(name)
    if node is None or (pod.group is None and is_exempt(pod, node, snapshot=snapshot)):
        return True
    free = snapshot.free(node, priority=pod.priority, group=pod.group)
    return fits(pod.shape.requests, free)
