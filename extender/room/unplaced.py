"""The pods of admitted workloads that have no node yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from extender.queueing.quota import leaves
from extender.room.members import declared, members
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import AdmissionInfo, Assignment, PodSetInfo, WorkloadInfo
from extender.state.queue.usage import remaining
from extender.state.queue.view import QueueView


@dataclass(frozen=True, slots=True)
class PodSetCount:
    """So many equal pods, and the flavors that they have."""

    pod_set: PodSetInfo
    assignment: Assignment
    count: int


def asked(
    workload: WorkloadInfo, given: Sequence[Assignment], done: Mapping[str, int]
) -> list[PodSetCount]:
    """Return all pods of an admission that have still to run: not those that are `done`."""
    by_name = {each.name: each for each in workload.pod_sets}
    return [
        PodSetCount(by_name[each.name], each, remaining(each, workload, done))
        for each in given
        if each.name in by_name
    ]


def unplaced(
    workload: WorkloadInfo,
    held: AdmissionInfo,
    *,
    done: Mapping[str, int],
    queues: QueueView,
    cluster: ClusterView,
) -> tuple[list[PodSetCount], bool]:
    """Return the pods of an admitted workload that have no node, and whether others have one.

    Those that are not made yet are among them. A workload that is evicted or deleted gets no more
    pods, but one that was evicted before and is being admitted again does; a pod that is being
    deleted gets a successor.
    """
    if leaves(workload) or workload.meta.terminating:
        return [], False
    wanted = asked(workload, held.assignments, done)
    there = _placed(declared(workload, cluster))
    left = _without(wanted, there)
    if left:
        there = _placed(members(workload, queues=queues, cluster=cluster))
        left = _without(wanted, there)
    return left, bool(there)


def _placed(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return [pod for pod in pods if pod.node is not None and not pod.terminating]


def _without(wanted: Sequence[PodSetCount], there: Sequence[PodInfo]) -> list[PodSetCount]:
    """Return what is wanted beside the pods that are there; of these the named ones count first."""
    left = [each.count for each in wanted]
    for is_one in (_is_named, _is_alike, _is_nameless):
        rest: list[PodInfo] = []
        for pod in there:
            sets = (n for n, each in enumerate(wanted) if left[n] and is_one(pod, each.pod_set))
            number = next(sets, None)
            if number is None:
                rest.append(pod)
            else:
                left[number] -= 1
        there = rest
    return [replace(each, count=n) for each, n in zip(wanted, left, strict=True) if n]


def _is_named(pod: PodInfo, pod_set: PodSetInfo) -> bool:
    return pod.pod_set == pod_set.name


def _is_alike(pod: PodInfo, pod_set: PodSetInfo) -> bool:
    return pod.pod_set is None and pod.shape.requests == pod_set.shape.requests


def _is_nameless(pod: PodInfo, _: PodSetInfo) -> bool:
    """Return whether a pod may be of any pod set: something changed what it asks for, perhaps."""
    return pod.pod_set is None
