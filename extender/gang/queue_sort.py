"""The order between groups: priority, then age or last failure, then arrival, then name.

Extenders have no QueueSort, so the order is imposed where groups are planned, and where they are
chosen to be tried again. The name is the group's, not the pod's: groups made in the same second do
not interleave.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from extender.api.reasons import Reason
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.group_queue import Turn
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView

AHEAD = 256
"""How many pods of groups that go first are planned, at most, before the one that is asked for.

One call of filter cannot plan a queue of thousands. Beyond this number the order is the one in
which kube-scheduler brings the pods, which by priority and age is nearly the same.
"""


def sort_key(group: str, *, view: ClusterView) -> Turn:
    """Return what groups are ordered by, first to be served first."""
    pod_group = view.pod_group(group)
    if pod_group is not None:
        return view.turn(pod_group)
    return -view.tally(group).priority, float("inf"), 0, group


def ahead_of(
    pod_group: PodGroupInfo, *, view: ClusterView, skip: Callable[[PodGroupInfo], bool]
) -> Iterator[PodGroupInfo]:
    """Yield the groups to be planned before one, but for those that `skip` says no to.

    Each is asked for when it is its turn: a plan may take groups out of the queue meanwhile.
    """
    pods = 0
    for other in list(islice(_before(pod_group, view), AHEAD)):
        if pods >= AHEAD:
            return
        if not skip(other):
            pods += view.quorum(other)
            yield other


def is_behind(
    pod_group: PodGroupInfo, *, view: ClusterView, skip: Callable[[PodGroupInfo], bool]
) -> bool:
    """Return whether any group comes before one, but for those that `skip` says no to."""
    return not all(map(skip, _before(pod_group, view)))


def refusal(group: str) -> Refuse:
    """Return the refusal of a group that is behind another one in strict order."""
    text = f"{about(group)}another gang is ahead of it, and the order is strict"
    return Refuse(Reason.WAITING_FOR_TURN, text)


def _before(pod_group: PodGroupInfo, view: ClusterView) -> Iterator[PodGroupInfo]:
    for key in view.queue.ahead_of(view.turn(pod_group)):
        other = view.pod_group(key)
        if other is not None:
            yield other
