"""Which victims the reconciler evicts: what a status asks for is checked against the cluster.

The status was written by another process, a moment ago. What has changed since makes all of it
void: a part of the victims is no use to the group.
"""

from collections.abc import Collection
from dataclasses import dataclass

from extender.gang.preemption.nominating import remaining
from extender.gang.preemption.units import Going
from extender.state.cluster.records import PodGroupInfo, PodInfo, PreemptedRoom
from extender.state.cluster.view import ClusterView


@dataclass(frozen=True, slots=True)
class Checked:
    """The pods to evict now, or why none is."""

    evict: tuple[PodInfo, ...] = ()
    why_not: str = ""


def check(
    pod_group: PodGroupInfo,
    nomination: PreemptedRoom,
    *,
    view: ClusterView,
    enabled: bool,
    has_begun: bool = False,
) -> Checked:
    """Return the pods of victims that are to be evicted for a group and are not leaving yet.

    They are known by UID, and each has a lower priority than every pod of the group: so none is one
    of its own. Once victims are leaving, or an eviction `has_begun`, the others follow, whatever
    has come in the place of the first ones.
    """
    if not enabled:
        return Checked(why_not="gang.preemption is Off")
    if pod_group.key not in view.queue:
        return Checked(why_not="the group does not wait for room")
    left = [*remaining(nomination, view=view)]
    why_not = _outranked(pod_group, left, view=view)
    if not why_not and not has_begun and not any(pod.terminating for pod in left):
        why_not = _of_no_use(nomination, left, view=view)
    if why_not:
        return Checked(why_not=why_not)
    return Checked(tuple(pod for pod in left if not pod.terminating))


def overtaken(pod_group: PodGroupInfo, nomination: PreemptedRoom, *, view: ClusterView) -> str:
    """Return why nothing of a choice has been done and nothing is to be done any more; "" else.

    The extender asks, which knows the plans of groups.
    """
    left = [*remaining(nomination, view=view)]
    if len(left) < sum(len(each.pods) for each in nomination.victims):
        return ""
    if any(pod.terminating for pod in left):
        return ""
    missing = view.quorum(pod_group) - view.tally(pod_group.key).committed
    chosen = sum(len(room.pods) for room in nomination.rooms.values())
    if pod_group.key in view.queue and missing > chosen:
        return "the group needs more pods by now than room was chosen for"
    return _outranked(pod_group, left, view=view) or _of_no_use(nomination, left, view=view)


def _outranked(pod_group: PodGroupInfo, left: Collection[PodInfo], *, view: ClusterView) -> str:
    """Return that a victim is as important as the group, if one is."""
    priority = view.tally(pod_group.key).priority
    highest = max((worth(pod, view) for pod in left), default=priority - 1)
    return f"a victim has the priority {highest} by now" if highest >= priority else ""


def _of_no_use(nomination: PreemptedRoom, left: Collection[PodInfo], *, view: ClusterView) -> str:
    """Return why victims that have not begun to leave would go for nothing, or break a gang."""
    for name in nomination.rooms:
        node = view.nodes.get(name)
        if node is None or not node.ready:
            return "a node with room for the group is gone, or is not ready"
    going = Going(view, nomination.since)
    uids = {pod.uid for pod in left}
    for group in {pod.group for pod in left if pod.group is not None}:
        pod_group, bound = view.pod_group(group), view.tally(group).bound
        stay = sum(uid not in uids and not going.leaves(view.pods[uid]) for uid in bound)
        if pod_group is not None and 0 < stay < view.quorum(pod_group):
            return "a victim's gang would go on below its minMember"
    return ""


def worth(pod: PodInfo, view: ClusterView) -> int:
    """Return the priority of a victim: that of its gang is the highest of its able pods."""
    highest = view.tally(pod.group).worth if pod.group is not None else None
    return pod.priority if highest is None else max(pod.priority, highest)


def has_started_since(pod_group: PodGroupInfo, at: float, *, view: ClusterView) -> bool:
    """Return whether a group has its quorum of pods that got their nodes since then."""
    bound = [view.pods[uid] for uid in view.tally(pod_group.key).bound]
    return len(bound) >= view.quorum(pod_group) and all(pod.bound_at >= at for pod in bound)
