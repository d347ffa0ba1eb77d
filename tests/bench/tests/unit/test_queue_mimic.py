"""What a Workload needs, and what is written then."""

from typing import Any

import msgspec
import pytest

from tests.bench.queue import manifests, measures, mimic
from tests.bench.queue.mimic import Step
from tests.bench.queue.wire import Workload, WorkloadEvent
from tests.bench.tests.unit.queue_makers import QUEUES, load

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
ADMITTED = {"QuotaReserved": True, "Admitted": True}
PREEMPTED = {**ADMITTED, "Evicted": True}


def _workload(conditions: dict[str, bool], *, why: str = "Preempted") -> Workload:
    body: dict[str, Any] = manifests.workload("w", QUEUES[0], load().classes()["small"])
    body["metadata"]["resourceVersion"] = "7"
    body["status"] = {
        "conditions": [
            {
                "type": name,
                "status": str(status),
                "reason": why if name == "Evicted" else name,
                "message": "",
                "lastTransitionTime": THEN,
                "observedGeneration": 3,
            }
            for name, status in conditions.items()
        ],
        "admission": {
            "clusterQueue": QUEUES[0],
            "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "1"}, "count": 1}],
        },
    }
    return msgspec.convert(body, Workload)


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param({}, Step.WAIT, id="new"),
        pytest.param({"QuotaReserved": True}, Step.WAIT, id="reserved and not admitted"),
        pytest.param(ADMITTED, Step.RUN, id="admitted"),
        pytest.param({**ADMITTED, "Evicted": False}, Step.RUN, id="admitted again"),
        pytest.param(PREEMPTED, Step.RELEASE, id="evicted"),
        pytest.param({"QuotaReserved": True, "Evicted": True}, Step.RELEASE, id="before admission"),
        pytest.param({"QuotaReserved": False, "Evicted": True}, Step.WAIT, id="released"),
        pytest.param({**PREEMPTED, "Finished": True}, Step.FORGET, id="finished all the same"),
    ],
)
def test_the_next_step_follows_from_the_conditions(conditions: dict[str, bool], want: Step) -> None:
    assert mimic.step(_workload(conditions)) is want


@pytest.mark.parametrize(
    ("why", "again"),
    [
        pytest.param("Preempted", "True", id="preempted"),
        pytest.param("ClusterQueueStopped", "False", id="stopped"),
    ],
)
def test_releasing_clears_the_admission_of_the_version_that_was_seen(why: str, again: str) -> None:
    patch = msgspec.json.decode(mimic.release(_workload(PREEMPTED, why=why), NOW))

    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["admission"] is None
    stated = {
        each["type"]: (each["status"], each["reason"], each["lastTransitionTime"])
        for each in patch["status"]["conditions"]
    }
    assert stated == {
        "QuotaReserved": ("False", "Pending", NOW),
        "Admitted": ("False", "NoReservation", NOW),
        "Evicted": ("True", why, THEN),
        "Requeued": (again, why, NOW),
    }


@pytest.mark.parametrize(
    ("kind", "conditions", "want"),
    [
        pytest.param("MODIFIED", {}, (0, False), id="an admission that was not reserved"),
        pytest.param("MODIFIED", ADMITTED, (1000, True), id="admitted"),
        pytest.param("MODIFIED", {**ADMITTED, "Finished": True}, (0, True), id="finished"),
        pytest.param("DELETED", ADMITTED, (0, False), id="deleted"),
    ],
)
def test_what_is_recorded_of_it(
    kind: str, conditions: dict[str, bool], want: tuple[int, bool]
) -> None:
    got = measures.seen(WorkloadEvent(kind, _workload(conditions)), 5.0)

    assert (got.held, got.admitted) == want
    assert (got.time, got.name, got.kind, got.queue) == (5.0, "w", "small", QUEUES[0])
    assert got.held_in == QUEUES[0]
