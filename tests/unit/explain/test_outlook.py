"""What explain says of a workload that waits."""

from dataclasses import replace

import pytest

from extender.api.explanations import Explanation
from extender.explain.workload import explain
from extender.queueing.quota import QuotaTree
from extender.state.queue.records import RequeueInfo
from tests.makers import key
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import facts


def reported(queues: Admissions, name: str) -> Explanation:
    tree = QuotaTree.current(queues.view, queues.tree)
    found = explain(key(name), replace(facts(queues), tree=tree))
    assert found is not None
    return found


def position(found: Explanation) -> int | None:
    """Return how many workloads are before it in its ClusterQueue."""
    place = found.position_in_cluster_queue
    return place.index if place else None


def test_what_is_missing() -> None:
    queues = Admissions(
        cluster_queue("a", 4, "all"),
        cluster_queue("b", 4, "all"),
        local_queue("a"),
        local_queue("b"),
    )
    queues.put(workload("x", 2, "a", 7), workload("y", 5, "b"), workload("big", 6, "a"))
    assert queues.admitted() == ["x", "y"]
    queues.put(workload("w", 2, "a"))

    found = reported(queues, "w")
    assert (position(found), found.cluster_queue, found.reason) == (1, "a", "WaitingForQuota")
    assert found.message == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor default, 1 more needed"
    )
    assert found.notes == []
    assert queues.admitted() == []


def test_which_workloads_could_be_preempted() -> None:
    queues = Admissions(
        cluster_queue(cpu=1, preemption={"within_cluster_queue": "LowerPriority"}), local_queue()
    )
    queues.put(workload("low"))
    assert queues.admitted() == ["low"]
    queues.put(workload("high", priority=1))
    assert reported(queues, "high").notes[-1] == "ns/low could be preempted (InClusterQueue)"
    queues.run()
    found = reported(queues, "high")
    assert found.reason == "WaitingForPreemptedWorkloads"
    assert found.notes[-1] == "ns/low is releasing its quota"


def test_which_workload_is_next() -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w"))
    found = reported(queues, "w")
    assert (position(found), found.reason) == (0, "PendingEvaluation")
    assert found.message == "there is quota for it; 0 workload(s) are before it"


def test_which_workloads_stand_behind_a_strict_head() -> None:
    queues = Admissions(cluster_queue(strategy="StrictFIFO"), local_queue())
    queues.put(workload("big", 9), workload("small"))
    queues.run()
    found = reported(queues, "small")
    assert position(found) == 1
    assert found.notes == ["ns/big is first in a StrictFIFO queue: no other workload may pass it"]


def test_a_workload_that_was_requeued() -> None:
    queues = Admissions(cluster_queue(), local_queue())
    queues.put(workload("w", requeue=RequeueInfo(1, queues.now + 60)))
    assert reported(queues, "w").reason == "OnHold"


WANT = {
    "it has no queue": ({"queue": "none"}, None, "Misconfigured"),
    "it is not active": ({"active": False}, "cq", "Deactivated"),
}


@pytest.mark.parametrize(("fields", "where", "want"), WANT.values(), ids=WANT)
def test_a_workload_that_is_in_no_queue(
    fields: dict[str, object], where: str | None, want: str
) -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w", 1, **fields))  # type: ignore[arg-type]
    found = reported(queues, "w")
    assert (position(found), found.cluster_queue, found.reason) == (None, where, want)


def test_a_workload_with_quota_has_nothing_to_be_explained() -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w"))
    queues.run()
    found = reported(queues, "w")
    assert (position(found), found.cluster_queue, found.state) == (None, "cq", "QuotaReserved")
    assert (found.waiting_for, found.notes) == ([], [])
