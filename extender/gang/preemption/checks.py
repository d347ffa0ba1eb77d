"""Which victims the reconciler evicts: what a status asks for is checked against the cluster.

The status was written by another process, a moment ago. What has changed since makes all of it
void: a part of the victims is no use to the group.
"""

from dataclasses import dataclass

from extender.gang.preemption.nominating import remaining
from extender.state.cluster.records import PodGroupInfo, PodInfo, PreemptedRoom
from extender.state.cluster.view import ClusterView


@dataclass(frozen=True, slots=True)
class Checked:
    """The pods to evict now, or why none is."""

    evict: tuple[PodInfo, ...] = ()
    why_not: str = ""


def check(
    pod_group: PodGroupInfo, nomination: PreemptedRoom, *, view: ClusterView, enabled: bool
) -> Checked:
    """Return the pods of victims that are to be evicted for a group and are not leaving yet.

    They are known by UID, and each has a lower priority than every pod of the group: so none is one
    of its own.
    """
    group = pod_group.key
    if not enabled:
        return Checked(why_not="gang.preemption is Off")
    if group not in view.queue:
        return Checked(why_not="the group does not wait for room")
    priority = view.tally(group).priority
    left = [*remaining(nomination, view=view)]
    for pod in left:
        if worth(pod, view) >= priority:
            return Checked(why_not=f"a victim has the priority {worth(pod, view)} by now")
    return Checked(tuple(pod for pod in left if not pod.terminating))


def worth(pod: PodInfo, view: ClusterView) -> int:
    """Return the priority of a victim: that of its gang is the highest among its pods."""
    of_gang = view.tally(pod.group).priorities if pod.group is not None else ()
    return max(pod.priority, *of_gang) if of_gang else pod.priority


def has_started_since(pod_group: PodGroupInfo, at: float, *, view: ClusterView) -> bool:
    """Return whether a group has its quorum of pods that got their nodes since then."""
    bound = [view.pods[uid] for uid in view.tally(pod_group.key).bound]
    return len(bound) >= view.quorum(pod_group) and all(pod.bound_at >= at for pod in bound)
