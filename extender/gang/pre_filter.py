"""What filter answers a member of a gang: plan the whole gang before the first member is placed.

The checks come in the order of the coscheduling plugin: does the group exist, has it the pods, are
they free of gates, has it failed just now, are its minResources there. Then comes what the plugin
does not ask: would the members that are missing fit, node by node? If so, room is kept for all of
them and each later call is answered from the plan; if not, the group is refused at once and holds
nothing.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from extender.api.reasons import Reason
from extender.gang import assigned, placement, score, topology
from extender.gang.exempt import is_exempt
from extender.gang.fit import Fit, Offer, fits
from extender.gang.gates import Gate, GateCheck
from extender.gang.room import without_room
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse, about
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.view import ClusterView

MIN_SAMPLE = 100
"""kube-scheduler sends every good node while there are fewer than this (minFeasibleNodesToFind)."""


ELSEWHERE = "the room planned for this pod is not on the nodes to choose from"
OUTSIDE = "none of the nodes to choose from is in the domain where the gang is"
BEHIND = "kube-scheduler sees room that is news here"
DISAGREE = "kube-scheduler and the extender disagree"
FIRST_ONES = "room is left only for the pods that it starts with"
KEPT_FOR_GANG = "room is kept for a gang that goes first"
ALREADY_BOUND = "this pod has a node already, and it is not among those to choose from"


def decide(
    pod: PodInfo,
    group: str,
    sent: Sequence[str],
    *,
    view: ClusterView,
    denied: Refuse | None,
    in_hand: Container[str] = (),
) -> FilterVerdict | Offer:
    """Return where a member may go, or the nodes that its group is to be planned with.

    `sent` are the node names of the request, `denied` is the group's recent failure while that
    still counts. `in_hand` are the UIDs of members that filter has just answered a node.
    """
    if view.planned_node(pod.uid) is not None:
        return follow_plan(pod, group, sent, view=view, in_hand=in_hand)
    refusal = check_group(group, view=view)
    if refusal is not None:
        return refusal
    pod_group = view.pod_group(group)
    assert pod_group is not None
    missing = view.quorum(pod_group) - view.tally(group).committed
    if missing <= 0:
        return beside_siblings(pod, group, sent, view=view)
    if denied is not None:
        # In the words of the failure: each new sentence is written to the pod (decision 69).
        refusal = Refuse(Reason.RECENTLY_DENIED, denied.message)
        return unless_behind(refusal, pod, sent, view=view)
    return Offer(sent, complete=_is_complete(pod, sent))


def of_sample(verdict: FilterVerdict | Offer) -> FilterVerdict | Offer:
    """Return an answer of `decide` about few nodes for the case that more had been sent."""
    match verdict:
        case Offer(nodes):
            return Offer(nodes)
        case Refuse() if verdict.lost:
            return replace(verdict, lost=False)
        case _:
            return verdict


def of_bound(pod: PodInfo, node: str, sent: Sequence[str]) -> FilterVerdict:
    """Return what a pod is answered that is bound to a node, or is being bound to it.

    kube-scheduler has not seen the Binding yet. With any other node it would count the pod in two
    places until it does.
    """
    if node in sent:
        return OneNode(node)
    prefix = about(pod.group) if pod.group else ""
    return Refuse(Reason.ALREADY_BOUND, prefix + ALREADY_BOUND)


def check_group(group: str, *, view: ClusterView) -> Refuse | None:
    """Return why the group cannot start whatever room there is, or None."""
    return next((each.refusal for each in checks(group, view=view) if each.refusal), None)


def checks(group: str, *, view: ClusterView) -> Iterator[GateCheck]:
    """Yield what is found at each gate before room is asked for, up to the first refusal.

    Every pod that has not finished counts as a sibling: bound, terminating and gated ones too; but
    those behind a gate that is not ours cannot be part of the quorum.
    """
    pod_group = view.pod_group(group)
    if pod_group is None:
        text = f"{about(group)}there is no such PodGroup"
        yield GateCheck(Gate.POD_GROUP, Refuse(Reason.POD_GROUP_NOT_FOUND, text))
        return
    yield GateCheck(Gate.POD_GROUP)
    refusal = topology.contradiction(pod_group) or placement.unknown(pod_group)
    yield GateCheck(Gate.ANNOTATIONS, refusal)
    if refusal is not None:
        return
    tally, need = view.tally(group), view.quorum(pod_group)
    pods = len(tally.members)
    if pods < need:
        text = f"{about(group)}{pods} of the {need} pods that it needs exist"
        refusal = Refuse(Reason.NOT_ENOUGH_PODS, text)
    yield GateCheck(Gate.PODS, refusal, pods, need)
    if refusal is not None:
        return
    ungated = pods - len(tally.gated)
    if ungated < need:
        text = f"{about(group)}{ungated} of the {need} pods that it needs are free of gates"
        refusal = Refuse(Reason.GATED, text)
    yield GateCheck(Gate.SCHEDULING_GATES, refusal, ungated, need)


def follow_plan(
    pod: PodInfo,
    group: str,
    sent: Sequence[str],
    *,
    view: ClusterView,
    in_hand: Container[str] = (),
) -> FilterVerdict:
    """Return the planned node if it was sent, else move the room to one that was.

    On big clusters what is sent is a sample, so that the planned node is often not in it; any node
    of the sample with room will do. Where a plan keeps all of that room, an equal member's slot
    is as good as one's own: the two are exchanged, unless kube-scheduler has just assumed that
    member there, and is about to bind it. Where nothing is left and what was sent is all
    there is, the room was lost, to a pod of higher priority or with its node.
    """
    planned = view.planned_node(pod.uid)
    assert planned is not None
    if planned in sent and not _is_outbid(pod, planned, view):
        return OneNode(planned)
    near = assigned.near(pod, group, sent, view=view)
    moved = partial(_moved, pod, near, view=view)
    exchanged = partial(_exchanged, pod, near, view=view, in_hand=in_hand)
    # An exchange leaves the placement of the gang as it was planned; but not on room that is lost.
    keeps = placement.of(view.pod_group(group)) is not None and planned not in sent
    for way in (exchanged, moved) if keeps else (moved, exchanged):
        found = way()
        if found is not None:
            return found
    return Refuse(Reason.RESERVED, about(group) + ELSEWHERE, lost=_is_complete(pod, sent))


def _moved(pod: PodInfo, near: Sequence[str], *, view: ClusterView) -> OneNode | None:
    """Return another node with room, of those with the most points where a placement gives some."""
    asked = placement.of(view.pod_group(pod.group or ""))
    if asked is not None:
        points = score.score(pod, near, view=view)
        near = sorted(near, key=lambda name: -points.get(name, 0))
    node = first_with_room(pod, near, view)
    return None if node is None else OneNode(node, reserve={pod.uid: node})


def _exchanged(
    pod: PodInfo, near: Sequence[str], *, view: ClusterView, in_hand: Container[str]
) -> OneNode | None:
    """Return the planned node of an equal sibling, which gets the one of this pod."""
    planned = view.planned_node(pod.uid)
    assert planned is not None
    for theirs in near:
        uid = _sibling_planned_on(theirs, pod, view=view, in_hand=in_hand)
        if uid is not None:
            return OneNode(theirs, reserve={pod.uid: theirs, uid: planned})
    return None


def beside_siblings(
    pod: PodInfo, group: str, sent: Sequence[str], *, view: ClusterView
) -> FilterVerdict:
    """Return the nodes for a member that the gang can do without, in the gang's domain."""
    near = assigned.near(pod, group, sent, view=view)
    if not near:
        return Refuse(Reason.OUTSIDE_TOPOLOGY, about(group) + OUTSIDE)
    verdict = beside_plans(pod, near, view=view)
    if len(near) < len(sent) and isinstance(verdict, AnyNode):
        return OneOf(tuple(near))
    return verdict


def beside_plans(pod: PodInfo, sent: Sequence[str], *, view: ClusterView) -> FilterVerdict:
    """Return the nodes where a pod takes nothing that a plan keeps for its equals or betters.

    This is the answer for pods outside any gang, and for members that the gang can do without.
    """
    open_nodes = tuple(name for name in sent if _has_room(pod, name, view))
    if len(open_nodes) == len(sent):
        return AnyNode()
    if open_nodes:
        return OneOf(open_nodes)
    if any(True for _ in without_room(pod.shape, sent, view)):
        return Refuse(Reason.CACHE_BEHIND, KEPT_FOR_GANG)
    return Refuse(Reason.RESERVED, about(pod.group) + FIRST_ONES if pod.group else KEPT_FOR_GANG)


def placed(
    found: Fit | Refuse, pod: PodInfo, sent: Sequence[str], *, view: ClusterView
) -> FilterVerdict:
    """Return where a member goes by the plan of its group, with the room to be kept for all."""
    if isinstance(found, Refuse):
        return unless_behind(found, pod, sent, view=view)
    node = found.placements.get(pod.uid)
    if node in sent and node is not None:
        return OneNode(node, reserve=found.placements)
    text = about(pod.group) + (ELSEWHERE if node else FIRST_ONES)
    return Refuse(Reason.RESERVED, text, reserve=found.placements)


def unless_behind(
    refusal: Refuse, pod: PodInfo, sent: Sequence[str], *, view: ClusterView
) -> Refuse:
    """Return the refusal of a gang that does not fit, unless our own watch is behind.

    Each node that was sent has room for this pod in kube-scheduler's eyes. One that is unknown to
    us, or full, is news that our watch has not shown yet; and when it does, kube-scheduler will not
    try the pod again on that account, for it has known all along.
    """
    if is_failure(refusal) and any(True for _ in without_room(pod.shape, sent, view)):
        return Refuse(Reason.CACHE_BEHIND, about(pod.group) + BEHIND)
    return refusal


def is_failure(refusal: Refuse) -> bool:
    """Return whether a whole gang is refused because it failed, now or a moment ago."""
    return refusal.deny or refusal.reason is Reason.RECENTLY_DENIED


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What kube-scheduler and the extender count differently."""

    node: str
    resources: tuple[str, ...] = ()
    """Sorted; none where the extender does not know the node."""

    def sentence(self) -> str:
        """Return it for the pod, the same for each node."""
        if not self.resources:
            return f"{DISAGREE}: kube-scheduler offers a node that the extender does not know"
        return (
            f"{DISAGREE} about {', '.join(self.resources)}: "
            "kube-scheduler offers a node that has too little by the extender's count; what "
            "kube-scheduler ignores has to be named in gang.ignoredResources"
        )


def disagreement(pod: PodInfo, sent: Sequence[str], *, view: ClusterView) -> Disagreement | None:
    """Return on what the two disagree, first of all what no pod that ends would change."""
    behind = tuple(without_room(pod.shape, sent, view))
    asked = [(resource, n) for resource, n in pod.shape.requests.items() if n]
    for name in behind:
        node = view.nodes.get(name)
        lacks = _lacking(node, asked, {}) if node is not None else ()
        if lacks:
            return Disagreement(name, lacks)
    for name in behind:
        node = view.nodes.get(name)
        lacks = _lacking(node, asked, view.used(name)) if node is not None else ()
        if node is None or lacks:
            return Disagreement(name, lacks)
    return None


def _lacking(
    node: NodeInfo, asked: Sequence[tuple[str, int]], used: Mapping[str, int]
) -> tuple[str, ...]:
    whole = node.allocatable
    return tuple(sorted(r for r, n in asked if used.get(r, 0) + n > whole.get(r, 0)))


def _is_outbid(pod: PodInfo, planned: str, view: ClusterView) -> bool:
    """Return whether a plan of higher priority has since taken the room of this one."""
    betters = (kept.priority > pod.priority for kept in view.planned_on(planned).values())
    node = view.nodes.get(planned)
    if node is None or not any(betters):
        return False
    free = view.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
    return not fits(pod.shape.requests, free)


def _sibling_planned_on(
    node: str, pod: PodInfo, *, view: ClusterView, in_hand: Container[str]
) -> str | None:
    """Return an equal member of the group, not in hand, for which a plan keeps room on a node."""
    for uid in view.planned_on(node):
        other = view.pods[uid]
        equal = other.group == pod.group and other.shape is pod.shape
        if equal and uid != pod.uid and uid not in in_hand:
            return uid
    return None


def _is_complete(pod: PodInfo, sent: Sequence[str]) -> bool:
    """Return whether kube-scheduler sent all nodes that it found good, and not a sample of them.

    A pod with a nominated node is first tried on that one alone; and the nodes that are good for a
    pod with volumes or the like do not count for its equals.
    """
    return (
        len(sent) < MIN_SAMPLE
        and tuple(sent) != (pod.nominated,)
        and not pod.shape.individually_constrained
    )


def first_with_room(pod: PodInfo, sent: Sequence[str], view: ClusterView) -> str | None:
    """Return the first of these nodes that has room for a pod beside all that is kept on it."""
    nodes = view.nodes
    for name in sent:
        node = nodes.get(name)
        if node is None or (pod.shape.one_per_node and _has_equal(pod, name, view)):
            continue
        free = view.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
        if fits(pod.shape.requests, free):
            return name
    return None


def _has_equal(pod: PodInfo, node: str, view: ClusterView) -> bool:
    """Return whether another pod of the group and of this shape is on a node, or is to be there."""
    there = (each for each in view.shunning(node) if each.uid != pod.uid)
    return any(each.group == pod.group and each.shape is pod.shape for each in there)


def _has_room(pod: PodInfo, name: str, view: ClusterView) -> bool:
    """Return whether a node that kube-scheduler found good leaves the plans on it their room."""
    if not view.is_kept(name):
        return True
    node = view.nodes.get(name)
    if node is None or (pod.group is None and is_exempt(pod, node, view=view)):
        return True
    free = view.free(node, priority=pod.priority, group=pod.group)
    return fits(pod.shape.requests, free)
