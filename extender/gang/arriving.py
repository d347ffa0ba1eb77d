"""Whether a gang is being created, and whether kube-scheduler has anything else to do meanwhile."""

from collections.abc import Callable
from itertools import islice
from typing import Final

from extender.state.cluster.view import ClusterView

MOST_MEMBERS: Final = 512
"""A gang that needs more pods takes longer to be created than is waited for."""
STUCK_SECONDS: Final = 60.0
"""A pod that has not been judged for so long is not going to be: its scheduler is not there, or
something else keeps it from its queue."""
MOST_STUCK: Final = 64
MOST_GROUPS: Final = 64
"""So many of the queue are looked at."""


def lacks_pods(group: str, *, view: ClusterView) -> bool:
    """Return whether a gang has a PodGroup and pods, none of them with room, and needs more."""
    tally, pod_group = view.tally(group), view.pod_group(group)
    if pod_group is None or tally.committed or not tally.members:
        return False
    able = len(tally.members) - len(tally.gated) - len(tally.leaving)
    return able < view.quorum(pod_group) <= MOST_MEMBERS


def others_wait(
    group: str, *, view: ClusterView, has_failed: Callable[[str], bool], now: float
) -> bool:
    """Return whether there is more for kube-scheduler to do than to judge members of a gang.

    That is a pod that was not judged yet, one that a plan has room for, or a group that has its
    pods and has not failed. What was judged before may have another try, and has time. `now` is in
    seconds since the epoch.
    """
    if view.has_plans or _is_fresh_beside(group, view, now):
        return True
    waiting = islice(view.queue, MOST_GROUPS)
    return any(each != group and not has_failed(each) for each in waiting)


def _is_fresh_beside(group: str, view: ClusterView, now: float) -> bool:
    members, stuck = view.tally(group).members, 0
    for uid in view.latest_fresh():
        if uid not in members:
            stuck += 1
            if now - view.pods[uid].created < STUCK_SECONDS or stuck > MOST_STUCK:
                return True
    return False
