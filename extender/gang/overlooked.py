"""Which refused pods wait although nothing speaks against another try that is known.

Each refusal has something that ends it, and that wakes the pod. What is found here has been missed,
or is about what kube-scheduler alone knows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from extender.api.reasons import Reason
from extender.gang.verdicts import is_ours
from extender.state.cluster.records import Refusal
from extender.state.cluster.view import NO_GROUP, ClusterView
from extender.state.fair_share import FairShare
from extender.steps import Steps

MOST_GROUPS: Final = 256
"""So many of the queue are looked at."""
MOST_LOOKS: Final = 10_000
"""And so many pods without a group."""
_ENDED_BY_ROOM: Final = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.OUTSIDE_TOPOLOGY))
_ENDED_BY_TIME: Final = frozenset((
    *(Reason.NOT_SEEN_YET, Reason.PLANNING, Reason.RECENTLY_DENIED),
    *(Reason.CACHE_BEHIND, Reason.CACHE_STALE, Reason.SCHEDULER_DISAGREES),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shares:
    """Choose which of the waiting groups to look at."""

    groups: FairShare = field(default_factory=lambda: FairShare(MOST_GROUPS))
    pods: FairShare = field(default_factory=lambda: FairShare(MOST_LOOKS))
    """Those without a group, as `namespace/uid`."""


def finding(
    view: ClusterView, shares: Shares, *, has_no_room: Callable[[str], bool]
) -> Steps[dict[str, Refusal]]:
    """Return by group, or by UID of a pod without one, the refusal of the pod to be tried again.

    Of a group that has its pods, no room, and no member that is still to be tried: the first that
    only we refused.
    """
    found = dict[str, Refusal]()
    for group in (yield from shares.groups.choosing(view.queue)):
        yield
        if group not in view.queue or has_no_room(group) or not _is_idle(group, view):
            continue
        refused = [view.refused[uid] for uid in view.refused_of(group)]
        first = _first(each for each in refused if _may_be_missed(each, view))
        if first is not None:
            found[group] = first
    pods = [view.refused[uid].pod for uid in view.refused_of(NO_GROUP)]
    for key in (yield from shares.pods.choosing(f"{pod.namespace}/{pod.uid}" for pod in pods)):
        refusal = view.refused.get(key.partition("/")[2])
        if refusal is not None and _may_be_missed(refusal, view):
            found[refusal.pod.uid] = refusal
    return found


def _is_idle(group: str, view: ClusterView) -> bool:
    tally, fresh = view.tally(group), view.fresh
    return not tally.committed and not any(uid in fresh for uid in tally.members)


def _may_be_missed(refusal: Refusal, view: ClusterView) -> bool:
    """Return whether what the refusal was about may be over; reserved room is while any is."""
    if refusal.reason == Reason.RESERVED:
        return not view.keeps_room
    return refusal.reason in _ENDED_BY_ROOM or refusal.reason in _ENDED_BY_TIME


def _first(refused: Iterable[Refusal]) -> Refusal | None:
    """Return the first of the pods that kube-scheduler did not reject itself, or the first."""
    every = [*refused]
    return next(filter(_is_ours, every), every[0] if every else None)


def _is_ours(refusal: Refusal) -> bool:
    said = refusal.pod.unschedulable
    return said is None or is_ours(said, refusal.pod.group or "")
