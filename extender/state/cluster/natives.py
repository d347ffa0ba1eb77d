"""Pods of native PodGroups, and the group that each is a member of here.

Where kube-scheduler schedules native groups itself, their pods are in no group here, whatever their
labels say. Where it does not, a pod is a member of the group that its label names. A pod without
such a label is a member of its native PodGroup, unless that has no gang policy.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.state.cluster.records import PodInfo


@dataclass(slots=True)
class Natives:
    """The facts about native gangs. Written by `Cluster` only."""

    ours: bool | None = None
    """True if the extender schedules them; None while that is not known."""
    fixed: bool = False
    """True if that is said by a setting, so that no condition changes it."""
    cycles: bool = False
    """True if kube-scheduler has written a condition to one: it tries groups as a whole."""
    basic: set[str] = field(default_factory=set)
    """Keys of the PodGroups without a gang policy."""
    pods: dict[str, PodInfo] = field(default_factory=dict)
    """The pods that name a native PodGroup, as they were decoded, by UID."""
    of: dict[str, dict[str, None]] = field(default_factory=dict)
    """The UIDs of these pods, by PodGroup."""

    def group(self, native: str, labelled: str | None) -> str | None:
        """Return the group that a pod of a native PodGroup is a member of here.

        `labelled` is the group that a label of the pod names.
        """
        if self.ours is False:
            return None
        if labelled is not None:
            return labelled
        return None if native in self.basic else native

    def take(self, pod: PodInfo) -> PodInfo:
        """Return a pod with its group; remember it for as long as it has not finished."""
        if pod.native is None:
            return pod
        if not pod.finished:
            self.pods[pod.uid] = pod
            self.of.setdefault(pod.native, {})[pod.uid] = None
        is_default = pod.group == pod.native and not _has_label(pod)
        group = self.group(pod.native, None if is_default else pod.group)
        return pod if group == pod.group else replace(pod, group=group)

    def forget(self, uid: str) -> None:
        """Forget a pod, which may be none of these."""
        pod = self.pods.pop(uid, None)
        if pod is None or pod.native is None:
            return
        there = self.of[pod.native]
        del there[uid]
        if not there:
            del self.of[pod.native]

    def members(self, key: str) -> Collection[str]:
        """Return the UIDs of the pods that name a PodGroup."""
        return [*self.of.get(key, ())]


def _has_label(pod: PodInfo) -> bool:
    """Return whether a label of a pod names a group."""
    return bool(pod.labels.get(POD_GROUP_LABEL) or pod.labels.get(POD_GROUP_LABEL_SIGS))
