"""Pending pods that kube-scheduler is to place: those it has not judged yet, and plain ones."""

from collections import Counter
from collections.abc import Collection

from extender.state.cluster.records import PodInfo


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
        """By UID: what a pod is counted under."""
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
