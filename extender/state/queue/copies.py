"""A copy of all that the queues' state holds, and the state made again from a copy.

As of `state/cluster/copies.py`: it shares the records, so it takes milliseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.state.queue.events import Record
from extender.state.queue.records import AdmissionInfo, JobObject, WorkloadInfo
from extender.state.queue.view import QueueTables


@dataclass(frozen=True, slots=True)
class QueueCopy:
    """All that is believed of queues, each kind in the order in which it came."""

    records: Sequence[Record] = ()
    """All but workloads."""
    workloads: Sequence[WorkloadInfo] = ()
    jobs: Sequence[JobObject] = ()
    assumed: Mapping[str, AdmissionInfo] = field(default_factory=dict)
    """By workload: quota that is being written to the API server."""


def copied_queues(tables: QueueTables) -> QueueCopy:
    """Return a copy of the state as it is now."""
    found: list[Record] = []
    for table in (
        *(tables.flavors, tables.topologies, tables.cluster_queues, tables.cohorts),
        *(tables.local_queues, tables.namespaces, tables.priority_classes),
        *(tables.workload_priority_classes, tables.limit_ranges, tables.runtime_classes),
    ):
        found += table.values()
    return QueueCopy(
        found, [*tables.workloads.values()], [*tables.jobs.values()], {**tables.assumed}
    )
