"""Real Jobs through a queue: what is read of an event, and what a history comes to."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from extender.resources.quantity import CPU, amount
from tests.bench.jobs import manifests, sides
from tests.bench.jobs.driver import JobsDriver
from tests.bench.jobs.load import CLASS, Load
from tests.bench.jobs.measures import Event, JobSeen, measure, seen
from tests.bench.queue import controllers, measures
from tests.bench.queue.measures import Seen, Times
from tests.bench.queue.wire import JobEvent, WorkloadEvent

QUEUES = tuple(f"team-0-queue-{number}" for number in range(5))
REQUEST = 200
TRUE = {"status": "True"}
HELD = [{"type": "QuotaReserved", **TRUE}]
COMPLETE, FAILED = [{"type": "Complete", **TRUE}], [{"type": "Failed", **TRUE}]


def load(**changes: Any) -> Load:
    """Return twelve Jobs of 200m in all for five queues with quota for one each."""
    return Load(**{"jobs": 12, "pods": 2, "cohorts": 1, "quota": 1, **changes})


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


WHOLE: list[Event] = [
    job(10.0, "a"),
    workload(10.5, "a"),
    job(11.0, "b", queue=1),
    admitted(11.0, "a"),
    running(11.5, "a"),
    admitted(12.0, "b", queue=1),
    running(12.0, "b", queue=1),
    job(13.5, "a", complete=True),
    workload(13.5, "a"),
    job(15.0, "b", queue=1, complete=True),
]


def test_times_are_from_creation_and_from_admission() -> None:
    found = measure(WHOLE, load())

    assert (found.start, found.end) == (10.0, 15.0)
    assert (found.created, found.admitted, found.complete, found.failed) == (2, 2, 2, 0)
    assert found.to_admission == Times(2, 1.0, 1.0, 1.0)
    assert found.to_complete == Times(2, 3.75, 3.75, 4.0)
    assert found.running == Times(2, 2.75, 2.75, 3.0)
    assert (found.evictions, found.broken, found.violations) == (0, 0, ())
    # Two seconds of the first and three of the second, of five queues for five seconds.
    assert found.usage == pytest.approx((2.0 + 3.0) / (5 * 5.0))


def test_what_never_happened_has_no_time() -> None:
    found = measure([job(1.0), workload(1.5), job(3.0, "b"), job(4.0, "b", failed=True)], load())

    assert (found.created, found.admitted, found.complete, found.failed) == (2, 0, 0, 1)
    assert (found.to_admission, found.to_complete, found.running) == (None, None, None)
    assert (found.start, found.end, found.usage) == (1.0, 1.0, 0.0)
    assert measure([], load()).created == 0


def names(count: int) -> list[str]:
    return [f"job-{number}" for number in range(count)]


HELD_AND_USED: list[Event] = [
    *(admitted(1.0, name) for name in names(5)),
    *(running(2.0, name) for name in names(5)),
]
GIVEN_BACK: list[Event] = [
    running(3.0, "job-0", used=REQUEST // 2),
    admitted(3.0, "job-0", held=REQUEST // 2),
    job(3.5, "job-1", complete=True),
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
def test_quota_is_neither_held_nor_used_twice(history: Sequence[Event], want: list[str]) -> None:
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
    return seen(msgspec.convert(event, JobEvent), 7.0)


def seen_workload(kind: str = "MODIFIED", *, back: int = 0, **status: Any) -> Seen:
    assignment = {"name": "main", "count": 3, "resourceUsage": {"cpu": "450m"}}
    admission = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    reclaimable = [{"name": "main", "count": back}] if back else []
    whole = {"admission": admission, "reclaimablePods": reclaimable, **status}
    metadata = {"name": "job-a-1234", "ownerReferences": [{"kind": "Job", "name": "a"}]}
    found = {"metadata": metadata, "spec": {"queueName": "q"}, "status": whole}
    event = {"type": kind, "object": found}
    return measures.seen(msgspec.convert(event, WorkloadEvent), 7.0, kind=CLASS)


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
    assert (found.complete, found.failed) == ends


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


def test_all_jobs_are_suspended_and_in_a_queue_in_turn() -> None:
    jobs, quotas = list(manifests.jobs(load())), load(quota=3).quotas()

    assert [queue.name for queue in quotas.queues()] == list(QUEUES)
    assert {queue.settings.nominal_quota for queue in quotas.queues()} == {600}
    assert all(job["spec"]["suspend"] for job in jobs)
    by_queue = Counter(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for job in jobs)
    assert by_queue == dict(zip(QUEUES, (3, 3, 2, 2, 2), strict=True))
    (container,) = jobs[0]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"].keys() == {CPU}
    assert (
        jobs[0]["spec"]["completions"] * amount(CPU, container["resources"]["requests"][CPU]) == 200
    )


def test_the_nodes_have_room_for_twice_what_has_quota() -> None:
    large = load(quota=40, cohorts=2)
    nodes = list(manifests.nodes(large))

    cpu = sum(amount(CPU, node["status"]["allocatable"][CPU]) for node in nodes)
    assert cpu >= 2 * large.at_once * large.request
    assert sum(int(node["status"]["allocatable"]["pods"]) for node in nodes) >= 4 * large.at_once


@pytest.mark.parametrize(
    ("external", "both", "want"),
    [
        (False, False, [("ours", False), ("whole", True)]),
        (True, False, [("external", False)]),
        (True, True, [("ours", False), ("external", False), ("whole", True)]),
    ],
)
def test_only_ours_with_gangs_has_the_extender(
    external: bool, both: bool, want: list[tuple[str, bool]]
) -> None:
    other = controllers.external("sleep 1") if external else None
    found = sides.measured(None, other, both=both)

    assert [(side.key, side.extender) for side in found] == want


class Session:
    """Takes a while to store each Job, and remembers when it was asked to."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}

    @asynccontextmanager
    async def request(self, *_: str, data: bytes, headers: object) -> AsyncIterator[Any]:
        del headers
        name = json.loads(data)["metadata"]["name"]
        self.asked[name] = asyncio.get_running_loop().time()
        await asyncio.sleep(0.25)
        yield SimpleNamespace(ok=True, status=201, read=AsyncMock())


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("load", "want"),
    [
        # A slow API server holds up none that is due.
        pytest.param(Load(jobs=24, pods=1, rate=6), [n / 6 for n in range(24)], id="a rate"),
        pytest.param(
            Load(jobs=40, pods=1), [*[0.0] * 32, *[0.25] * 8], id="as fast as they are taken"
        ),
    ],
)
async def test_when_jobs_are_created(load: Load, want: list[float]) -> None:
    session: Any = Session()
    async with asyncio.TaskGroup() as tasks:
        await JobsDriver(session, tasks, load).create()

    asked = [at for _, at in sorted(session.asked.items())]
    assert asked == pytest.approx(want, abs=1e-3)
