"""A Workload follows the value of its WorkloadPriorityClass when that changes.

Source: Kueue writes a changed value into the Workloads of a class since 0.15.3
(https://github.com/kubernetes-sigs/kueue/pull/8442). A priority set by hand is kept until
the class changes, across restarts too, because an annotation keeps the value that was taken.
"""

from dataclasses import dataclass

from extender.api.values import value_taken
from extender.api.wellknown import PRIORITY_TAKEN
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView


@dataclass(frozen=True, slots=True)
class ClassPriority:
    """A priority that a Workload takes from its class."""

    value: int
    note: str
    """The annotation `PRIORITY_TAKEN` beside it."""


def decide(workload: WorkloadInfo, view: QueueView) -> ClassPriority | None:
    """Return the priority that a Workload is to take; None where it has taken it already.

    A Workload keeps its priority where its class is gone, or where it has finished itself.
    """
    if workload.finished or workload.meta.terminating:
        return None
    name = workload.workload_priority_class
    found = view.workload_priority_classes.get(name) if name else None
    if found is None:
        return None
    note = value_taken(found.name, found.value)
    if workload.meta.annotations.get(PRIORITY_TAKEN) == note:
        return None
    return ClassPriority(found.value, note)
