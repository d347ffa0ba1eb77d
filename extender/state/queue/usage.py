"""The quota that a workload takes."""

from collections.abc import Mapping
from typing import Final

from extender.state.queue.records import AdmissionInfo, Assignment, FlavorResource, WorkloadInfo

Usage = dict[FlavorResource, int]
_NONE: Final[Mapping[str, int]] = {}


def usage(admission: AdmissionInfo, workload: WorkloadInfo) -> Usage:
    """Return what an admission takes once the pods that are done are taken off (KEP-78).

    Pods are taken off what the workload asks for. It may have been given fewer: because some were
    done already, or because a part of its request is enough.
    """
    taken: Usage = {}
    for assignment in admission.assignments:
        left = remaining(assignment, workload) if workload.reclaimable else assignment.count
        for resource, amount in assignment.usage.items():
            flavor = assignment.flavors.get(resource)
            if flavor is None or not assignment.count or not amount * left:
                continue
            key = (flavor, resource)
            taken[key] = taken.get(key, 0) + amount * left // assignment.count
    return taken


def leaves(workload: WorkloadInfo) -> bool:
    """Return whether a workload has to give its quota back.

    One that was evicted before and is being admitted again has not: its status is not written yet.
    """
    return workload.evicted and workload.admission is not None


def remaining(
    assignment: Assignment, workload: WorkloadInfo, done: Mapping[str, int] = _NONE
) -> int:
    """Return how many of the pods that quota was given for have still to run.

    Pods that are `done` may have quota yet.
    """
    name = assignment.name
    asked = {each.name: each.count for each in workload.pod_sets}
    through = max(workload.reclaimable.get(name, 0), done.get(name, 0))
    return left_of(assignment.count, asked.get(name, assignment.count), through)


def left_of(given: int, asked: int, done: int) -> int:
    """Return how many pods have still to run of those that quota was given for.

    Those that are done are some of those that were asked for.
    """
    return max(0, min(given, asked - done))


def add(into: Usage, more: Mapping[FlavorResource, int], *, sign: int = 1) -> None:
    """Add in place, or subtract; what reaches zero is dropped."""
    for key, amount in more.items():
        left = into.get(key, 0) + sign * amount
        if left:
            into[key] = left
        else:
            into.pop(key, None)
