"""The groups that a new version of a pod concerns, and the pods that kube-scheduler is to place."""

from collections import Counter
from collections.abc import Collection

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


def is_fresh(pod: PodInfo) -> bool:
    """Return whether the API shows a pod as one that kube-scheduler is still to judge."""
    judged = pod.node is not None or pod.unschedulable is not None
    return not (judged or pod.gates or pod.terminating)


def is_plain(pod: PodInfo) -> bool:
    """Return whether a pod without a group waits for a node.

    One of a DaemonSet that found no room waits for its own node alone.
    """
    waits = pod.node is None and not (pod.gates or pod.terminating)
    return waits and pod.group is None and not (pod.only_node and pod.unschedulable is not None)


class PodsByPriority:
    """Pods, counted by scheduler and priority."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[str, int]] = {}
        """The scheduler and priority that a pod is counted under, by UID."""
        self.counts = Counter[tuple[str, int]]()

    def put(self, pod: PodInfo) -> None:
        """Count a pod, as it is now."""
        self.drop(pod.uid)
        under = self.of[pod.uid] = pod.scheduler, pod.priority
        self.counts[under] += 1

    def drop(self, uid: str) -> None:
        """Count a pod no more, if it is counted."""
        under = self.of.pop(uid, None)
        if under is not None:
            self.counts[under] -= 1
            if not self.counts[under]:
                del self.counts[under]

    def highest(self, schedulers: Collection[str]) -> int | None:
        """Return the highest priority among those of schedulers."""
        return max((n for scheduler, n in self.counts if scheduler in schedulers), default=None)
