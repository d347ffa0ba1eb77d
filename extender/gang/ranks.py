"""Rank order: pods of neighbouring index on neighbouring nodes."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from extender.api.values import remembered
from extender.api.wellknown import ZONE_LABEL
from extender.state.cluster.records import NodeInfo, PodInfo

_NUMBERS: Final = re.compile(r"(\d+)")
_NAMES: Final = 1 << 14
"""Names of nodes that are split once: a large gang has as many places as pods."""


def assigned(
    pods: Sequence[PodInfo],
    places: Sequence[NodeInfo],
    *,
    label: str | None,
    sent: Collection[str] = (),
) -> Mapping[str, str]:
    """Return a node for each of these equal pods, by UID; there are as many places as pods.

    Indexes of one owner follow the domains of a label, or zones, and then the names of nodes as
    people count them. The first pod is the one that is tried: it gets a node that was `sent`, where
    one of the places is there, from the pod that is nearest in rank. Pods without an index keep
    their order, and so do the places.
    """
    if any(pod.index is None for pod in pods):
        return {pod.uid: node.name for pod, node in zip(pods, places, strict=True)}
    ranked = sorted(pods, key=lambda pod: (pod.controller or "", pod.index or 0))
    by_name = sorted(places, key=lambda node: _place(node, label))
    found = {pod.uid: node.name for pod, node in zip(ranked, by_name, strict=True)}
    tried, usable = pods[0].uid, frozenset(sent)
    if usable and found[tried] not in usable:
        own = ranked.index(pods[0])
        able = (rank for rank, pod in enumerate(ranked) if found[pod.uid] in usable)
        other = ranked[min(able, key=lambda rank: abs(rank - own), default=own)].uid
        found[tried], found[other] = found[other], found[tried]
    return found


def _place(node: NodeInfo, label: str | None) -> tuple[object, ...]:
    domain = node.labels.get(label if label is not None else ZONE_LABEL, "")
    return _natural(domain), _natural(node.name)


@remembered(_NAMES)
def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return what makes `n2` come before `n10`."""
    parts = _NUMBERS.split(text)
    return tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts)
