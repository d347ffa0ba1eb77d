"""The state made again from a copy, by the events that lead to it."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from extender.state.cluster import events as ev
from extender.state.cluster.copies import ClusterCopy, UnseenPod
from extender.state.cluster.events import Event
from extender.state.cluster.records import (
    NodeInfo,
    NominatedRoom,
    PodInfo,
    PreemptedRoom,
    VictimInfo,
)
from extender.state.cluster.reservations import Reservation, ReservationKind, VictimsRoom
from extender.state.cluster.store import Cluster


def restored(copy: ClusterCopy) -> Cluster:
    """Return a state that believes what a copy says."""
    cluster = Cluster()
    for event in _events(copy):
        cluster.apply(event)
    # A PodGroup says still what its group was granted, where that has ended since.
    ended = cluster.view().grants.keys() - {*copy.grants}
    if ended:
        cluster.apply(ev.GrantsEnded(sorted(ended)))
    return cluster


def _events(copy: ClusterCopy) -> Iterator[Event]:
    known = {node.name for node in copy.nodes}
    # A node may have gone while a pod was bound to it.
    gone = sorted({each.node for each in copy.unseen} - known)
    yield from map(ev.NodeApplied, [*copy.nodes, *map(NodeInfo, gone)])
    yield from map(ev.PodGroupApplied, copy.pod_groups)
    if copy.natives is not None:  # later than their conditions, which may be older
        yield copy.natives
    yield from map(ev.BatchJobApplied, copy.jobs)
    yield from map(ev.WorkloadApplied, copy.workloads)
    yield from map(ev.BudgetApplied, copy.budgets)
    yield from map(ev.PodApplied, copy.ended)
    yield from _pods(copy)
    yield from map(ev.NodeDeleted, gone)
    yield ev.AllUnseen(copy.all_unseen)
    yield from _reserved(copy)
    yield from (ev.PodRefused(each.pod, each.reason) for each in copy.refused)
    yield from (ev.GroupFailed(group, at) for group, at in copy.failed_at.items())
    yield ev.Claimed(copy.claims)
    yield from map(_nominated, copy.nominated)


def _pods(copy: ClusterCopy) -> Iterator[Event]:
    """Yield the pods; unseen ones as they were bound, and then as they are."""
    unseen, seen = {each.before.uid: each for each in copy.unseen}, copy.seen
    # Those that were shown before a list began came first.
    listing = any(seen.values())
    for pod in copy.in_order():
        if listing and seen.get(pod.uid) is False:
            listing = False
            yield ev.PodsListing()
        yield from _pod(pod, unseen.get(pod.uid), is_seen=pod.uid in seen)
    if listing:
        yield ev.PodsListing()
    for each in copy.unseen:
        yield ev.PodApplied(copy.pods[each.before.uid])


def _pod(pod: PodInfo, unseen: UnseenPod | None, *, is_seen: bool) -> Iterator[Event]:
    if unseen is not None:
        placements = {pod.uid: unseen.node}
        yield ev.PodApplied(unseen.before)
        yield ev.Planned(placements)
        yield ev.BoundAhead(placements)
    else:
        yield ev.PodSeen(pod) if is_seen else ev.PodApplied(pod)


def _reserved(copy: ClusterCopy) -> Iterator[Event]:
    for kind, some in groupby(copy.reserved, key=lambda each: each.kind):
        yield from _of_kind(kind, [*some], copy.pods)


def _of_kind(
    kind: ReservationKind, some: list[Reservation], pods: Mapping[str, PodInfo]
) -> Iterator[Event]:
    if kind is ReservationKind.PLANNED:
        yield ev.Planned({each.owner: each.node for each in some})
    for each in some:
        if kind is ReservationKind.WAITING:
            yield ev.PodWaiting(pods[each.owner], each.node)
        elif kind is ReservationKind.BINDING:
            yield ev.PodBinding(pods[each.owner], each.node)


def _nominated(room: VictimsRoom) -> Event:
    rooms = {node: NominatedRoom((), {**amounts}) for node, amounts in room.amounts.items()}
    victims = (VictimInfo("Pod", "", tuple(sorted(room.victims))),)
    return ev.Nominated(room.owner, PreemptedRoom(0.0, rooms, victims), room.priority)
