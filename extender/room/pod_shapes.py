"""What pods are to a node: those of a pod set with its flavors, and those that run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from extender.fit.conflicts import AntiAffinityKey, PodShape
from extender.room.members import workloads_of
from extender.room.unplaced import PodSetCount
from extender.state.cluster.records import PodInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import FlavorInfo, PodSetInfo, WorkloadInfo
from extender.state.queue.view import QueueView


class PodShapes:
    """Equal pods of equal pod sets have one shape, as decoded pods have."""

    def __init__(self, queues: QueueView, cluster: ClusterView) -> None:
        self._queues, self._cluster = queues, cluster
        self._version = -1
        self._known: WeakKeyDictionary[Shape, dict[tuple[str, ...], Shape]] = WeakKeyDictionary()

    def of(self, workload: WorkloadInfo, counts: PodSetCount) -> PodShape:
        """Return the shape of pods with their flavors."""
        if self._version != self._queues.structure_version:
            self._version = self._queues.structure_version
            self._known.clear()
        names = tuple(sorted(set(counts.assignment.flavors.values())))
        shape = counts.pod_set.shape
        known = self._known.setdefault(shape, {})
        if names not in known:
            known[names] = _in_flavors(shape, list(self._flavors(names)))
        return PodShape(known[names], _anti_affinity_key(workload, counts.pod_set))

    def of_pod(self, pod: PodInfo) -> PodShape:
        """Return what a pod is: one of its workload's, or else of its group's."""
        if not pod.shape.one_per_node:
            return PodShape(pod.shape)
        there = self._queues.workloads
        keys = workloads_of(pod, self._queues, self._cluster)
        for workload in [there[key] for key in keys if key in there]:
            for each in workload.pod_sets:
                if each.shape.one_per_node and _is_of(pod, each):
                    return PodShape(pod.shape, _anti_affinity_key(workload, each))
        return PodShape(pod.shape, (pod.group, pod.shape) if pod.group else None)

    def _flavors(self, names: Sequence[str]) -> Iterator[FlavorInfo]:
        for name in names:
            if name in self._queues.flavors:
                yield self._queues.flavors[name]


def _anti_affinity_key(workload: WorkloadInfo, pod_set: PodSetInfo) -> AntiAffinityKey | None:
    """Return the key that pods from equal templates in a namespace share, where they have one."""
    shape = pod_set.shape
    return (workload.meta.namespace, shape) if shape.one_per_node else None


def _is_of(pod: PodInfo, pod_set: PodSetInfo) -> bool:
    if pod.pod_set is not None:
        return pod.pod_set == pod_set.name
    return pod.shape.requests == pod_set.shape.requests


def _in_flavors(shape: Shape, flavors: Sequence[FlavorInfo]) -> Shape:
    selector, tolerations = dict(shape.node_selector), dict.fromkeys(shape.tolerations)
    for flavor in flavors:
        selector.update(flavor.node_labels)
        tolerations.update(dict.fromkeys(flavor.tolerations))
    return replace(shape, node_selector=selector, tolerations=tuple(tolerations))
