"""Pods that are admitted and have no node yet: room that is spoken for."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from extender.jobs.gang import group_of
from extender.state.pods import PodInfo
from extender.state.queues.records import Admission, Assignment, PodSetInfo, WorkloadInfo
from extender.state.queues.usage import remaining
from extender.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Some:
    """So many equal pods, and the flavors that they have."""

    pod_set: PodSetInfo
    given: Assignment
    count: int


def asked(
    workload: WorkloadInfo, given: tuple[Assignment, ...], done: Mapping[str, int]
) -> list[Some]:
    """Return all pods of an admission that have still to run: not those that are `done`."""
    by_name = {each.name: each for each in workload.pod_sets}
    return [
        Some(by_name[each.name], each, remaining(each, workload, done))
        for each in given
        if each.name in by_name
    ]


def unplaced(
    workload: WorkloadInfo, held: Admission, cluster: Snapshot, *, done: Mapping[str, int]
) -> list[Some]:
    """Return the pods of an admitted workload that have no node, made or not made yet.

    One that is evicted or deleted gets no more pods; a pod that is being deleted gets a successor.
    """
    if workload.evicted or workload.meta.terminating:
        return []
    wanted = asked(workload, held.assignments, done)
    there = [pod for pod in pods_of(workload, cluster) if _has_room(pod, cluster)]
    if len(there) >= sum(each.count for each in wanted):
        return []
    return _without(wanted, there)


def pods_of(workload: WorkloadInfo, cluster: Snapshot) -> Iterator[PodInfo]:
    """Yield the pods that there are: those of its job, else the members of its group."""
    uids = {uid for owner in workload.owners for uid in cluster.controlled_by(owner.uid)}
    uids |= {owner.uid for owner in workload.owners if owner.uid in cluster.pods}
    if not uids:
        # Jobs that make their pods by other objects are known by their group alone.
        return cluster.members(group_of(workload))
    return (cluster.pods[uid] for uid in uids)


def _has_room(pod: PodInfo, cluster: Snapshot) -> bool:
    held = pod.node is not None or cluster.assumption(pod.uid) is not None
    return held and not pod.terminating


def _without(wanted: list[Some], there: list[PodInfo]) -> list[Some]:
    """Take pods off the pod set that asks for the same; whoever changed one, off any."""
    shapes = Counter(tuple(sorted(pod.shape.requests.items())) for pod in there)
    left: list[Some] = []
    for each in wanted:
        shape = tuple(sorted(each.pod_set.shape.requests.items()))
        taken = min(each.count, shapes[shape])
        shapes[shape] -= taken
        left.append(Some(each.pod_set, each.given, each.count - taken))
    strange = shapes.total()
    for number, each in enumerate(left):
        taken = min(each.count, strange)
        strange -= taken
        left[number] = Some(each.pod_set, each.given, each.count - taken)
    return [each for each in left if each.count]
