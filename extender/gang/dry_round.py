"""The dry round of a gang whose members claim volumes or devices.

kube-scheduler provisions volumes and allocates devices in PreBind, before it asks to bind the pod:
a held bind request is too late to wait for siblings. So filter only notes that kube-scheduler has
found nodes for a member, and refuses it, until there are nodes for enough members at the same time.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from extender.api.reasons import Reason
from extender.api.selectors import matches_term
from extender.state.cluster.records import RESOURCE_CLAIMS, ClaimInfo, NodeInfo, PodInfo, VolumeInfo
from extender.state.cluster.view import ClusterView

REASONS: Final = frozenset((Reason.NODES_FOR_ALL_FIRST, Reason.CLASS_IN_USE))
"""Refusals of a dry round: its end wakes the pod, and nothing does before."""
_MOST: Final = 200
"""Volumes that have been given to claims, of which one may be exchanged for another."""


def lacking_claims(group: str, *, view: ClusterView) -> list[str]:
    """Return the keys of claims without a volume or devices of members without a node."""
    pods = (view.pods[uid] for uid in view.claiming(group))
    return [key for pod in pods for key in pod.claim_keys if not _is_allocated(key, view)]


def classes_of(keys: Collection[str], *, view: ClusterView) -> frozenset[str]:
    """Return the StorageClasses and DeviceClasses of claims, as far as these are known."""
    claims = (view.claim(key) for key in keys)
    return frozenset().union(*(claim.classes for claim in claims if claim is not None))


def short_of_volumes(
    nodes: Mapping[str, Sequence[NodeInfo] | None], need: int, *, view: ClusterView
) -> str | None:
    """Return the StorageClass whose volumes are too few for so many of these pods, or None.

    `nodes` are those that kube-scheduler found, by UID; None where they are not known. Volumes
    that a provisioner makes are not counted.
    """
    matching, enough, short = _Matching(view), 0, None
    for uid, found in nodes.items():
        keys = [key for key in view.pods[uid].claim_keys if not _is_allocated(key, view)]
        wants = [_Want(claim, found) for claim in map(view.claim, keys) if claim is not None]
        lacks = next(filter(None, map(matching.lacks, wants)), None)
        enough, short = enough + (lacks is None), short or lacks
    return short if enough < need else None


class _Want(NamedTuple):
    """A claim, and the nodes that kube-scheduler found for its pod, where these are known."""

    claim: ClaimInfo
    nodes: Sequence[NodeInfo] | None


class _Matching:
    """Gives each claim a volume of its own, of those that are made by hand."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._left: dict[str, list[VolumeInfo]] = {}
        self._given: dict[str, tuple[VolumeInfo, _Want]] = {}

    def lacks(self, want: _Want) -> str | None:
        """Return the StorageClass of a claim for which no volume is left."""
        of_class = next(iter(want.claim.classes), "")
        if not self._view.is_static(of_class):
            return None
        if of_class not in self._left:
            volumes = self._view.free_volumes(of_class)
            self._left[of_class] = sorted(volumes, key=lambda each: each.size)
        return None if self._give(want, self._left[of_class], set()) else of_class

    def _give(self, want: _Want, left: list[VolumeInfo], tried: set[str]) -> bool:
        """Give a claim a volume, if need be one of which the claim that has it takes another."""
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
    claim, terms = want.claim, volume.nodes.node_selector_terms if volume.nodes else None
    if volume.claim not in ("", claim.key):
        return False
    if volume.size < claim.size or not claim.modes <= volume.modes:
        return False
    if terms is None or want.nodes is None:
        return True
    return any(matches_term(t, node.labels, name=node.name) for t in terms for node in want.nodes)


def _is_allocated(key: str, view: ClusterView) -> bool:
    claim = view.claim(key)
    return claim is not None and claim.allocated


def may_be_deallocated(claim: ClaimInfo, *, view: ClusterView, refused: Collection[str]) -> bool:
    """Return whether the devices of a claim are held for nothing but members that were refused.

    `refused` are the UIDs of pods whose last answer was a refusal: kube-scheduler binds none.
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
