"""Which workloads wait in a queue, with which reason and for whose quota."""

import pytest

from extender.api.explanations import PendingWorkloadsSummary, WaitingFor
from extender.explain import lists
from extender.explain.facts import LARGEST_LIMIT
from extender.explain.workload import explain
from extender.queueing.rules import AdmissionOptions, PodsReady
from extender.state.queue.records import CheckRule
from extender.steps import Steps, at_once
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    cluster_queue,
    condition,
    local_queue,
    pod_set,
    quota,
    workload,
)
from tests.unit.explain.scene import facts, holding

WHOLE = lists.PageRequest()


def plain(cpu: object = 4, **more: object) -> Admissions:
    return Admissions(cluster_queue(cpu=cpu, **more), local_queue())  # type: ignore[arg-type]


def reported(queues: Admissions, name: str = "cq", **how: object) -> PendingWorkloadsSummary:
    page = lists.PageRequest(**how)  # type: ignore[arg-type]
    found = at_once(lists.of_cluster_queue(name, lambda: facts(queues), page))
    assert found is not None
    return found


def finished(steps: Steps[PendingWorkloadsSummary | None]) -> PendingWorkloadsSummary | None:
    """Return what work comes to that has begun, with others having their turn each time."""
    try:
        while True:
            steps.send(True)
    except StopIteration as end:
        found: PendingWorkloadsSummary | None = end.value
        return found


def names(found: PendingWorkloadsSummary) -> list[str]:
    return [each.metadata.name for each in found.items]


def held_by(lack: WaitingFor) -> list[tuple[str, str]]:
    return [(each.name, each.amount) for each in lack.holders]


def test_places_in_both_queues_and_a_part_of_them() -> None:
    queues = Admissions(cluster_queue(cpu=0), local_queue("x", "cq"), local_queue("y", "cq"))
    queues.put(
        *(workload(name, 1, queue) for name, queue in zip("abcd", "xyxy", strict=True)),
        workload("first", 1, "y", priority=1),
    )

    places = [
        (each.metadata.name, each.position_in_cluster_queue, each.position_in_local_queue)
        for each in reported(queues).items
    ]

    assert places == [("first", 0, 0), ("a", 1, 0), ("b", 2, 1), ("c", 3, 1), ("d", 4, 2)]
    assert names(reported(queues, offset=1, limit=2)) == ["a", "b"]
    assert names(reported(queues, limit=0)) == []
    mine = at_once(lists.of_local_queue("ns/y", lambda: facts(queues), lists.PageRequest(1)))
    assert mine is not None
    assert names(mine) == ["b", "d"]


def test_queues_that_are_not_there() -> None:
    queues = plain()

    assert at_once(lists.of_cluster_queue("other", lambda: facts(queues), WHOLE)) is None
    assert at_once(lists.of_local_queue("ns/other", lambda: facts(queues), WHOLE)) is None


def test_what_is_missing_and_which_workloads_have_the_most_of_it() -> None:
    queues = plain(6)
    queues.put(holding("small", 1), holding("large", 3), holding("same", 1, priority=5))
    queues.put(workload("waits", 3))

    [item] = reported(queues).items

    assert item.reason == "WaitingForQuota"
    assert item.message.endswith(
        "insufficient unused quota for cpu in flavor default, 2 more needed"
    )
    [lack] = item.waiting_for
    assert (lack.flavor, lack.resource, lack.missing, lack.more_holders) == (
        "default",
        "cpu",
        "2",
        0,
    )
    assert held_by(lack) == [("large", "3"), ("small", "1"), ("same", "1")]
    assert lack.holders[0].since is not None
    assert lack.holders[0].since.timestamp() == 100


def test_only_the_largest_holders_are_named() -> None:
    queues = plain(8)
    queues.put(*(holding(f"h{number}", 1) for number in range(8)), workload("waits", 1))

    [lack] = reported(queues).items[0].waiting_for

    assert [name for name, _ in held_by(lack)] == ["h0", "h1", "h2", "h3", "h4"]
    assert lack.more_holders == 3


@pytest.mark.parametrize(
    ("mine", "holders"),
    [
        pytest.param(quota(2), ["other"], id="the cohort is short"),
        pytest.param(quota(2, borrow=0), [], id="its own limit keeps it back"),
    ],
)
def test_which_workloads_of_a_cohort_have_the_quota(mine: object, holders: list[str]) -> None:
    queues = Admissions(
        cluster_queue("x", mine, "all"),  # type: ignore[arg-type]
        cluster_queue("y", 4, "all"),
        local_queue("x"),
        local_queue("y"),
    )
    queues.put(holding("other", 3, "y"), workload("waits", 4, "x"))
    if not holders:
        queues.put(holding("own", 1, "x"), workload("waits", 2, "x"))
        holders = ["own"]

    [item] = reported(queues, "x").items

    assert [name for name, _ in held_by(item.waiting_for[0])] == holders


def test_what_the_last_cycle_said_goes_first_while_there_is_no_quota() -> None:
    queues = plain(1)
    queues.put(holding("has", 1), workload("waits", 1))
    said = facts(queues, why=lambda key: ("Reported", f"of {key}"))

    found = at_once(lists.of_cluster_queue("cq", lambda: said, WHOLE))
    queues.drop(queues.view.workloads["ns/has"])
    reported_so = facts(queues, why=lambda _: ("Reported", "before"))
    free = at_once(lists.of_cluster_queue("cq", lambda: reported_so, WHOLE))

    assert found is not None
    assert (found.items[0].reason, found.items[0].message) == ("Reported", "of ns/waits")
    assert held_by(found.items[0].waiting_for[0]) == [("has", "1")]
    assert free is not None
    assert (free.items[0].reason, free.items[0].waiting_for) == ("PendingEvaluation", [])


def test_behind_the_head_of_a_strict_queue() -> None:
    queues = plain(2, strategy="StrictFIFO")
    queues.put(holding("has", 1), workload("head", 2), workload("next", 1))

    head, after = reported(queues).items

    assert [name for name, _ in held_by(head.waiting_for[0])] == ["has"]
    assert after.reason == "WaitingForQuota"
    assert "ns/head is before it" in after.message


def test_reasons_that_are_no_lack_of_quota() -> None:
    queues = plain()
    queues.put(
        workload("late", 1, conditions=(condition("Requeued", "PodsReadyTimeout", true=False),)),
        workload("huge", pod_set(5)),
    )

    found = {each.metadata.name: each for each in reported(queues).items}

    assert (found["late"].reason, found["late"].waiting_for) == ("OnHold", [])
    assert "PodsReadyTimeout" in found["late"].message
    assert found["huge"].reason == "ExceedsMaxQuota"


def test_a_workload_that_waits_for_the_pods_of_others() -> None:
    options = AdmissionOptions(pods_ready=PodsReady(block_admission=True))
    queues = Admissions(cluster_queue(), local_queue(), options=options)
    queues.put(holding("has", 1), workload("waits", 1))

    [waits] = reported(queues).items
    explained = explain(key("waits"), facts(queues))

    assert waits.reason == "WaitingForPodsReady"
    assert "the pods of 1 admitted workload" in waits.message
    assert explained is not None
    assert (explained.reason, explained.waiting_for) == ("WaitingForPodsReady", [])


def test_a_queue_that_can_admit_nothing() -> None:
    queues = plain(cohort="all", admission_checks=(CheckRule("check"),))
    queues.put(workload("waits", 1))

    [item] = reported(queues).items

    assert (item.reason, item.waiting_for) == ("Suspended", [])
    assert "check" in item.message


def test_a_long_queue_is_gone_through_in_small_steps() -> None:
    queues = Admissions(cluster_queue(cpu=0), local_queue("x", "cq"), local_queue("y", "cq"))
    queues.put(*(workload(f"w{n:05}", 1, "xy"[n % 2], created=n) for n in range(6000)))
    seen = facts(queues)
    whole = at_once(lists.of_local_queue("ns/y", lambda: seen, lists.PageRequest(2000, 50)))
    assert whole is not None
    assert names(whole) == [f"w{n:05}" for n in range(4001, 4101, 2)]
    assert whole.items[0].position_in_cluster_queue == 4001
    assert whole.items[0].position_in_local_queue == 2000

    steps = lists.of_local_queue("ns/y", lambda: seen, lists.PageRequest(2000, 50))
    count = sum(1 for _ in steps)
    # Runs to sort, runs up to the end of the page, and one for each workload shown.
    assert count >= 6000 / 2048 + 4100 / 2048 + 50


def test_a_page_has_no_more_than_the_largest() -> None:
    queues = plain(0)
    queues.put(*(workload(f"w{n:04}", 1) for n in range(1100)))
    assert len(reported(queues, limit=100_000).items) == LARGEST_LIMIT == 1000
    assert len(reported(queues, offset=1000).items) == 100


def test_a_workload_that_leaves_while_a_page_is_made_is_left_out() -> None:
    queues = plain(0)
    queues.put(*(workload(name, 1) for name in "abc"))
    whole = reported(queues)
    steps = lists.of_cluster_queue("cq", lambda: facts(queues), WHOLE)
    next(steps)
    assert steps.send(True) is None  # the places are known
    queues.drop(queues.view.workloads[key("b")])
    assert names(finished(steps) or whole) == ["a", "c"]
