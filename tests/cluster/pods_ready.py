"""What the tests of pods that do not become ready have in common."""

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.queues import Queues

OWN: Final = "scheduling.x-k8s.io"
TIMEOUT: Final = f"{OWN}/pods-ready-timeout"
BASE: Final = f"{OWN}/pods-ready-backoff-base"
SECONDS: Final = 120


def status_of(queues: Queues, job: str) -> Mapping[str, Any]:
    """Return the status of a job's workload."""
    status: Mapping[str, Any] = (queues.workload(job) or {}).get("status", {})
    return status


def counts(queues: Queues, job: str) -> dict[tuple[str, str], int]:
    """Return how often a job's workload was evicted, by reason and cause."""
    found = status_of(queues, job).get("schedulingStats", {}).get("evictions", [])
    return {(each["reason"], each["underlyingCause"]): each["count"] for each in found}


def await_count(queues: Queues, job: str, least: int) -> None:
    """Wait until a job was sent back so many times."""

    def sent_back() -> bool:
        count: int = status_of(queues, job).get("requeueState", {}).get("count", 0)
        return count >= least

    queues.api.wait_for(f"{job} was sent back {least} times", sent_back, timeout=SECONDS)


def await_suspended(queues: Queues, job: str) -> None:
    """Wait until a job is suspended."""
    queues.api.wait_for(f"{job} is suspended", lambda: queues.is_suspended(job), timeout=SECONDS)
