"""The order between groups: priority, then age or last failure, then arrival, then name.

Extenders have no QueueSort, so the order is imposed where groups are planned, and where they are
chosen to be tried again. The name is the group's, not the pod's: groups made in the same second do
not interleave.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from extender.state.group_queue import Turn
from extender.state.pod_groups import PodGroupInfo
from extender.state.snapshot import Snapshot

AHEAD = 256
"""How many pods of groups that go first are planned, at most, before the one that is asked for.

One call of filter cannot plan a queue of thousands. Beyond this number the order is the one in
which kube-scheduler brings the pods, which by priority and age is nearly the same.
"""


def sort_key(group: str, *, snapshot: Snapshot) -> Turn:
    """Return what groups are ordered by, first to be served first."""
    pod_group = snapshot.pod_group(group)
    if pod_group is not None:
        return snapshot.turn(pod_group)
    return -snapshot.tally(group).priority, float("inf"), 0, group


def ahead_of(
    pod_group: PodGroupInfo, *, snapshot: Snapshot, skip: Callable[[PodGroupInfo], bool]
) -> Iterable[PodGroupInfo]:
    """Yield the groups to be planned before one, but for those that `skip` says no to.

    Each is asked for when it is its turn: a plan may take groups out of the queue meanwhile.
    """
    groups = list(islice(_before(pod_group, snapshot), AHEAD))
    return _within_limit(groups, snapshot, skip)


def is_behind(
    pod_group: PodGroupInfo, *, snapshot: Snapshot, skip: Callable[[PodGroupInfo], bool]
) -> bool:
    """Return whether any group comes before one, but for those that `skip` says no to."""
    return not all(map(skip, _before(pod_group, snapshot)))


def _before(pod_group: PodGroupInfo, snapshot: Snapshot) -> Iterator[PodGroupInfo]:
    for key in snapshot.queue.ahead_of(snapshot.turn(pod_group)):
        other = snapshot.pod_group(key)
        if other is not None:
            yield other


def _within_limit(
    groups: Iterable[PodGroupInfo], snapshot: Snapshot, skip: Callable[[PodGroupInfo], bool]
) -> Iterator[PodGroupInfo]:
    pods = 0
    for other in groups:
        if pods >= AHEAD:
            return
        if not skip(other):
            pods += snapshot.quorum(other)
            yield other
