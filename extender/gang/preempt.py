"""The course of a preemption: the choice as it is stored, its end, evictions, and proposals.

`gang/victims.py` makes the choice.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import floor
from typing import Final, NamedTuple

from extender.api.reasons import PreemptionReason
from extender.gang import topology
from extender.gang.filter import has_room_without, is_exempt
from extender.gang.fit import fits
from extender.gang.victims import PATIENCE_SECONDS, Going, Preemption, Unit
from extender.resources.quantity import add
from extender.state.cluster.records import (
    NominatedRoom,
    PodGroupInfo,
    PodInfo,
    PreemptedRoom,
    VictimInfo,
)
from extender.state.cluster.view import ClusterView

SECONDS_A_POD: Final = 0.02
"""The additional time for each victim until all of them are asked to go."""
LONGEST_SECONDS: Final = 600.0
"""The longest time that victims may take after they were chosen, whatever their grace period."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The reason why a preemption is over, and the message for the group's condition."""

    reason: PreemptionReason
    message: str


@dataclass(slots=True)
class Seen:
    """The course of a preemption as one process has seen it; times in seconds since the epoch."""

    gone: float | None = None
    """The time when all victims had gone."""
    absent: float | None = None
    """The time since which the group does not wait for room."""


def nomination(found: Preemption, *, view: ClusterView, now: float) -> PreemptedRoom:
    """Return a choice in its stored form; `now` in seconds since the epoch."""
    names: dict[str, list[str]] = {}
    for uid, node in found.pods.items():
        names.setdefault(node, []).append(view.pods[uid].name)
    rooms = {
        node: NominatedRoom(
            tuple(names.get(node, ())),
            {resource: amount for resource, amount in amounts.items() if amount},
        )
        for node, amounts in found.nodes.items()
    }
    victims = tuple(victim for unit in found.victims for victim in _victims(unit, view))
    return PreemptedRoom(float(floor(now)), rooms, victims)


def _victims(unit: Unit, view: ClusterView) -> Iterator[VictimInfo]:
    pod_group = view.pod_group(unit.group) if unit.group is not None and unit.whole else None
    if pod_group is not None:
        yield VictimInfo("PodGroup", pod_group.uid, tuple(pod.uid for pod in unit.all_pods))
        return
    for pod in unit.all_pods:
        yield VictimInfo("Pod", pod.uid, (pod.uid,))


def remaining(nomination: PreemptedRoom, *, view: ClusterView) -> Iterator[PodInfo]:
    """Yield the pods of victims that are still on nodes, also those that are being deleted."""
    for victim in nomination.victims:
        for uid in victim.pods:
            pod = view.pods.get(uid)
            if pod is not None and pod.node is not None:
                yield pod


def sentence(nomination: PreemptedRoom) -> str:
    """Return the text of a group's condition while its victims leave."""
    gangs = sum(each.kind == "PodGroup" for each in nomination.victims)
    singles = len(nomination.victims) - gangs
    pods = sum(len(each.pods) for each in nomination.victims)
    victims = [
        *([_counted(gangs, "gang")] if gangs else ()),
        *([_counted(singles, "single pod")] if singles else ()),
    ]
    return (
        f"{' and '.join(victims)} of lower priority, {_counted(pods, 'pod')} in all, make room for "
        f"it on {_counted(len(nomination.rooms), 'node')}"
    )


def ended(  # noqa: PLR0913 - each is a fact of its own
    pod_group: PodGroupInfo,
    nomination: PreemptedRoom,
    *,
    seen: Seen,
    view: ClusterView,
    now: float,
    standby: float = 0.0,
    enabled: bool = True,
) -> Ended | None:
    """Return why a preemption is over, or None while it goes on; update `seen`.

    `now` is in seconds since the epoch. A process that is not asked about the group waits for
    `standby` seconds longer: the one that is asked ends its preemptions. `enabled` is the setting
    of preemption.
    """
    group, quorum = pod_group.key, view.quorum(pod_group)
    if view.tally(group).assigned >= quorum:
        return Ended(PreemptionReason.STARTED, "all pods that it needs have a node")
    if not enabled:
        return Ended(PreemptionReason.SWITCHED_OFF, "gang.preemption is Off")
    planned = view.tally(group).committed >= quorum
    if planned or group in view.queue:
        seen.absent = None
    elif seen.absent is None:
        seen.absent = now  # its controller may replace a pod that it lacks
    if seen.absent is not None and now - seen.absent >= PATIENCE_SECONDS + standby:
        text = "it does not wait for room any more: it lacks pods, or they are gated"
        return Ended(PreemptionReason.NOT_NEEDED, text)
    if planned and not has_cost(nomination, view=view):
        return Ended(PreemptionReason.NOT_NEEDED, "it has room without its victims")
    left = [*remaining(nomination, view=view)]
    if left:
        seen.gone = None
        return _late_victims(left, nomination, now - standby)
    return None if planned else _lost_room(seen, now, standby)


def _lost_room(seen: Seen, now: float, standby: float) -> Ended | None:
    """Return the end of a preemption whose group has not started though all victims have gone."""
    if seen.gone is None:
        seen.gone = now
    if now - seen.gone < PATIENCE_SECONDS + standby:
        return None
    text = f"its victims have gone, and it has not started within {PATIENCE_SECONDS:.0f} s"
    return Ended(PreemptionReason.ROOM_LOST, text)


def has_cost(nomination: PreemptedRoom, *, view: ClusterView) -> bool:
    """Return whether a victim has begun to leave, or has gone."""
    left = [*remaining(nomination, view=view)]
    pods = sum(len(each.pods) for each in nomination.victims)
    return len(left) < pods or any(pod.terminating for pod in left)


def taken(
    nomination: PreemptedRoom, schedulers: Collection[str], *, view: ClusterView
) -> Ended | None:
    """Return the end of a preemption if pods of other schedulers have taken its victims' nodes."""
    names = [name for name in nomination.rooms if name in view.nodes]
    there = [view.pods[uid] for name in names for uid in view.pods_on(name)]
    others = {
        pod.scheduler
        for pod in there
        if pod.scheduler not in schedulers and pod.bound_at >= nomination.since
    }
    if not others:
        return None
    text = (
        f"its victims have gone, and pods of {', '.join(sorted(others))} have come to their nodes"
    )
    return Ended(PreemptionReason.ROOM_TAKEN, f"{text}: that scheduler asks no extender")


def _late_victims(left: list[PodInfo], nomination: PreemptedRoom, now: float) -> Ended | None:
    """Return the end of a preemption some of whose victims have not gone in time."""
    pods = sum(len(each.pods) for each in nomination.victims)
    latest = nomination.since + LONGEST_SECONDS
    asked = nomination.since + PATIENCE_SECONDS + pods * SECONDS_A_POD
    late = sum(
        now >= min(latest, max(asked, (pod.gone_by or 0.0) + PATIENCE_SECONDS)) for pod in left
    )
    if not late:
        return None
    text = f"{late} of the {_counted(pods, 'pod')} that were to make room have not gone in time"
    return Ended(PreemptionReason.VICTIMS_STAY, text)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


# --- the victims that the reconciler evicts ----------------------------------------------------
#
# The reconciler checks the choice in a status against the cluster, because another process wrote it
# a moment ago. If a victim may no longer go, none goes: some of the victims are of no use to the
# group.


@dataclass(frozen=True, slots=True)
class Checked:
    """The pods to evict now, or the reason why none is evicted."""

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

    They are identified by UID, and each has a lower priority than every pod of the group, so none
    is its own. Once victims are leaving, or an eviction `has_begun`, the other victims follow,
    whatever has taken the place of the first ones.
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
    """Return why a choice of which nothing has been done yet is to be dropped; "" if it is not.

    Only the extender calls this, because it knows the plans of groups.
    """
    if has_cost(nomination, view=view):
        return ""
    missing = view.quorum(pod_group) - view.tally(pod_group.key).committed
    chosen = sum(len(room.pods) for room in nomination.rooms.values())
    if pod_group.key in view.queue and missing > chosen:
        return "the group needs more pods by now than room was chosen for"
    left = [*remaining(nomination, view=view)]
    return _outranked(pod_group, left, view=view) or _of_no_use(nomination, left, view=view)


def _outranked(pod_group: PodGroupInfo, left: Collection[PodInfo], *, view: ClusterView) -> str:
    """Return why victims do not go if one has the group's priority or a higher one; "" if none."""
    priority = view.tally(pod_group.key).priority
    highest = max((worth(pod, view) for pod in left), default=priority - 1)
    return f"a victim has the priority {highest} by now" if highest >= priority else ""


def _of_no_use(nomination: PreemptedRoom, left: Collection[PodInfo], *, view: ClusterView) -> str:
    """Return why evicting the victims would be of no use, or break a gang; "" if it would not."""
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
    """Return the priority of a victim; for a member at least the highest among its gang's pods."""
    highest = view.tally(pod.group).worth if pod.group is not None else None
    return pod.priority if highest is None else max(pod.priority, highest)


def has_started_since(pod_group: PodGroupInfo, at: float, *, view: ClusterView) -> bool:
    """Return whether a group has its quorum, and all bound pods got their nodes since `at`."""
    bound = [view.pods[uid] for uid in view.tally(pod_group.key).bound]
    return len(bound) >= view.quorum(pod_group) and all(pod.bound_at >= at for pod in bound)


# --- which of kube-scheduler's own proposals pass -------------------------------------------------
#
# The proposals are per pod and per node, and the extender's filter was not asked about them.


def decide_proposals(
    pod: PodInfo | None, victims: Mapping[str, Collection[str]], *, view: ClusterView
) -> Collection[str]:
    """Return the nodes on which preemption may go on; `victims` are pod UIDs by node.

    Return no node for a pod that is bound or being bound: it needs no room, and kube-scheduler has
    not seen its Binding yet. Return none for a member of a gang for which victims already make
    room: kube-scheduler may see them go later than the extender. Return none for a member whose
    gang has no plan and no quorum: room on one node does not start it.

    Leave out nodes where the pod would still have no room: they have pods that kube-scheduler has
    not seen, their room is kept for a gang that preempts, or they are outside the pod's domain.
    Leave out nodes whose victims would break a running gang of the same or a higher priority. Of
    the others, return the nodes whose victims break no running gang. If there are none, return
    those where each broken gang goes as a whole, so that none runs on below minMember; else all.

    If the pod's nominated node is among the nodes to return, return it alone: kube-scheduler has
    begun to evict there, and has perhaps not seen yet that it need not evict any more.
    """
    if pod is None:
        return _least_harm(victims, view)
    if view.bound_node(pod) is not None or pod.group in view.nominated:
        return ()
    if is_in_vain(pod, view=view):
        return ()
    near = {*victims}
    if pod.group is not None:
        near = {*topology.nodes_near(pod, pod.group, [*victims], view=view)}
    victims = {
        node: uids
        for node, uids in victims.items()
        if node in near
        and has_room_without(pod, node, uids, view=view)
        and not _is_kept(pod, node, uids, view=view)
        and not any(worth(each.pod, view) >= pod.priority for each in _broken(uids, view))
    }
    found = _least_harm(victims, view)
    return (pod.nominated,) if pod.nominated is not None and pod.nominated in found else found


def is_in_vain(pod: PodInfo, *, view: ClusterView) -> bool:
    """Return whether room on one node is of no use: the pod's gang cannot start with it alone."""
    if pod.group is None:
        return False
    pod_group = view.pod_group(pod.group)
    if pod_group is None:
        return True
    beside = view.tally(pod.group).committed - (view.reservation(pod.uid) is not None)
    return beside + 1 < view.quorum(pod_group)


def _is_kept(pod: PodInfo, name: str, victims: Collection[str], *, view: ClusterView) -> bool:
    """Return whether the room that victims would leave is kept for a gang that preempts."""
    node = view.nodes.get(name)
    if node is None or not view.is_nominated(name):
        return False
    if pod.group is None and is_exempt(pod, node, view=view):
        return False
    free = view.free(node, priority=pod.priority, without=pod.uid, group=pod.group)
    for uid in victims:
        if uid in view.pods_on(name):
            add(free, view.pods[uid].shape.requests)
    return not fits(pod.shape.requests, free)


class _Broken(NamedTuple):
    """A gang that has its quorum and would fall below minMember."""

    pod: PodInfo
    """One of the pods that it would lose."""
    left: int
    """The number of running members that it would keep."""


def _least_harm(victims: Mapping[str, Collection[str]], view: ClusterView) -> Collection[str]:
    """Return the nodes where no gang breaks; else those where all go whole; else all nodes."""
    broken = {node: _broken(uids, view) for node, uids in victims.items()}
    harmless = [node for node, gangs in broken.items() if not gangs]
    whole = [node for node, gangs in broken.items() if not any(each.left for each in gangs)]
    return harmless or whole or victims.keys()


def _broken(uids: Collection[str], view: ClusterView) -> list[_Broken]:
    """Return the running gangs that victims would break; pods that leave anyway do not count."""
    losses: dict[str, list[PodInfo]] = {}
    for uid in uids:
        pod = view.pods.get(uid)
        if pod is not None and pod.group is not None and not pod.terminating:
            losses.setdefault(pod.group, []).append(pod)
    broken = []
    for group, lost in losses.items():
        pod_group = view.pod_group(group)
        assigned = view.tally(group).assigned
        left = assigned - len(lost)
        if pod_group and assigned >= view.quorum(pod_group) > left:
            broken.append(_Broken(lost[0], left))
    return broken
