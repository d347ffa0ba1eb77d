"""Which groups the new version of a pod concerns."""

from extender.api.wellknown import TOPOLOGY_GATE
from extender.state.cluster.records import PodInfo


def reported(before: PodInfo | None, pod: PodInfo) -> frozenset[str]:
    """Return the groups whose status may be another one with the new version of a pod."""
    groups = {pod.group, before.group if before else None} - {None}
    if before is not None and (
        (before.phase, before.ready, before.gang_ready, before.unschedulable, before.owners)
        == (pod.phase, pod.ready, pod.gang_ready, pod.unschedulable, pod.owners)
        and not touched(before, pod)
    ):
        return frozenset()
    return frozenset(group for group in groups if group)


def touched(before: PodInfo | None, pod: PodInfo) -> frozenset[str]:
    """Return the groups for which the new version of a pod makes a difference.

    Behind our gate a pod concerns its native group too, though it may be no member of that here.
    """
    if before is None:
        native = pod.native if pod.is_gated_by_us else None
        return frozenset(group for group in (pod.group, native) if group)
    was = (before.group, before.node, before.gates, before.terminating, before.shape)
    now = (pod.group, pod.node, pod.gates, pod.terminating, pod.shape)
    if was == now:
        return frozenset()
    native = pod.native if pod.is_gated_by_us else None
    return frozenset(group for group in (before.group, pod.group, native) if group)


def found_no_node(before: PodInfo | None, pod: PodInfo) -> frozenset[str]:
    """Return the pod's UID where its condition says so and did not before."""
    news = pod.unschedulable and (before is None or before.unschedulable != pod.unschedulable)
    return frozenset((pod.uid,)) if news else frozenset()


def gated(pod: PodInfo) -> frozenset[str]:
    """Return the workload of a pod that waits for the domain that it goes to."""
    waits = pod.workload is not None and TOPOLOGY_GATE in pod.gates and not pod.terminating
    return frozenset((pod.workload,)) if waits and pod.workload else frozenset()
