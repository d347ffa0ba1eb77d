"""How much room may be kept for an admitted workload, and for how long.

Never more than its pods ask for, and no longer than the workload is admitted and without pods on
nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from extender.jobs.gang import made_for
from extender.resources.quantity import Resources
from extender.room.members import declared
from extender.room.unplaced import PodSetCount, asked
from extender.state.cluster.records import LONGEST_SECONDS, Grant, PodGroupInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

OTHER_GROUP: Final = "its pods have another PodGroup"


def within(
    rooms: Mapping[str, Mapping[str, int]], asked: Iterable[PodSetCount]
) -> Mapping[str, Resources]:
    """Return amounts by node, node after node, as far as the pods that still run ask for them."""
    left: Resources = {}
    for counts in asked:
        for name, value in counts.pod_set.shape.requests.items():
            left[name] = left.get(name, 0) + value * counts.count
    kept: dict[str, Resources] = {}
    for node, amounts in rooms.items():
        part = {name: min(value, left.get(name, 0)) for name, value in amounts.items()}
        for name, value in part.items():
            left[name] = left.get(name, 0) - value
        part = {name: value for name, value in part.items() if value > 0}
        if part:
            kept[node] = part
    return kept


def why_over(
    pod_group: PodGroupInfo, *, cluster: ClusterView, queues: QueueView, now: float
) -> str | None:
    """Return in a few words why the room granted to a PodGroup has ended, None while it holds.

    `now` is in seconds since the epoch.
    """
    grant = pod_group.grant
    if grant is None or not now < grant.until <= now + LONGEST_SECONDS:
        return "its time is over"
    if cluster.tally(pod_group.key).assigned:
        return "the group has pods on nodes"
    backing = backing_of(pod_group, queues)
    if backing is None:
        return "no admitted Workload asks for it"
    if any(pod.group not in (None, pod_group.key) for pod in declared(backing, cluster)):
        return OTHER_GROUP
    return None if _is_asked_for(grant, backing) else "its Workload asks for less"


def backing_of(pod_group: PodGroupInfo, queues: QueueView) -> WorkloadInfo | None:
    """Return the admitted Workload that a PodGroup was made for."""
    own = pod_group.key
    found = queues.workloads.get(own)
    if found is None:  # a long name is shortened
        held = (key for key in queues.holders() if made_for(key) == own)
        found = next((queues.workloads[key] for key in held), None)
    if found is None or not found.admitted or found.admission is None or not found.active:
        return None
    return None if found.finished or found.evicted or found.meta.terminating else found


def _is_asked_for(grant: Grant, workload: WorkloadInfo) -> bool:
    held = workload.admission
    every = asked(workload, held.assignments, {}) if held is not None else ()
    kept = within(grant.rooms, every)
    rooms = {node: {n: v for n, v in each.items() if v} for node, each in grant.rooms.items()}
    return kept == {node: amounts for node, amounts in rooms.items() if amounts}
