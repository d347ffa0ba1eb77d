"""Members that may find a node only beside siblings: affinity between pods, and spread.

kube-scheduler counts a pod whose bind request is held as one that is on its node. So a member that
its own filters refused may find a node as soon as siblings are held; but it is not tried again for
that, because nothing in the API has changed.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from extender.api.selectors import matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.gang.verdicts import about
from extender.state.cluster.records import PodInfo, PodTerm, Shape
from extender.state.cluster.view import ClusterView


def are_sought(pod: PodInfo, *, view: ClusterView) -> bool:
    """Return whether siblings decide where a member may go."""
    group = pod.group or ""
    return any(_is_about(term, pod, view.members(group)) for term in pod.shape.seeks)


def come_later(group: str, *, view: ClusterView) -> set[str]:
    """Return the UIDs of members that find no node before a sibling has one.

    They have to be near one. A pod that has to be near its equals may come first.
    """
    waiting = (pod for pod in view.members(group) if pod.node is None and pod.shape.seeks)
    return {
        pod.uid
        for pod in waiting
        for term in pod.shape.seeks
        if not (term.spread or _selects(term, pod, pod))
        and _is_about(term, pod, view.members(group))
    }


def refused_beside(
    held: Sequence[PodInfo], group: str, *, view: ClusterView, tried: Container[str]
) -> list[PodInfo]:
    """Return the planned members that kube-scheduler refused, and that held siblings may help.

    Those that were `tried` are left out.
    """
    planned = (view.pods[uid] for uid in view.tally(group).planned if uid not in tried)
    return [pod for pod in planned if is_refused(pod) and _met(pod, held)]


def is_refused(pod: PodInfo) -> bool:
    """Return whether kube-scheduler itself found no node for a member when it tried it last."""
    said = pod.unschedulable
    return bool(said) and about(pod.group or "") not in (said or "")


def to_patch(pods: Iterable[PodInfo], held: Sequence[PodInfo]) -> Mapping[str, bool]:
    """Return which of such members are patched, by UID, and whether for their spread.

    One of each shape that has to be spread is enough to have all of it tried again.
    """
    patched: dict[str, bool] = {}
    spread: dict[Shape, PodInfo] = {}
    for pod in pods:
        met = _met(pod, held)
        if not all(met):
            patched[pod.uid] = False
        known = spread.get(pod.shape)
        if any(met) and (known is None or known.priority < pod.priority):
            spread[pod.shape] = pod
    return patched | {pod.uid: True for pod in spread.values()}


def _met(pod: PodInfo, siblings: Sequence[PodInfo]) -> list[bool]:
    """Return of each term of a pod that is about one of its siblings whether it is of spread."""
    return [term.spread for term in pod.shape.seeks if _is_about(term, pod, siblings)]


def _is_about(term: PodTerm, pod: PodInfo, siblings: Iterable[PodInfo]) -> bool:
    return any(_selects(term, pod, each) for each in siblings if each.uid != pod.uid)


def _selects(term: PodTerm, pod: PodInfo, sibling: PodInfo) -> bool:
    labels = sibling.labels
    if sibling.index is not None:
        labels = {**labels, INDEX_LABEL: str(sibling.index)}
    covers = term.covers(sibling.namespace, own=pod.namespace)
    return covers and matches_selector(term.selector, labels)
