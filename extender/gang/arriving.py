"""Whether a gang is being created, and whether kube-scheduler has anything else to do meanwhile."""

from collections.abc import Callable
from typing import Final

from extender.state.cluster.view import ClusterView

MOST_MEMBERS: Final = 512
"""A gang that needs more pods takes longer to be created than is waited for."""
MOST_STUCK: Final = 64
"""With more such pods none counts as stuck: that many have to be looked at each time."""


def lacks_pods(group: str, *, view: ClusterView) -> bool:
    """Return whether a gang has a PodGroup and pods, none of them with room, and needs more."""
    tally, pod_group = view.tally(group), view.pod_group(group)
    if pod_group is None or tally.committed or not tally.members:
        return False
    able = len(tally.members) - len(tally.gated) - len(tally.leaving)
    return able < view.quorum(pod_group) <= MOST_MEMBERS


def others_wait(group: str, *, view: ClusterView, is_stuck: Callable[[str], bool]) -> bool:
    """Return whether there is more for kube-scheduler to do than to judge members of a gang.

    That is a pod that was not judged yet, or one that a plan has room for. What was judged before
    may have another try, and has time. `is_stuck` says of a pod, by its UID, that it has been there
    for so long that kube-scheduler is not going to judge it.
    """
    if view.has_plans:
        return True
    members, stuck = view.tally(group).members, 0
    for uid in view.latest_fresh():
        if uid not in members:
            stuck += 1
            if stuck > MOST_STUCK or not is_stuck(uid):
                return True
    return False
