"""Real Jobs through a queue: what is read of an event, and what a history comes to."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.bench.queue import measures
from tests.bench.queue.jobs import CLASS, JobsLoad
from tests.bench.queue.load import Load
from tests.bench.queue.measures import JobSeen, Seen, Times, measure, seen_of_job
from tests.bench.queue.wire import JobEvent, WorkloadEvent

QUEUES = tuple(f"team-0-queue-{number}" for number in range(5))
REQUEST = 200
TRUE = {"status": "True"}
HELD = [{"type": "QuotaReserved", **TRUE}]
COMPLETE, FAILED = [{"type": "Complete", **TRUE}], [{"type": "Failed", **TRUE}]


def load(**changes: Any) -> Load:
    """Return twelve Jobs of 200m in all for five queues with quota for one each."""
    return JobsLoad(**{"jobs": 12, "pods": 2, "cohorts": 1, "quota": 1, **changes}).quotas()


def job(time: float, name: str = "a", *, queue: int = 0, **changes: Any) -> JobSeen:
    """Return a Job that is suspended."""
    return JobSeen(time=time, name=name, queue=QUEUES[queue], **changes)


def running(time: float, name: str = "a", *, queue: int = 0, used: int = REQUEST) -> JobSeen:
    return job(time, name, queue=queue, used=used)


def workload(time: float, name: str = "a", *, queue: int = 0, **changes: Any) -> Seen:
    """Return a Workload that waits."""
    return Seen(time=time, name=name, kind=CLASS, queue=QUEUES[queue], **changes)


def admitted(time: float, name: str = "a", *, queue: int = 0, **changes: Any) -> Seen:
    """Return a Workload that holds its quota in its queue."""
    fields = {"granted": REQUEST, "held": REQUEST, "held_in": QUEUES[queue], "admitted": True}
    return workload(time, name, queue=queue, **{**fields, **changes})


WHOLE: list[Seen | JobSeen] = [
    job(10.0, "a"),
    workload(10.5, "a"),
    job(11.0, "b", queue=1),
    admitted(11.0, "a"),
    running(11.5, "a"),
    admitted(12.0, "b", queue=1),
    running(12.0, "b", queue=1),
    job(13.5, "a", finished=True),
    workload(13.5, "a"),
    job(15.0, "b", queue=1, finished=True),
]


def test_times_are_from_creation_and_from_admission() -> None:
    found = measure(WHOLE, load())

    assert (found.start, found.end) == (10.0, 15.0)
    assert (found.created, found.admitted, found.finished, found.failed) == (2, 2, 2, 0)
    assert found.waits == {
        "job, created to admitted": Times(2, 1.0, 1.0, 1.0),
        "job, created to finished": Times(2, 3.75, 3.75, 4.0),
        "job, admitted to finished": Times(2, 2.75, 2.75, 3.0),
    }
    assert (found.evictions, found.broken, found.violations) == (0, 0, ())
    # Half a second of one Job until the last admission, of five queues for two seconds.
    assert found.usage == pytest.approx(0.5 / (5 * 2.0))


def names(count: int) -> list[str]:
    return [f"job-{number}" for number in range(count)]


HELD_AND_USED: list[Seen | JobSeen] = [
    *(admitted(1.0, name) for name in names(5)),
    *(running(2.0, name) for name in names(5)),
]
GIVEN_BACK: list[Seen | JobSeen] = [
    running(3.0, "job-0", used=REQUEST // 2),
    admitted(3.0, "job-0", held=REQUEST // 2),
    job(3.5, "job-1", finished=True),
    workload(3.5, "job-1"),
]


@pytest.mark.parametrize(
    ("history", "want"),
    [
        pytest.param(HELD_AND_USED, [], id="a queue may have all of its cohort"),
        pytest.param(
            [admitted(1.0, name) for name in names(6)],
            ["team-0 holds 1200m of 1000m with job-5"],
            id="one more is held",
        ),
        pytest.param(
            [running(1.0, name) for name in names(6)],
            ["Jobs: team-0 holds 1200m of 1000m with job-5"],
            id="one more is started",
        ),
        pytest.param(
            [*HELD_AND_USED, *GIVEN_BACK, admitted(4.0, "job-5"), running(4.0, "job-5")],
            [],
            id="what is given back or done can be used again",
        ),
    ],
)
def test_quota_is_neither_held_nor_used_twice(
    history: Sequence[Seen | JobSeen], want: list[str]
) -> None:
    found = measure(history, load())
    assert (list(found.violations), found.broken) == (want, len(want))


def seen_job(kind: str = "MODIFIED", *, suspend: bool = False, **status: Any) -> JobSeen:
    container = {"resources": {"requests": {"cpu": "150m"}}}
    spec = {
        "parallelism": 3,
        "completions": 3,
        "suspend": suspend,
        "template": {"spec": {"containers": [container]}},
    }
    metadata = {"name": "a", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    event = {"type": kind, "object": {"metadata": metadata, "spec": spec, "status": status}}
    return seen_of_job(msgspec.convert(event, JobEvent), 7.0)


def seen_workload(kind: str = "MODIFIED", *, back: int = 0, **status: Any) -> Seen:
    assignment = {"name": "main", "count": 3, "resourceUsage": {"cpu": "450m"}}
    admission = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    reclaimable = [{"name": "main", "count": back}] if back else []
    whole = {"admission": admission, "reclaimablePods": reclaimable, **status}
    metadata = {"name": "job-a-1234", "ownerReferences": [{"kind": "Job", "name": "a"}]}
    found = {"metadata": metadata, "spec": {"queueName": "q"}, "status": whole}
    event = {"type": kind, "object": found}
    return measures.seen(msgspec.convert(event, WorkloadEvent), 7.0)


@pytest.mark.parametrize(
    ("found", "used", "ends"),
    [
        pytest.param(seen_job(), 450, (False, False), id="runs"),
        pytest.param(seen_job(succeeded=2), 150, (False, False), id="two pods are done"),
        pytest.param(seen_job(suspend=True), 0, (False, False), id="suspended"),
        pytest.param(seen_job(conditions=COMPLETE), 0, (True, False), id="complete"),
        pytest.param(seen_job(conditions=FAILED), 0, (False, True), id="failed"),
        pytest.param(seen_job("DELETED"), 0, (False, False), id="deleted"),
    ],
)
def test_a_job_uses_the_quota_of_what_is_not_done(
    found: JobSeen, used: int, ends: tuple[bool, bool]
) -> None:
    assert (found.name, found.queue, found.used) == ("a", "q", used)
    assert (found.finished, found.failed) == ends


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(seen_workload(conditions=HELD, back=1), (450, 300), id="one gave back"),
        pytest.param(seen_workload(conditions=[]), (0, 0), id="not reserved"),
        pytest.param(
            seen_workload(conditions=[*HELD, {"type": "Finished", **TRUE}]), (0, 0), id="finished"
        ),
        pytest.param(seen_workload("DELETED", conditions=HELD), (0, 0), id="deleted"),
        pytest.param(seen_workload(conditions=HELD, admission=None), (0, 0), id="no admission"),
    ],
)
def test_a_workload_holds_its_admission_without_what_it_gave_back(
    found: Seen, want: tuple[int, int]
) -> None:
    assert (found.name, found.queue) == ("a", "q")
    assert (found.granted, found.held) == want
