"""Makers of loads and of histories: what a test does not say has a plain default."""

from typing import Any

from tests.bench.room import load as loads
from tests.bench.room.history import PodSeen, WorkloadSeen
from tests.bench.room.load import Load


def document(**changes: Any) -> dict[str, Any]:
    """Return two empty nodes and two half full ones: 12 CPU free; wide gangs of 2, small Jobs."""
    wide = {"className": "wide", "pods": 2, "cpu": 4, "runtimeMs": 3000, "waiting": 1}
    small = {"className": "small", "pods": 1, "cpu": 1, "runtimeMs": 1000, "waiting": 2}
    return {
        "nodes": [
            {"className": "empty", "count": 2, "cpu": 4},
            {"className": "half", "count": 2, "cpu": 4, "used": 2},
        ],
        "quota": 16,
        "classes": [wide, small],
        "podsReadyTimeoutSeconds": 5,
        "backoffBaseSeconds": 1,
        "agingSeconds": 3,
        "windowSeconds": 10,
        "waitedSeconds": 2,
        "mostJobs": 100,
        **changes,
    }


def load(**changes: Any) -> Load:
    return loads.parse(document(**changes))


def workload(time: float, job: str = "wide-0", **changes: Any) -> WorkloadSeen:
    """Return a Workload that waits."""
    return WorkloadSeen(time=time, job=job, **changes)


def admitted(time: float, job: str = "wide-0") -> WorkloadSeen:
    return workload(time, job, admitted=True)


def evicted(time: float, job: str = "wide-0", reason: str = "PodsReadyTimeout") -> WorkloadSeen:
    """Return one that is evicted, and still admitted."""
    return workload(time, job, admitted=True, evicted=reason)


def finished(time: float, job: str = "wide-0") -> WorkloadSeen:
    return workload(time, job, admitted=True, finished=True)


def pod(time: float, number: int = 0, job: str = "wide-0", **changes: Any) -> PodSeen:
    """Return a pod that has no node."""
    return PodSeen(time=time, job=job, uid=f"{job}/{number}", **changes)


def bound(time: float, number: int = 0, job: str = "wide-0", **changes: Any) -> PodSeen:
    return pod(time, number, job, bound=True, **changes)
