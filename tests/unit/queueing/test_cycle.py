"""Which workloads a cycle admits, and the reasons of the others."""

from dataclasses import replace

from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.state.queue import events as ev
from extender.state.queue.records import AdmissionInfo, Assignment
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    cluster_queue,
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


def test_a_workload_that_does_not_borrow_goes_first() -> None:
    queues = Admissions(
        cluster_queue("x", 2, "all"),
        cluster_queue("y", 2, "all"),
        local_queue("x"),
        local_queue("y"),
    )
    queues.put(workload("x1", 3, "x", 5), workload("y1", 2, "y"))

    assert queues.admitted() == ["y1"]


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
