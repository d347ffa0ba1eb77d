"""Makers of loads, histories and results: what a test does not say has a plain default."""

from typing import Any

from tests.bench.jobs.history import JobSeen, WorkloadSeen
from tests.bench.jobs.load import Load
from tests.bench.jobs.measures import Measures, Times
from tests.bench.jobs.runs import Result

QUEUES = tuple(f"team-0-queue-{number}" for number in range(5))
REQUEST = 200


def load(**changes: Any) -> Load:
    """Return twelve Jobs of 200m in all for five queues with quota for one each."""
    return Load(**{"jobs": 12, "pods": 2, "cohorts": 1, "quota": 1, **changes})


def job(time: float, name: str = "a", *, queue: int = 0, **changes: Any) -> JobSeen:
    """Return a Job that is suspended."""
    return JobSeen(time=time, job=name, queue=QUEUES[queue], **changes)


def running(time: float, name: str = "a", *, queue: int = 0, used: int = REQUEST) -> JobSeen:
    return job(time, name, queue=queue, used=used)


def complete(time: float, name: str = "a", *, queue: int = 0) -> JobSeen:
    return job(time, name, queue=queue, complete=True)


def workload(time: float, name: str = "a", *, queue: int = 0, **changes: Any) -> WorkloadSeen:
    """Return a Workload that waits."""
    return WorkloadSeen(time=time, job=name, queue=QUEUES[queue], **changes)


def admitted(time: float, name: str = "a", *, queue: int = 0, **changes: Any) -> WorkloadSeen:
    """Return a Workload that holds its quota in its queue."""
    fields = {"granted": REQUEST, "held": REQUEST, "held_in": QUEUES[queue], "admitted": True}
    return workload(time, name, queue=queue, **{**fields, **changes})


def measures(**changes: Any) -> Measures:
    fields: dict[str, Any] = {
        "start": 100.0,
        "end": 104.0,
        "created": 12,
        "admitted": 12,
        "complete": 12,
        "failed": 0,
        "evictions": 1,
        "to_admission": Times(12, 0.5, 1.5),
        "to_complete": Times(12, 2.0, 3.0),
        "running": Times(12, 1.25, 1.75),
        "usage": 0.75,
        "broken": 0,
        "violations": (),
    }
    return Measures(**{**fields, **changes})


def result(side: str = "ours", repeat: int = 1, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "side": side,
        "title": {"ours": "gang-extender"}.get(side, side),
        "repeat": repeat,
        "jobs": 12,
        "measures": measures(),
        "writes": {"PATCH workloads/status": 24, "POST events": 6},
        "reads": {"GET jobs": 6},
        "cpu_seconds": {"controller": 1.5, "apiserver": 4.0},
        "peak_mib": {"controller": 90.0},
    }
    return Result(**{**fields, **changes})
