"""Which workloads a cycle admits, and the reasons of the others."""

from dataclasses import replace

import pytest

from extender.api.reasons import Unadmitted
from extender.queueing import cycle
from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.state.queue import events as ev
from extender.state.queue.records import AdmissionInfo, Assignment, WorkloadInfo
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    pod_set,
    quota,
    workload,
)


def plain(cpu: object = 4, **more: object) -> Admissions:
    return Admissions(cluster_queue(cpu=cpu, **more), local_queue())  # type: ignore[arg-type]


def test_what_fits_is_admitted_and_the_rest_waits() -> None:
    queues = plain()
    queues.put(workload("a", pod_set(1, 3)), workload("b", 2), workload("c", 1))

    assert queues.run() == (
        Admit(
            key("a"),
            AdmissionInfo("cq", (Assignment("main", {"cpu": "default"}, {"cpu": 3000}, 3),)),
            borrows=False,
        ),
        NotAdmitted(
            key("b"),
            "WaitingForQuota",
            "couldn't assign flavors to pod set main: "
            "insufficient unused quota for cpu in flavor default, 1 more needed",
        ),
        Admit(
            key("c"),
            AdmissionInfo("cq", (Assignment("main", {"cpu": "default"}, {"cpu": 1000}, 1),)),
            borrows=False,
        ),
    )
    assert queues.run() == ()
    assert queues.waiting() == ["b"]


def test_the_head_of_a_strict_queue_lets_no_workload_pass() -> None:
    queues = plain(strategy="StrictFIFO")
    queues.put(workload("a", 3), workload("b", 2), workload("c", 1))

    assert queues.admitted() == ["a"]
    assert queues.admitted() == []
    queues.drop(queues.view.workloads[key("a")])
    assert queues.admitted() == ["b", "c"]


def test_quota_that_comes_back_is_given_to_those_that_wait() -> None:
    queues = plain()
    queues.put(*(workload(name, 2) for name in "abcd"))

    assert queues.admitted() == ["a", "b"]
    queues.drop(queues.view.workloads[key("b")])
    assert queues.admitted() == ["c"]


def test_a_workload_that_does_not_borrow_goes_first_and_then_the_priority_counts() -> None:
    queues = Admissions(
        *(cluster_queue(name, cpu, "all") for name, cpu in (("x", 2), ("y", 2), ("z", 3))),
        *map(local_queue, "xyz"),
    )
    queues.put(workload("low", 3, "y"), workload("high", 3, "x", 5), workload("own", 3, "z"))

    assert queues.admitted() == ["own", "high"]


def test_nothing_beyond_the_borrowing_limit() -> None:
    queues = Admissions(
        cluster_queue("x", quota(2, borrow=1), "all"),
        cluster_queue("y", 4, "all"),
        local_queue("x"),
    )
    queues.put(workload("a", 4, "x"), workload("b", 3, "x"))

    outcomes = queues.run()
    assert [type(x) for x in outcomes] == [NotAdmitted, Admit]
    assert outcomes[0] == NotAdmitted(
        key("a"),
        "ExceedsMaxQuota",
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, "
        "1 more than its maximum capacity (3)",
    )


def test_lower_priority_goes_for_higher() -> None:
    queues = plain(preemption={"within_cluster_queue": "LowerPriority"})
    queues.put(workload("low", 3), workload("mid", 1, priority=1))
    assert queues.admitted() == ["mid", "low"]
    queues.put(workload("high", 3, priority=2))

    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)
    assert [(x.workload, x.reason) for x in outcome.victims] == [(key("low"), "InClusterQueue")]
    assert queues.run() == ()
    queues.drop(queues.view.workloads[key("low")])
    assert queues.admitted() == ["high"]


def test_a_write_that_failed_is_tried_again() -> None:
    queues = plain()
    queues.put(workload("a"))
    assert queues.admitted() == ["a"]

    queues.apply(ev.Forgotten(key("a")))
    assert queues.admitted() == ["a"]


def test_a_workload_that_could_have_no_pods_has_no_quota() -> None:
    queues = Admissions(cluster_queue(cpu=4), local_queue())
    asked = workload("w", replace(pod_set(1), fault="container c asks for too much"))
    queues.put(asked)
    text = "no pod of pod set main could be made: container c asks for too much"
    assert queues.run() == (NotAdmitted(key("w"), "Misconfigured", text),)
    assert queues.run() == ()

    queues.put(replace(asked, pod_sets=(replace(asked.pod_sets[0], fault=""),)))
    assert queues.admitted() == ["w"]


def cohort(**more: object) -> Admissions:
    """Return two queues of four CPU each that share them."""
    return Admissions(
        cluster_queue("x", 4, "all", **more),
        cluster_queue("y", 4, "all"),
        local_queue("x"),
        local_queue("y"),
    )


def test_a_head_that_borrows_waits_for_those_that_would_reclaim_from_it() -> None:
    queues = cohort(preemption={"reclaim_within_cohort": "Any"})
    queues.put(workload("x1", 2, "x"), workload("x2", 2, "x"), workload("y1", 6, "y", 9))

    outcomes = queues.run()
    assert [(x.workload, type(x)) for x in outcomes] == [
        (key("x1"), Admit),
        (key("x2"), Admit),
        (key("y1"), NotAdmitted),
    ]


def test_a_head_that_finds_nothing_keeps_none_behind_it_from_its_own_quota() -> None:
    queues = cohort(preemption={"reclaim_within_cohort": "Any"})
    queues.put(workload("large", 9, "x", 5), workload("x1", 4, "x"), workload("y1", 6, "y", 9))

    outcomes = {x.workload: type(x) for x in queues.run()}
    assert outcomes == {key("large"): NotAdmitted, key("x1"): Admit, key("y1"): NotAdmitted}


def test_a_head_that_borrows_is_served_in_each_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 2)
    queues = cohort()
    queues.put(*(workload(f"x{i}", 1, "x") for i in range(4)), workload("y1", 6, "y"))

    assert queues.admitted() == ["x0", "x1", "y1"]


def test_what_borrows_is_admitted_in_the_cycle_in_which_nothing_else_is_left() -> None:
    queues = cohort()
    queues.put(workload("x1", 2, "x"), workload("y1", 5, "y"), workload("y2", 1, "y"))

    assert queues.admitted() == ["x1", "y1", "y2"]


def evicted(asked: WorkloadInfo, queue: str | None = None) -> WorkloadInfo:
    """Return a workload that was evicted, and still has quota of a queue where one is named."""
    held = admission(asked, queue) if queue else None
    conditions = (condition("Evicted", "Preempted"), condition("QuotaReserved", true=bool(queue)))
    meta = replace(asked.meta, version=asked.meta.version + 1000)
    return replace(asked, admission=held, conditions=conditions, meta=meta)


def held_and(*records: WorkloadInfo) -> Admissions:
    """Return the two queues with other workloads, and with one in `x` that has half its quota."""
    queues = cohort(preemption={"within_cluster_queue": "LowerPriority"})
    holder = workload("holder", 2, "x")
    queues.put(replace(holder, admission=admission(holder, "x")), *records)
    return queues


def test_one_that_was_evicted_and_is_being_admitted_again_does_not_leave() -> None:
    queues = held_and(evicted(workload("again", 6, "y")))
    assert queues.admitted() == ["again"]
    assert queues.view.workloads[key("again")].evicted

    queues.put(workload("x1", 4, "x"))
    (outcome,) = queues.run()
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == Unadmitted.WAITING_FOR_QUOTA


def test_what_victims_of_others_leave_is_given_in_the_order_of_the_cycle() -> None:
    queues = held_and(evicted(workload("leaving", 6, "y"), "y"), workload("x1", 4, "x"))
    (outcome,) = queues.run()
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == Unadmitted.WAITING_FOR_PREEMPTED

    queues.put(workload("y1", 4, "y"))
    queues.drop(queues.view.workloads[key("leaving")])
    assert queues.admitted() == ["y1"]


def test_an_admission_that_begins_to_borrow_has_those_tried_that_may_reclaim_now() -> None:
    """What stayed within its queue's quota may be made to leave once the queue borrows."""
    reclaims = {"reclaim_within_cohort": "LowerPriority"}
    queues = Admissions(
        cluster_queue("x", 4, "all", preemption=reclaims),
        cluster_queue("w", 4, "all"),
        cluster_queue("z", 4, "all"),
        *(local_queue(name) for name in "xwz"),
    )
    queues.put(workload("high", 6, "z", 9), workload("low", 3, "w", 0))
    assert sorted(queues.admitted()) == ["high", "low"]
    queues.put(workload("reclaims", 4, "x", 5))
    assert queues.admitted() == []
    queues.put(workload("more", 2, "w", 0))
    assert queues.admitted() == ["more"]
    assert "w" in queues.last.freed
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)
    assert outcome.workload == key("reclaims")
    assert [each.workload for each in outcome.victims] == [key("low")]
