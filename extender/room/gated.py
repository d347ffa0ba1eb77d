"""Pods that wait behind the gate of a topology, and the domain that each of them goes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.api.wellknown import TOPOLOGY_GATE
from extender.gang.assigned import domains_of
from extender.room.members import declared
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.topology import Domain


@dataclass(frozen=True, slots=True)
class Opened:
    """A pod that may go, and where."""

    pod: PodInfo
    domain: Domain
    selector: Mapping[str, str]
    """The labels of the nodes of its domain."""


def due(
    workload: WorkloadInfo, *, cluster: ClusterView, given: Mapping[str, Domain]
) -> Sequence[Opened]:
    """Return the gated pods of an admitted workload that have a domain, each with its own.

    `given` are the domains, by UID, of pods whose gate was removed and may be seen still.
    """
    held = workload.admission
    if held is None or not workload.admitted or workload.evicted or workload.finished:
        return ()
    assigned = {each.name: each.topology for each in held.assignments if each.topology is not None}
    pods = [pod for pod in declared(workload, cluster) if not pod.terminating]
    waiting = [pod for pod in pods if is_gated(pod) and pod.uid not in given]
    waiting.sort(key=lambda pod: (pod.index or 0, pod.created, pod.name))
    if not waiting:
        return ()
    others = [pod for pod in pods if not is_gated(pod) or pod.uid in given]
    found = domains_of(waiting, assigned, others=others, view=cluster, given=given)
    return [
        Opened(pod, found[pod.uid], assigned[pod.pod_set or ""].selector(found[pod.uid]))
        for pod in waiting
        if pod.uid in found
    ]


def is_gated(pod: PodInfo) -> bool:
    """Return whether a pod waits behind the gate of a topology."""
    return TOPOLOGY_GATE in pod.gates
