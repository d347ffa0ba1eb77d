"""The order between groups: priority, then age, then name.

Extenders have no QueueSort, so the order is imposed where groups are chosen to be tried again.
The name is the group's, not the pod's: groups made in the same second do not interleave.
"""

from extender.state.snapshot import Snapshot


def sort_key(group: str, *, snapshot: Snapshot) -> tuple[int, float, str]:
    """Return what groups are ordered by, first to be served first."""
    pod_group = snapshot.pod_group(group)
    priorities = [pod.priority for pod in snapshot.members(group)]
    created = pod_group.created if pod_group else float("inf")
    return -min(priorities, default=0), created, group
