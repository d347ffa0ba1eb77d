"""What the watches showed, event by event; times are of this machine's monotonic clock."""

import msgspec

from tests.bench.room.wire import PodEvent, WorkloadEvent

_ENDED = frozenset({"Succeeded", "Failed"})


class WorkloadSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Workload after one event."""

    time: float
    job: str
    admitted: bool = False
    waits: str = ""  # the reason for which it has no quota
    evicted: str = ""  # the reason
    finished: bool = False
    gone: bool = False


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a Job after one event."""

    time: float
    job: str
    uid: str
    name: str = ""
    bound: bool = False
    running: bool = False
    ended: bool = False
    gone: bool = False  # or on its way


Seen = WorkloadSeen | PodSeen


def of_workload(event: WorkloadEvent, now: float) -> WorkloadSeen:
    """Return what an event says."""
    workload = event.object
    return WorkloadSeen(
        time=now,
        job=workload.metadata.job,
        admitted=bool(workload.reason("Admitted")),
        waits=workload.reason("QuotaReserved", "False"),
        evicted=workload.reason("Evicted"),
        finished=bool(workload.reason("Finished")),
        gone=event.type == "DELETED",
    )


def of_pod(event: PodEvent, now: float) -> PodSeen:
    """Return what an event says."""
    pod = event.object
    return PodSeen(
        time=now,
        job=pod.metadata.job,
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        bound=bool(pod.spec.node_name),
        running=pod.status.phase == "Running",
        ended=pod.status.phase in _ENDED,
        gone=event.type == "DELETED" or pod.metadata.deletion_timestamp is not None,
    )
