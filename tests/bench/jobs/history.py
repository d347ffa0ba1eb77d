"""What the watches showed, event by event; times are of this machine's monotonic clock."""

import msgspec

from tests.bench.jobs.wire import JobEvent, WorkloadEvent


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Job after one event; amounts are thousandths of a core."""

    time: float
    job: str
    queue: str
    used: int = 0
    """By the pods that it may have running."""
    complete: bool = False
    failed: bool = False


class WorkloadSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The Workload of a Job after one event; amounts are thousandths of a core."""

    time: float
    job: str
    queue: str
    granted: int = 0
    held: int = 0
    """What is left of that."""
    held_in: str = ""
    """The ClusterQueue of its admission."""
    admitted: bool = False
    evicted: bool = False


Seen = JobSeen | WorkloadSeen


def of_job(event: JobEvent, now: float) -> JobSeen:
    """Return what an event says."""
    job = event.object
    return JobSeen(
        time=now,
        job=job.metadata.name,
        queue=job.queue,
        used=0 if event.type == "DELETED" else job.used,
        complete=job.is_true("Complete"),
        failed=job.is_true("Failed"),
    )


def of_workload(event: WorkloadEvent, now: float) -> WorkloadSeen:
    """Return what an event says. Of a Workload that was deleted nothing is left."""
    workload = event.object
    gone = event.type == "DELETED"
    return WorkloadSeen(
        time=now,
        job=workload.metadata.job,
        queue=workload.spec.queue_name,
        granted=0 if gone else workload.granted,
        held=0 if gone else workload.held,
        held_in=workload.held_in,
        admitted=workload.is_true("Admitted") and not gone,
        evicted=workload.is_true("Evicted"),
    )
