"""The dry round of a gang whose members claim volumes or devices.

kube-scheduler provisions volumes and allocates devices in PreBind, before it asks to bind the pod:
to wait for siblings in bind would be too late. Filter therefore only notes that kube-scheduler has
found nodes for a member, and refuses it, until there are nodes for enough members at the same time.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from extender.api.core_v1 import matches_term
from extender.api.reasons import Reason
from extender.gang.filter import first_with_room
from extender.gang.verdicts import FilterVerdict, OneNode
from extender.state.cluster.records import RESOURCE_CLAIMS, ClaimInfo, NodeInfo, PodInfo, VolumeInfo
from extender.state.cluster.view import ClusterView

REASONS: Final = frozenset((Reason.NODES_FOR_ALL_FIRST, Reason.CLASS_IN_USE))
"""The reasons of refusals in a dry round. Only the end of the round wakes the pod."""
_MOST: Final = 200
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
        for volume, other in [*self._given.values()] if len(self._given) <= _MOST else ():
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
