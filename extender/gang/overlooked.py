"""Which refused pods wait although nothing speaks against another try that is known.

Each refusal has something that ends it, and that wakes the pod. What is found here has been missed,
or is about what kube-scheduler alone knows.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from extender.gang.post_filter import is_ours
from extender.state.cluster.records import Refusal
from extender.state.cluster.view import ClusterView

MOST_GROUPS: Final = 256
"""So many of the queue are looked at."""
MOST_PODS: Final = 256
"""So many of the pods without a group."""


def find(view: ClusterView, *, has_no_room: Callable[[str], bool]) -> dict[str, Refusal]:
    """Return by group, or by UID of a pod without one, the refusal of the pod to be tried again.

    Of a group that has its pods, no room, and no member that is still to be tried: the first that
    only we refused.
    """
    found = {}
    for group in islice(view.queue, MOST_GROUPS):
        refused = [view.refused[uid] for uid in view.refused_of(group)]
        if refused and not has_no_room(group) and _is_idle(group, view):
            found[group] = next(filter(_is_ours, refused), refused[0])
    plain = (each for each in view.refused.values() if each.pod.group is None)
    return found | {each.pod.uid: each for each in islice(plain, MOST_PODS)}


def _is_idle(group: str, view: ClusterView) -> bool:
    tally, fresh = view.tally(group), view.fresh
    return not tally.committed and not any(uid in fresh for uid in tally.members)


def _is_ours(refusal: Refusal) -> bool:
    said = refusal.pod.unschedulable
    return said is None or is_ours(said, refusal.pod.group or "")
