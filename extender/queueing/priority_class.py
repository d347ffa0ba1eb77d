"""A Workload follows the value of its WorkloadPriorityClass when that changes.

Source: Kueue writes a changed value into the Workloads of a class since 0.15.3
(https://github.com/kubernetes-sigs/kueue/pull/8442). A priority that was set by hand stays until
the class changes, across restarts too: Workloads say which value they took.
"""

from dataclasses import dataclass

from extender.api.class_values import value_taken
from extender.api.wellknown import PRIORITY_TAKEN
from extender.state.queues.records import WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot


@dataclass(frozen=True, slots=True)
class Taken:
    """A priority that a Workload takes from its class."""

    value: int
    note: str
    """The annotation `PRIORITY_TAKEN` beside it."""


def decide(workload: WorkloadInfo, snapshot: QueueSnapshot) -> Taken | None:
    """Return the priority that a Workload is to take; None where it has taken that one already.

    A Workload of a class that is gone keeps what it has, and so does one that has ended.
    """
    if workload.finished or workload.meta.terminating:
        return None
    name = workload.workload_priority_class
    found = snapshot.workload_priority_classes.get(name) if name else None
    if found is None:
        return None
    note = value_taken(found.name, found.value)
    if workload.meta.annotations.get(PRIORITY_TAKEN) == note:
        return None
    return Taken(found.value, note)
