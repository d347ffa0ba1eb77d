"""What pods are to a node: those of a pod set with its flavors, and those that run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from extender.room.members import workloads_of
from extender.room.occupied import Alone, Like
from extender.room.unplaced import Some
from extender.state.pods import PodInfo, Shape
from extender.state.queues.records import FlavorInfo, PodSetInfo, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot


class Kinds:
    """Equal pods of equal pod sets are one kind, as decoded ones are one shape."""

    def __init__(self, queues: QueueSnapshot, cluster: Snapshot) -> None:
        self._queues, self._cluster = queues, cluster
        self._version = -1
        self._known: WeakKeyDictionary[Shape, dict[tuple[str, ...], Shape]] = WeakKeyDictionary()

    def of(self, workload: WorkloadInfo, some: Some) -> Like:
        """Return what pods will be that are given flavors."""
        if self._version != self._queues.structure_version:
            self._version = self._queues.structure_version
            self._known.clear()
        names = tuple(sorted(set(some.given.flavors.values())))
        shape = some.pod_set.shape
        known = self._known.setdefault(shape, {})
        if names not in known:
            known[names] = _in_flavors(shape, list(self._flavors(names)))
        return Like(known[names], _alone(workload, some.pod_set))

    def of_pod(self, pod: PodInfo) -> Like:
        """Return what a pod is: one of its workload's, or else of its group's."""
        if not pod.shape.one_per_node:
            return Like(pod.shape)
        there = self._queues.workloads
        keys = workloads_of(pod, self._queues, self._cluster)
        for workload in [there[key] for key in keys if key in there]:
            for each in workload.pod_sets:
                if each.shape.one_per_node and _is_of(pod, each):
                    return Like(pod.shape, _alone(workload, each))
        return Like(pod.shape, (pod.group, pod.shape) if pod.group else None)

    def _flavors(self, names: Sequence[str]) -> Iterator[FlavorInfo]:
        for name in names:
            if name in self._queues.flavors:
                yield self._queues.flavors[name]


def _alone(workload: WorkloadInfo, pod_set: PodSetInfo) -> Alone | None:
    """Return whom a pod shuns: pods that are made from an equal template in the namespace."""
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
