"""What is told of a workload that waits."""

import pytest

from extender.queueing.explain import Explanation, Rules, why
from extender.queueing.quota import QuotaTree
from extender.state.queues.records import RequeueState
from tests.makers import key
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload


def told(queues: Admissions, name: str) -> Explanation:
    tree = QuotaTree.of(queues.snapshot, queues.tree)
    return why(
        key(name),
        queues.snapshot,
        queues.pending,
        tree=tree,
        now=queues.now,
        rules=Rules(queues.options),
    )


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

    assert told(queues, "w") == Explanation(
        1,
        "a",
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor default, 1 more needed",
    )
    assert queues.admitted() == []


def test_who_could_go() -> None:
    queues = Admissions(
        cluster_queue(cpu=1, preemption={"within_cluster_queue": "LowerPriority"}), local_queue()
    )
    queues.put(workload("low"))
    assert queues.admitted() == ["low"]
    queues.put(workload("high", priority=1))
    assert told(queues, "high").notes[-1] == "ns/low could be made to go (InClusterQueue)"
    queues.run()
    found = told(queues, "high")
    assert found.reason == "WaitingForPreemptedWorkloads"
    assert found.notes[-1] == "ns/low is giving its quota back"


def test_who_is_next() -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w"))
    found = told(queues, "w")
    assert (found.position, found.reason) == (0, "PendingEvaluation")


def test_who_stands_behind_a_strict_head() -> None:
    queues = Admissions(cluster_queue(strategy="StrictFIFO"), local_queue())
    queues.put(workload("big", 9), workload("small"))
    queues.run()
    found = told(queues, "small")
    assert found.position == 1
    assert found.notes == ("ns/big is the first of a strict queue, and nobody passes it",)


def test_who_was_sent_back() -> None:
    queues = Admissions(cluster_queue(), local_queue())
    queues.put(workload("w", requeue=RequeueState(1, queues.now + 60)))
    assert told(queues, "w").reason == "OnHold"


WANT = {
    "it has no queue": ({"queue": "none"}, None, "Misconfigured"),
    "it is not active": ({"active": False}, "cq", "Deactivated"),
}


@pytest.mark.parametrize(("fields", "where", "want"), WANT.values(), ids=WANT)
def test_who_is_in_no_queue(fields: dict[str, object], where: str | None, want: str) -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w", 1, **fields))  # type: ignore[arg-type]
    found = told(queues, "w")
    assert (found.position, found.cluster_queue, found.reason) == (None, where, want)


def test_who_has_quota_has_nothing_to_be_told() -> None:
    queues = Admissions(cluster_queue(), local_queue(), workload("w"))
    queues.run()
    assert told(queues, "w") == Explanation(None, "cq", "", "")
