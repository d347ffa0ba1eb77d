"""What is read of an event."""

from typing import Any

import msgspec
import pytest

from tests.bench.jobs import history
from tests.bench.jobs.history import JobSeen, WorkloadSeen
from tests.bench.jobs.wire import JobEvent, WorkloadEvent

TRUE: dict[str, Any] = {"status": "True"}
HELD = [{"type": "QuotaReserved", **TRUE}]


def _job(kind: str = "MODIFIED", *, suspend: bool = False, **status: Any) -> JobSeen:
    container = {"resources": {"requests": {"cpu": "150m"}}}
    spec = {
        "parallelism": 3,
        "completions": 3,
        "suspend": suspend,
        "template": {"spec": {"containers": [container]}},
    }
    metadata = {"name": "a", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    event = {"type": kind, "object": {"metadata": metadata, "spec": spec, "status": status}}
    return history.of_job(msgspec.convert(event, JobEvent), 7.0)


def _workload(kind: str = "MODIFIED", *, back: int = 0, **status: Any) -> WorkloadSeen:
    assignment = {"name": "main", "count": 3, "resourceUsage": {"cpu": "450m"}}
    admission = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    reclaimable = [{"name": "main", "count": back}] if back else []
    whole = {"admission": admission, "reclaimablePods": reclaimable, **status}
    owner = {"kind": "Job", "name": "a"}
    metadata = {"name": "job-a-1234", "ownerReferences": [owner]}
    found = {"metadata": metadata, "spec": {"queueName": "q"}, "status": whole}
    event = {"type": kind, "object": found}
    return history.of_workload(msgspec.convert(event, WorkloadEvent), 7.0)


def test_a_job_that_runs_uses_the_quota_of_what_is_not_done() -> None:
    assert _job() == JobSeen(time=7.0, job="a", queue="q", used=450)
    assert _job(succeeded=2).used == 150


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(_job(suspend=True), id="suspended"),
        pytest.param(_job(conditions=[{"type": "Complete", **TRUE}]), id="complete"),
        pytest.param(_job(conditions=[{"type": "Failed", **TRUE}]), id="failed"),
        pytest.param(_job("DELETED"), id="deleted"),
    ],
)
def test_a_job_that_does_not_run_uses_nothing(seen: JobSeen) -> None:
    assert seen.used == 0


def test_the_end_of_a_job() -> None:
    done = _job(conditions=[{"type": "Complete", **TRUE}])
    failed = _job(conditions=[{"type": "Failed", **TRUE}])

    assert [(each.complete, each.failed) for each in (_job(), done, failed)] == [
        (False, False),
        (True, False),
        (False, True),
    ]


def test_a_workload_holds_its_admission_without_what_it_gave_back() -> None:
    seen = _workload(conditions=HELD, back=1)

    assert (seen.job, seen.queue, seen.held_in) == ("a", "q", "q")
    assert (seen.granted, seen.held) == (450, 300)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(_workload(conditions=[]), id="not reserved"),
        pytest.param(_workload(conditions=[*HELD, {"type": "Finished", **TRUE}]), id="finished"),
        pytest.param(_workload("DELETED", conditions=HELD), id="deleted"),
        pytest.param(_workload(conditions=HELD, admission=None), id="no admission"),
    ],
)
def test_a_workload_without_quota_holds_nothing(seen: WorkloadSeen) -> None:
    assert (seen.granted, seen.held) == (0, 0)


def test_admissions_and_evictions() -> None:
    admitted = _workload(conditions=[*HELD, {"type": "Admitted", **TRUE}])
    evicted = _workload(conditions=[*HELD, {"type": "Evicted", **TRUE}])

    assert (admitted.admitted, admitted.evicted) == (True, False)
    assert (evicted.admitted, evicted.evicted) == (False, True)
