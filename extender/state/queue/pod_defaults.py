"""What a namespace and the cluster add to the pods of a workload, before they are counted.

Sources: https://kubernetes.io/docs/concepts/policy/limit-range/ and KEP-688 (pod overhead).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from extender.state.queue.records import LimitInfo, PodSetInfo, RuntimeClassInfo, WorkloadInfo
from extender.state.queue.view import QueueTables

Complete = Callable[[PodSetInfo, Sequence[LimitInfo], Mapping[str, RuntimeClassInfo]], PodSetInfo]
"""Returns a pod set as its pods will be under these limits and with these RuntimeClasses."""


class PodDefaults:
    """Completes pod sets with what LimitRanges and RuntimeClasses give them."""

    def __init__(self, tables: QueueTables, complete: Complete | None) -> None:
        self._tables = tables
        self._complete = complete
        self._limits: dict[str, tuple[LimitInfo, ...]] = {}
        """By namespace."""

    def look_at(self, namespace: str) -> None:
        """Read the LimitRanges of a namespace anew."""
        ranges = self._tables.limit_ranges.values()
        mine = [each for each in ranges if each.meta.namespace == namespace]
        mine.sort(key=lambda each: each.meta.name)
        self._limits[namespace] = tuple(chain.from_iterable(each.items for each in mine))

    def completed(self, workload: WorkloadInfo) -> WorkloadInfo:
        """Return a workload with what its pods will ask for; the same one if that is nothing new.

        One that has ended needs no pods.
        """
        if self._complete is None or workload.finished:
            return workload
        limits = self._limits.get(workload.meta.namespace, ())
        classes = self._tables.runtime_classes
        pod_sets = tuple(self._complete(each, limits, classes) for each in workload.pod_sets)
        return workload if pod_sets == workload.pod_sets else replace(workload, pod_sets=pod_sets)
