"""Answers filter for a member of a gang, planning the whole gang before the first member is placed.

A member goes through the gates of its group (`gang/gates.py`). They have the order of the
coscheduling plugin and ask one more question: would the missing members fit, node by node? If so,
room is kept for all of them and each later call is answered from the plan. If not, the group is
refused at once and holds nothing.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from extender.api.core_v1 import matches_term
from extender.api.reasons import Reason
from extender.fit.candidates import clashes
from extender.fit.placement import MIN_SAMPLE
from extender.gang import score, topology
from extender.gang.fit import Fit, Offer, fits
from extender.gang.gates import CAN_START, MAY_BE_PLANNED, Known, asked, first_refusal
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse, about
from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.index import may_name
from extender.state.cluster.records import (
    RESOURCE_CLAIMS,
    ClaimInfo,
    NodeInfo,
    PodInfo,
    Shape,
    VolumeInfo,
)
from extender.state.cluster.reservations import SYSTEM_CRITICAL, ReservationKind
from extender.state.cluster.view import ClusterView

ELSEWHERE: Final = "the room planned for this pod is not on the nodes to choose from"
OUTSIDE: Final = "none of the nodes to choose from is in the domain where the gang is"
BEHIND: Final = "kube-scheduler sees room that is news here"
DISAGREE: Final = "kube-scheduler and the extender disagree"
FIRST_ONES: Final = "room is left only for the pods that it starts with"
KEPT_FOR_GANG: Final = "room is kept for a gang that goes first"
ALREADY_BOUND: Final = "this pod has a node already, and it is not among those to choose from"
NOT_SEEN: Final = "kube-scheduler has not seen all pods on the nodes to choose from"


def decide(
    pod: PodInfo,
    group: str,
    sent: Sequence[str],
    *,
    view: ClusterView,
    known: Known,
    in_hand: Container[str] = (),
) -> FilterVerdict | Offer:
    """Return where a member may go, or the nodes that its group is to be planned with.

    `sent` are the node names of the request. `in_hand` are the UIDs of members that filter has just
    given a node.
    """
    if view.planned_node(pod.uid) is not None:
        return follow_plan(pod, group, sent, view=view, in_hand=in_hand)
    ask = asked(group, view, known)
    refusal = first_refusal(CAN_START, ask)
    if refusal is not None:
        return refusal
    if ask.missing <= 0:
        return beside_siblings(pod, group, sent, view=view)
    refusal = first_refusal(MAY_BE_PLANNED, ask)
    if refusal is not None:
        return unless_behind(refusal, pod, sent, view=view)
    return Offer(sent, complete=_is_complete(pod, sent))


def recently_denied(failure: Refuse | None) -> Refuse | None:
    """Return the refusal of a group that failed within the window.

    It repeats the words of the failure: kube-scheduler writes each new sentence to the pod
    (decision 69).
    """
    return Refuse(Reason.RECENTLY_DENIED, failure.message) if failure is not None else None


def of_sample(verdict: FilterVerdict | Offer) -> FilterVerdict | Offer:
    """Return the answer of `decide` as it would be if the nodes sent were only a sample."""
    match verdict:
        case Offer(nodes):
            return Offer(nodes)
        case Refuse() if verdict.lost:
            return replace(verdict, lost=False)
        case _:
            return verdict


def of_bound(pod: PodInfo, node: str, sent: Sequence[str]) -> FilterVerdict:
    """Return the answer for a pod that is bound to a node, or is being bound to it.

    kube-scheduler has not seen the Binding yet. If it chose another node, it would count the pod in
    two places until it does.
    """
    if node in sent:
        return OneNode(node)
    prefix = about(pod.group) if pod.group else ""
    return Refuse(Reason.ALREADY_BOUND, prefix + ALREADY_BOUND)


def follow_plan(
    pod: PodInfo,
    group: str,
    sent: Sequence[str],
    *,
    view: ClusterView,
    in_hand: Container[str] = (),
) -> FilterVerdict:
    """Return the planned node if it was sent, else move the room to a node that was sent.

    On big clusters kube-scheduler sends a sample that often lacks the planned node; any node of the
    sample with room will do. If plans keep all of that room, the pod and an equal member exchange
    their nodes, unless kube-scheduler has just assumed that member and is about to bind it. If no
    room is left and all feasible nodes were sent, the room was lost to a pod of higher priority or
    together with its node.
    """
    planned = view.planned_node(pod.uid)
    assert planned is not None
    if planned in sent and not _is_outbid(pod, planned, view):
        return OneNode(planned)
    near = topology.nodes_near(pod, group, sent, view=view)
    moved = partial(_moved, pod, near, view=view)
    exchanged = partial(_exchanged, pod, near, view=view, in_hand=in_hand)
    # An exchange keeps the placement of the gang as planned, but cannot use room that is lost.
    keeps = topology.placement_of(view.pod_group(group)) is not None and planned not in sent
    for way in (exchanged, moved) if keeps else (moved, exchanged):
        found = way()
        if found is not None:
            return found
    return Refuse(Reason.RESERVED, about(group) + ELSEWHERE, lost=_is_complete(pod, sent))


def _moved(pod: PodInfo, near: Sequence[str], *, view: ClusterView) -> OneNode | None:
    """Return another node with room; if the gang asks for a placement, the one with most points."""
    asked = topology.placement_of(view.pod_group(pod.group or ""))
    if asked is not None:
        points = score.score(pod, near, view=view)
        near = sorted(near, key=lambda name: -points.get(name, 0))
    node = first_with_room(pod, near, view)
    return None if node is None else OneNode(node, reserve={pod.uid: node})


def _exchanged(
    pod: PodInfo, near: Sequence[str], *, view: ClusterView, in_hand: Container[str]
) -> OneNode | None:
    """Return the planned node of an equal sibling, which gets this pod's node in exchange."""
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
    near = topology.nodes_near(pod, group, sent, view=view)
    if not near:
        return Refuse(Reason.OUTSIDE_TOPOLOGY, about(group) + OUTSIDE)
    verdict = beside_plans(pod, near, view=view)
    if len(near) < len(sent) and isinstance(verdict, AnyNode):
        return OneOf(tuple(near))
    return verdict


def beside_plans(pod: PodInfo, sent: Sequence[str], *, view: ClusterView) -> FilterVerdict:
    """Return the nodes where a pod takes no room that a plan keeps for an equal or higher priority.

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
    """Return where the plan of its group puts a member, with the room to keep for all members."""
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

    kube-scheduler has found room for this pod on each node that it sent. If we do not know such a
    node, or count it as full, our watch is behind. When the watch catches up, kube-scheduler will
    not try the pod again: nothing has changed for it.
    """
    if is_failure(refusal) and any(True for _ in without_room(pod.shape, sent, view)):
        return Refuse(Reason.CACHE_BEHIND, about(pod.group) + BEHIND)
    return refusal


def is_failure(refusal: Refuse) -> bool:
    """Return whether a refusal says that the whole gang failed, now or a moment ago."""
    return refusal.deny or refusal.reason is Reason.RECENTLY_DENIED


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The resources of a node that kube-scheduler and the extender count differently."""

    node: str
    resources: tuple[str, ...] = ()
    """The names of the resources, sorted; none if the extender does not know the node."""

    def sentence(self) -> str:
        """Return the message for the pod, which is the same for each node."""
        if not self.resources:
            return f"{DISAGREE}: kube-scheduler offers a node that the extender does not know"
        return (
            f"{DISAGREE} about {', '.join(self.resources)}: "
            "kube-scheduler offers a node that has too little by the extender's count; what "
            "kube-scheduler ignores has to be named in gang.ignoredResources"
        )


def disagreement(pod: PodInfo, sent: Sequence[str], *, view: ClusterView) -> Disagreement | None:
    """Return a disagreement about the nodes sent, preferably one that outlasts ending pods."""
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
    """Return whether a plan of higher priority has since taken the room planned for a pod."""
    betters = (kept.priority > pod.priority for kept in view.planned_on(planned).values())
    node = view.nodes.get(planned)
    if node is None or not any(betters):
        return False
    free = view.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
    return not fits(pod.shape.requests, free)


def _sibling_planned_on(
    node: str, pod: PodInfo, *, view: ClusterView, in_hand: Container[str]
) -> str | None:
    """Return the UID of an equal member, not in hand, for which a plan keeps room on a node."""
    for uid in view.planned_on(node):
        other = view.pods[uid]
        equal = other.group == pod.group and other.shape is pod.shape
        if equal and uid != pod.uid and uid not in in_hand:
            return uid
    return None


def _is_complete(pod: PodInfo, sent: Sequence[str]) -> bool:
    """Return whether kube-scheduler sent all feasible nodes, and not a sample of them.

    A pod with a nominated node is first tried on that node alone. The nodes that are feasible for a
    pod with volumes or the like may not be feasible for its equals.
    """
    return (
        len(sent) < MIN_SAMPLE
        and tuple(sent) != (pod.nominated,)
        and not pod.shape.individually_constrained
    )


def first_with_room(pod: PodInfo, sent: Sequence[str], view: ClusterView) -> str | None:
    """Return the first of these nodes that has room for a pod beside the room kept on it."""
    nodes = view.nodes
    for name in sent:
        node = nodes.get(name)
        if node is None:
            continue
        if pod.shape.one_per_node:
            there = (each for each in view.shunning(name) if each.uid != pod.uid)
            if any(each.group == pod.group and each.shape is pod.shape for each in there):
                continue  # an equal member is on the node, or is planned there
        free = view.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
        if fits(pod.shape.requests, free):
            return name
    return None


def _has_room(pod: PodInfo, name: str, view: ClusterView) -> bool:
    """Return whether a pod on a node would leave the plans there their room."""
    if not view.is_kept(name):
        return True
    node = view.nodes.get(name)
    if node is None or (pod.group is None and is_exempt(pod, node, view=view)):
        return True
    free = view.free(node, priority=pod.priority, group=pod.group)
    return fits(pod.shape.requests, free)


# --- nodes on which kube-scheduler has not seen all pods --------------------------------------
#
# Pods that the extender binds ahead use room that kube-scheduler believes free until its watch
# shows them. Until then our own count decides about these nodes for every pod, whatever its
# priority, also for pods without a group and pods of DaemonSets. Planned room is judged above.


def usable(pod: PodInfo, sent: Sequence[str], *, view: ClusterView) -> Sequence[str] | Refuse:
    """Return the nodes that were sent on which a pod has room beside all pods that are there.

    Nodes on which kube-scheduler has seen all pods are returned without a check. A pod whose
    affinity or spread terms may be about unseen pods is refused: terms may reach beyond one node.
    """
    if not view.unseen.exist:
        return sent
    if (pod.shape.shuns or pod.shape.seeks) and _is_about_unseen(pod, view):
        return _not_seen(pod)
    judged = sent if view.unseen.everywhere else view.unseen.nodes.keys() & sent
    without = set(_too_full(pod, judged, view)) if judged else judged
    if not without:
        return sent
    return [name for name in sent if name not in without] or _not_seen(pod)


def has_room_without(
    pod: PodInfo, node: str, victims: Collection[str], *, view: ClusterView
) -> bool:
    """Return whether unseen pods on a node leave a pod its room once `victims`, by UID, have left.

    kube-scheduler has counted all other pods itself. If a pod has no room even without the unseen
    ones, our watch is behind: it still shows pods that kube-scheduler has seen go.
    """
    known, unseen = view.nodes.get(node), view.unseen.nodes.get(node)
    if known is None or not unseen:
        return True
    free = dict(known.allocatable)
    subtract(free, view.used(node))
    for uid in victims:
        if uid in view.pods_on(node):
            add(free, view.pods[uid].shape.requests)
    asked = {name: n for name, n in pod.shape.requests.items() if name in known.allocatable}
    if fits(asked, free):
        return True
    for uid, other in unseen.items():
        if uid not in victims:
            add(free, other.shape.requests)
    return not fits(asked, free)


def _not_seen(pod: PodInfo) -> Refuse:
    prefix = about(pod.group) if pod.group else ""
    return Refuse(Reason.NOT_SEEN_YET, prefix + NOT_SEEN)


def _is_about_unseen(pod: PodInfo, view: ClusterView) -> bool:
    """Return whether affinity between pods, or a spread constraint, may be about unseen pods.

    If it is not known which pods are unseen, every gang with bound pods in the namespaces counts.
    """
    terms, there = (*pod.shape.shuns, *pod.shape.seeks), pod.namespace
    if view.unseen.everywhere:
        namespaces = {group.split("/")[0] for group in view.groups if view.tally(group).bound}
        if any(term.covers(name, own=there) for term in terms for name in namespaces):
            return True
    return any(each is None or may_name(terms, there, each) for each in view.unseen.patterns)


def _too_full(pod: PodInfo, names: Iterable[str], view: ClusterView) -> Iterator[str]:
    """Yield the nodes on which other pods leave a pod too little room, or take its host port.

    A resource that a node does not have at all is not judged: no pod that is bound ahead uses it.
    """
    held = view.reservation(pod.uid)
    own = held.node if held is not None and held.kind is ReservationKind.WAITING else None
    nodes, left_on, ports = view.nodes, view.left.all(), bool(pod.shape.host_ports)
    asked = [(resource, amount) for resource, amount in pod.shape.requests.items() if amount]
    for name in names:
        left = left_on.get(name)
        if left is None or name == own:  # the room taken on this node is the pod's own
            continue
        for resource, amount in asked:
            if left.get(resource, amount) < amount and resource in nodes[name].allocatable:
                yield name
                break
        else:
            if ports and _port_taken(pod, name, view):
                yield name


def _port_taken(pod: PodInfo, node: str, view: ClusterView) -> bool:
    """Return whether a pod on a node, or one that is being bound to it, has one of its ports."""
    planned, ports = view.planned_on(node), pod.shape.host_ports
    there = (each for each in view.shunning(node) if each.uid != pod.uid)
    return any(clashes(o.shape.host_ports, ports) for o in there if o.uid not in planned)


def without_room(shape: Shape, names: Iterable[str], view: ClusterView) -> Iterator[str]:
    """Yield the nodes on which a pod has no room as far as we know, apart from planned room.

    This is called often for a group that is denied, each time with hundreds of nodes.
    """
    left = view.left.all()
    asked = [(resource, amount) for resource, amount in shape.requests.items() if amount]
    for name in names:
        there = left.get(name)
        if there is None:
            yield name
            continue
        for resource, amount in asked:
            if there.get(resource, 0) < amount:
                yield name
                break


# --- pods of the cluster itself, which use room whatever plans and claims keep ---------------
#
# They are pods of a system priority, and pods of DaemonSets. A pod of a DaemonSet can go to one
# node only, and a node without its agents is of no use to a gang either. But a user of a namespace
# may create DaemonSets there, or pods that look like theirs. Outside of kube-system, all DaemonSet
# pods of one namespace may therefore take only a small share of a node from kept room.


SYSTEM_NAMESPACE: Final = "kube-system"
SHARE: Final = 10
"""The per cent of a node that DaemonSets of another namespace may take from room kept there."""


def is_exempt(pod: PodInfo, node: NodeInfo, *, view: ClusterView) -> bool:
    """Return whether a pod of no gang may use room on a node that is kept for gangs."""
    if pod.priority >= SYSTEM_CRITICAL:
        return True
    if pod.only_node != node.name:
        return False
    if pod.namespace == SYSTEM_NAMESPACE:
        return True
    # A pod that was evicted for a gang may not take the room again: it would be evicted endlessly.
    return not view.is_nominated(node.name) and _is_small(pod, node, view)


def is_of_system(pod: PodInfo) -> bool:
    """Return whether a pod is run by the cluster itself, so that no gang may take its room."""
    return pod.mirror or (pod.only_node is not None and pod.namespace == SYSTEM_NAMESPACE)


def _is_small(pod: PodInfo, node: NodeInfo, view: ClusterView) -> bool:
    """Return whether the DaemonSet pods of a pod's namespace stay within their share of a node."""
    together = Resources(pod.shape.requests)
    for uid in chain(view.pods_on(node.name), view.coming_to(node.name)):
        other = view.pods.get(uid)
        if other is None or other.uid == pod.uid or other.only_node is None:
            continue
        if other.namespace == pod.namespace:
            add(together, other.shape.requests)
    whole = node.allocatable
    return all(value * 100 <= whole.get(name, 0) * SHARE for name, value in together.items())


# --- the dry round of a gang whose members claim volumes or devices ------------------------------
#
# kube-scheduler provisions volumes and allocates devices in PreBind, before it asks to bind the
# pod: to wait for siblings in bind would be too late. Filter therefore only notes that
# kube-scheduler has found nodes for a member, and refuses it, until there are nodes for enough
# members at the same time.


DRY_ROUND: Final = frozenset((Reason.NODES_FOR_ALL_FIRST, Reason.CLASS_IN_USE))
"""The reasons of refusals in a dry round. Only the end of the round wakes the pod."""
_MOST_EXCHANGES: Final = 200
"""The largest number of volumes given to claims at which claims may still exchange volumes."""


def lacking_claims(group: str, *, view: ClusterView) -> list[str]:
    """Return the keys of the claims, of members without a node, that have no volume or devices."""
    pods = (view.pods[uid] for uid in view.claiming(group))
    return [key for pod in pods for key in pod.claim_keys if not _is_allocated(key, view)]


def classes_of(keys: Collection[str], *, view: ClusterView) -> frozenset[str]:
    """Return the StorageClasses and DeviceClasses of the claims that are known."""
    claims = (view.claim(key) for key in keys)
    return frozenset().union(*(claim.classes for claim in claims if claim is not None))


def match_volumes(
    nodes: Mapping[str, Sequence[NodeInfo] | None], need: int, *, view: ClusterView
) -> Mapping[str, VolumeInfo] | str:
    """Return a volume for each claim of these pods, by key, if `need` pods can have theirs.

    Otherwise return the StorageClass that has too few volumes.

    `nodes` are the nodes that kube-scheduler found for each pod, by UID; None if they are not
    known. Volumes that a provisioner makes are not counted.
    """
    matching, enough, short = _Matching(view), 0, None
    for uid, found in nodes.items():
        keys = [key for key in view.pods[uid].claim_keys if not _is_allocated(key, view)]
        wants = [_Want(claim, found) for claim in map(view.claim, keys) if claim is not None]
        lacks = next(filter(None, map(matching.lacks, wants)), None)
        enough, short = enough + (lacks is None), short or lacks
    return matching.volumes if short is None or enough >= need else short


def beside_volumes(
    pod: PodInfo,
    verdict: FilterVerdict,
    sent: Sequence[str],
    *,
    volumes: Mapping[str, VolumeInfo],
    view: ClusterView,
) -> FilterVerdict:
    """Return a verdict with a node that reaches the volumes which were matched to a pod.

    On another node the pod would take a volume that a sibling needs.
    """
    own = [volumes[key] for key in pod.claim_keys if key in volumes]
    if not own or not isinstance(verdict, OneNode):
        return verdict
    there = (view.nodes[name] for name in sent if name in view.nodes)
    good = [node.name for node in there if all(_reaches(volume, [node]) for volume in own)]
    node = None if verdict.node in good else first_with_room(pod, good, view)
    return OneNode(node, {**verdict.reserve, pod.uid: node}) if node is not None else verdict


class _Want(NamedTuple):
    """A claim, and the nodes that kube-scheduler found for its pod; None if they are not known."""

    claim: ClaimInfo
    nodes: Sequence[NodeInfo] | None


class _Matching:
    """Gives each claim a volume of its own, out of those that were created by hand."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._left: dict[str, list[VolumeInfo]] = {}
        self._given: dict[str, tuple[VolumeInfo, _Want]] = {}

    @property
    def volumes(self) -> Mapping[str, VolumeInfo]:
        """The volumes that were given, by the key of the claim."""
        return {want.claim.key: volume for volume, want in self._given.values()}

    def lacks(self, want: _Want) -> str | None:
        """Give a claim a volume; return its StorageClass if no volume is left."""
        of_class = next(iter(want.claim.classes), "")
        if not self._view.is_static(of_class):
            return None
        if of_class not in self._left:
            volumes = self._view.free_volumes(of_class)
            self._left[of_class] = sorted(volumes, key=lambda each: each.size)
        return None if self._give(want, self._left[of_class], set()) else of_class

    def _give(self, want: _Want, left: list[VolumeInfo], tried: set[str]) -> bool:
        """Give a claim a volume, if need be that of another claim, which then takes another one."""
        for volume in left:
            if _suits(volume, want):
                left.remove(volume)
                self._given[volume.key] = volume, want
                return True
        for volume, other in [*self._given.values()] if len(self._given) <= _MOST_EXCHANGES else ():
            if volume.key not in tried and _suits(volume, want):
                tried.add(volume.key)
                if self._give(other, left, tried):
                    self._given[volume.key] = volume, want
                    return True
        return False


def _suits(volume: VolumeInfo, want: _Want) -> bool:
    claim = want.claim
    if volume.claim not in ("", claim.key):
        return False
    if volume.size < claim.size or not claim.modes <= volume.modes:
        return False
    return want.nodes is None or _reaches(volume, want.nodes)


def _reaches(volume: VolumeInfo, nodes: Sequence[NodeInfo]) -> bool:
    """Return whether one of these nodes can use a volume."""
    terms = volume.nodes.node_selector_terms if volume.nodes is not None else None
    return terms is None or any(
        matches_term(term, node.labels, name=node.name) for term in terms for node in nodes
    )


def _is_allocated(key: str, view: ClusterView) -> bool:
    claim = view.claim(key)
    return claim is not None and claim.allocated


def may_be_deallocated(claim: ClaimInfo, *, view: ClusterView, refused: Collection[str]) -> bool:
    """Return whether the devices of a claim are held only for members that were refused.

    `refused` are the UIDs of pods whose last answer was a refusal. kube-scheduler binds none.
    """
    pods = view.users_of_claim(claim.key)
    if not claim.allocated or not claim.key.startswith(RESOURCE_CLAIMS) or not pods:
        return False
    return claim.users <= set(pods) and all(
        _is_sent_away(view.pods[u], view, refused) for u in pods
    )


def _is_sent_away(pod: PodInfo, view: ClusterView, refused: Collection[str]) -> bool:
    waits = pod.node is None and view.reservation(pod.uid) is None
    return pod.group is not None and waits and pod.uid in refused
