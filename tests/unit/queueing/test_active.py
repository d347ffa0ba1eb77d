"""Whether a queue is active, and why not; and the numbers in its status."""

from typing import Any

import pytest

from extender.queueing.status import Used, activity, cluster_queue_status, local_activity
from extender.state.queue.events import Record
from extender.state.queue.records import AdmissionCheckInfo, CheckRule, FlavorInfo, TopologyInfo
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    cohort,
    condition,
    group,
    local_queue,
    meta,
    workload,
)

TOPOLOGY = FlavorInfo(meta("racked"), topology="racks")
NO = "Can't admit new workloads"
ACTIVE = (condition("Active", at=1.0),)

WANT: dict[str, tuple[dict[str, Any], list[Record], tuple[bool, str, str]]] = {
    "all is well": ({}, [], (True, "Ready", "Can admit new workloads")),
    "stopped": ({"stop_policy": "Hold"}, [], (False, "Stopped", f"{NO}: is stopped.")),
    "drained": ({"stop_policy": "HoldAndDrain"}, [], (False, "Stopped", f"{NO}: is stopped.")),
    "going": (
        {"meta": meta("cq", terminating=True), "stop_policy": "Hold"},
        [],
        (False, "Terminating", f"{NO}; clusterQueue is terminating"),
    ),
    "flavors that are not there": (
        {"cpu": group(default=1, a=1, b=2)},
        [],
        (False, "FlavorNotFound", f"{NO}: references missing ResourceFlavor(s): a,b."),
    ),
    "a flavor with a topology that is not there": (
        {"cpu": group(racked=1)},
        [TOPOLOGY],
        (False, "TopologyNotFound", f"{NO}: references missing Topology(ies): racks."),
    ),
    "a flavor with a topology": (
        {"cpu": group(racked=1)},
        [TOPOLOGY, TopologyInfo(meta("racks"), ("rack",))],
        (True, "Ready", "Can admit new workloads"),
    ),
    "checks that are not there": (
        {"admission_checks": (CheckRule("nodes"), CheckRule("budget"), CheckRule("audit"))},
        [AdmissionCheckInfo(meta("audit"), "x", conditions=ACTIVE)],
        (
            False,
            "AdmissionCheckNotFound",
            f"{NO}: references missing AdmissionCheck(s): nodes,budget.",
        ),
    ),
    "checks that no controller passes": (
        {"admission_checks": (CheckRule("budget"), CheckRule("audit"))},
        [
            AdmissionCheckInfo(meta("budget"), "x"),
            AdmissionCheckInfo(meta("audit"), "x", conditions=(condition("Active", true=False),)),
        ],
        (
            False,
            "AdmissionCheckInactive",
            f"{NO}: references inactive AdmissionCheck(s): budget,audit.",
        ),
    ),
    "checks that can be passed": (
        {"admission_checks": (CheckRule("audit"),)},
        [AdmissionCheckInfo(meta("audit"), "x", conditions=ACTIVE)],
        (True, "Ready", "Can admit new workloads"),
    ),
    "cohorts in a circle": (
        {"cohort": "x"},
        [cohort("x", "y"), cohort("y", "x")],
        (False, "Unknown", f"{NO}: cohort x is among its own parents."),
    ),
    "two things at once": (
        {"stop_policy": "Hold", "admission_checks": (CheckRule("budget"),)},
        [],
        (
            False,
            "Stopped",
            f"{NO}: is stopped, references missing AdmissionCheck(s): budget.",
        ),
    ),
}


@pytest.mark.parametrize(("fields", "records", "want"), WANT.values(), ids=WANT)
def test_whether_a_cluster_queue_is_active_and_why(
    fields: dict[str, Any], records: list[Record], want: tuple[bool, str, str]
) -> None:
    queue = cluster_queue(**fields)
    found = activity(queue, Admissions(queue, *records).view)
    assert (found.active, found.reason, found.message) == want


WANT_LOCAL: dict[str, tuple[dict[str, Any], list[Record], tuple[bool, str]]] = {
    "all is well": ({}, [cluster_queue()], (True, "Ready")),
    "stopped": ({"stop_policy": "Hold"}, [cluster_queue()], (False, "Stopped")),
    "it leads nowhere": ({}, [], (False, "ClusterQueueDoesNotExist")),
    "it leads to a stopped queue": (
        {},
        [cluster_queue(stop_policy="Hold")],
        (False, "ClusterQueueIsInactive"),
    ),
}


@pytest.mark.parametrize(("fields", "records", "want"), WANT_LOCAL.values(), ids=WANT_LOCAL)
def test_whether_a_local_queue_is_active_and_why(
    fields: dict[str, Any], records: list[Record], want: tuple[bool, str]
) -> None:
    queue = local_queue(**fields)
    found = local_activity(queue, Admissions(queue, *records).view)
    assert (found.active, found.reason) == want


@pytest.mark.parametrize(("cohort", "borrowed"), [(None, 0), ("shared", 2000)])
def test_only_a_queue_of_a_cohort_borrows(cohort: str | None, borrowed: int) -> None:
    large = cluster_queue("cq", 3, cohort)
    held = workload("w", 3)
    queues = Admissions(large, local_queue())
    queues.put(workload("w", 3, meta=held.meta, admission=admission(held)))
    queues.put(cluster_queue("cq", 1, cohort))

    status = cluster_queue_status(queues.view.cluster_queues["cq"], queues.view)

    assert status.reservation == (Used("default", "cpu", 3000, borrowed),)
