"""Which workloads are preempted for which."""

from dataclasses import replace
from typing import Any

import pytest

from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.state.queue import events as ev
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    cohort,
    condition,
    local_queue,
    meta,
    pod_set,
    quota,
    workload,
)

LOWER: dict[str, Any] = {"within_cluster_queue": "LowerPriority"}
EQUAL: dict[str, Any] = {"within_cluster_queue": "LowerOrNewerEqualPriority"}
RECLAIM: dict[str, Any] = {"reclaim_within_cohort": "Any"}
RECLAIM_LOWER: dict[str, Any] = {"reclaim_within_cohort": "LowerPriority"}
BORROW: dict[str, Any] = {**RECLAIM_LOWER, "borrow_within_cohort": "LowerPriority"}

Running = tuple[str, float, str, int]
"""Name, cores, ClusterQueue, priority."""


def scene(*running: Running, mine: dict[str, Any], cores: float = 4) -> Admissions:
    """Return queues `a` (with our policy) and `b`, four cores each, and what runs in them."""
    queues = Admissions(
        cluster_queue("a", cores, "all", preemption=mine),
        cluster_queue("b", 4, "all"),
        local_queue("a"),
        local_queue("b"),
    )
    for number, (name, cpu, queue, priority) in enumerate(running):
        made = workload(name, cpu, queue, priority, created=number)
        reserved = (condition("QuotaReserved", at=float(number)),)
        queues.put(replace(made, admission=admission(made, queue), conditions=reserved))
    return queues


def victims(queues: Admissions, cpu: float = 1, priority: int = 0) -> list[tuple[str, str]]:
    """Return what is preempted for a new workload of `a`."""
    queues.put(workload("w", cpu, "a", priority))
    (outcome,) = queues.run()
    if isinstance(outcome, NotAdmitted):
        return []
    assert isinstance(outcome, Preempt), outcome
    return [(each.workload.split("/")[1], str(each.reason)) for each in outcome.victims]


OWN, TAKEN, BEYOND = "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"
Case = tuple[dict[str, Any], list[Running], float, int, list[tuple[str, str]]]
"""Policy, what runs, cores and priority of the new one, what is preempted."""

WANT: dict[str, Case] = {
    "no victim where nothing is set": ({}, [("x", 8, "a", 0)], 1, 5, []),
    "a lower priority": (LOWER, [("x", 8, "a", 0)], 1, 1, [("x", OWN)]),
    "not an equal one": (LOWER, [("x", 8, "a", 1)], 1, 1, []),
    "a newer equal": (
        EQUAL,
        [("x", 7, "a", 1), ("y", 1, "a", 1)],
        1,
        1,
        [],
    ),
    "the lowest first": (
        LOWER,
        [("x", 4, "a", 2), ("y", 4, "a", 1)],
        1,
        3,
        [("y", OWN)],
    ),
    "of equals the last": (
        LOWER,
        [("x", 4, "a", 1), ("y", 4, "a", 1)],
        1,
        3,
        [("y", OWN)],
    ),
    "as many as it takes": (
        LOWER,
        [(name, 2, "a", 0) for name in "stuv"],
        4,
        1,
        [("v", OWN), ("u", OWN)],
    ),
    "a victim that can stay after all does": (
        LOWER,
        [("x", 4, "a", 1), ("y", 1, "a", 0), ("z", 3, "b", 0)],
        4,
        2,
        [("x", OWN)],
    ),
    "others not without a policy": (LOWER, [("x", 8, "b", 0)], 1, 1, []),
    "what others borrow comes back": (
        RECLAIM,
        [("x", 4, "b", 9), ("y", 4, "b", 9)],
        1,
        0,
        [("y", TAKEN)],
    ),
    "from a higher priority only if any": (
        RECLAIM_LOWER,
        [("x", 4, "b", 9), ("y", 4, "b", 0)],
        1,
        0,
        [],
    ),
    "from a lower one": (RECLAIM_LOWER, [("x", 4, "b", 9), ("y", 4, "b", 0)], 1, 1, [("y", TAKEN)]),
    "not what others have by right": (RECLAIM, [("x", 4, "b", 0), ("y", 4, "a", 0)], 1, 9, []),
    "others before its own": (
        {**RECLAIM, **LOWER},
        [("own", 1, "a", 0), ("x", 4, "b", 9), ("y", 3, "b", 9)],
        1,
        1,
        [("y", TAKEN)],
    ),
    "not while we borrow": (
        RECLAIM,
        [("x", 3, "b", 0), ("y", 3, "b", 0), ("z", 2, "a", 0)],
        3,
        9,
        [],
    ),
    "others and its own, so that we need not borrow": (
        {**RECLAIM, **LOWER},
        [("high", 2, "a", 9), ("low", 1, "a", 0), ("x", 5, "b", 9)],
        2,
        1,
        [("x", TAKEN), ("low", OWN)],
    ),
    "while we borrow from a lower one": (
        BORROW,
        [("x", 3, "b", 0), ("y", 3, "b", 0), ("z", 2, "a", 0)],
        3,
        9,
        [("y", BEYOND)],
    ),
    "not above the threshold": (
        {**BORROW, "borrow_max_priority": 1},
        [("x", 3, "b", 2), ("y", 3, "b", 2), ("z", 2, "a", 0)],
        3,
        9,
        [],
    ),
}


@pytest.mark.parametrize(("mine", "running", "cpu", "priority", "want"), WANT.values(), ids=WANT)
def test_which_workloads_are_victims(
    mine: dict[str, Any], running: list[Running], cpu: float, priority: int, want: object
) -> None:
    assert victims(scene(*running, mine=mine), cpu, priority) == want


def test_a_newer_equal_goes_for_an_older_one() -> None:
    queues = scene(("young", 8, "a", 1), mine=EQUAL)
    queues.put(workload("old", 1, "a", 1, created=-1))
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)
    assert [each.workload for each in outcome.victims] == [key("young")]


def test_no_further_than_what_they_borrow() -> None:
    queues = scene(("x", 3, "b", 0), ("y", 3, "b", 0), mine=RECLAIM)
    queues.put(cluster_queue("c", 2, "all"), local_queue("c"))
    queues.put(workload("z1", 2, "c", 1), workload("z2", 2, "c", 1))
    assert queues.admitted() == ["z1", "z2"]
    assert victims(queues, 4) == [("y", TAKEN), ("z1", TAKEN)]


def test_a_part_of_the_tree_takes_back_what_is_its_own() -> None:
    """`a` borrows from `c` beside it, and they together have a right to what `b` took."""
    queues = Admissions(
        cluster_queue("a", 1, "in", preemption=RECLAIM),
        cluster_queue("c", 3, "in"),
        cluster_queue("b", 1, "out"),
        cohort("in", "out"),
        *(local_queue(name) for name in "abc"),
        workload("taker", 5, "b"),
    )
    assert queues.admitted() == ["taker"]
    assert victims(queues, 4) == [("taker", TAKEN)]


def gone(queues: Admissions, name: str, *, still: bool) -> None:
    """Have a workload evicted, with its quota `still` or not any more."""
    before = queues.view.workloads[key(name)]
    newer = replace(meta(name, "ns"), created=before.meta.created)
    held = queues.view.admission(key(name)) if still else None
    evicted = (condition("Evicted", "Preempted"),)
    queues.put(replace(before, meta=newer, admission=held, conditions=evicted))


def test_no_workload_is_preempted_twice_or_for_two() -> None:
    queues = scene(("x", 4, "a", 0), ("y", 4, "a", 0), mine=LOWER)
    assert victims(queues, 4, 2) == [("y", OWN)]
    for _ in queues.pending.requeue_all(queues.view, queues.now):
        pass
    (again,) = queues.run()
    assert isinstance(again, NotAdmitted)
    assert again.reason == "WaitingForPreemptedWorkloads"

    queues.put(workload("second", 4, "a", 1))
    outcomes = {each.workload: each for each in queues.run()}
    found = outcomes[key("second")]
    assert isinstance(found, Preempt)
    assert [each.workload for each in found.victims] == [key("x")]


def test_quota_of_victims_is_kept_for_their_preemptor() -> None:
    queues = scene(("x", 3, "a", 0), ("y", 3, "a", 0), ("z", 2, "a", 9), mine=LOWER)
    assert victims(queues, 4, 2) == [("y", OWN), ("x", OWN)]
    gone(queues, "x", still=True)
    gone(queues, "y", still=True)
    gone(queues, "y", still=False)
    queues.put(workload("other", 3, "b"))
    assert queues.admitted() == []
    gone(queues, "x", still=False)
    assert queues.admitted() == ["w"]


def test_a_victim_that_was_not_evicted_is_chosen_again() -> None:
    queues = scene(("x", 8, "a", 0), mine=LOWER)
    assert victims(queues, 1, 1) == [("x", OWN)]
    assert queues.run() == ()
    queues.pending.drop_victim(key("x"))
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)


def test_the_quota_of_workloads_that_leave_anyway_is_counted_on() -> None:
    queues = scene(("x", 4, "a", 0), ("y", 4, "a", 0), mine=LOWER)
    gone(queues, "x", still=True)
    queues.put(workload("w", 4, "a", 1))
    (outcome,) = queues.run()
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == "WaitingForPreemptedWorkloads"


def test_fewer_pods_rather_than_none_but_preemption_first() -> None:
    part = pod_set(1, 8, least=1)
    queues = scene(("x", 4, "a", 0), mine=LOWER)
    queues.put(workload("w", part, "a", 1))
    (outcome,) = queues.run()
    assert isinstance(outcome, Admit)
    assert outcome.admission.assignments[0].count == 4

    queues = scene(("x", 4, "a", 0), mine=LOWER, cores=8)
    queues.put(workload("w", pod_set(1, 8, least=1), "a", 1))
    (other,) = queues.run()
    assert isinstance(other, Admit)


def test_a_strict_head_without_candidates_keeps_others_from_its_quota() -> None:
    queues = Admissions(
        cluster_queue("a", 4, "all", strategy="StrictFIFO"),
        cluster_queue("b", quota(0), "all"),
        local_queue("a"),
        local_queue("b"),
        workload("first", 2, "a"),
    )
    assert queues.admitted() == ["first"]
    queues.put(workload("large", 3, "a", 1), workload("taker", 1, "b"))
    assert queues.admitted() == []
    queues.apply(ev.Deleted(queues.view.workloads[key("first")]))
    assert queues.admitted() == ["large", "taker"]


def test_a_victim_s_message_names_its_preemptor() -> None:
    queues = scene(("x", 8, "b", 0), mine=RECLAIM)
    queues.put(workload("w", 1, "a"))
    (outcome,) = queues.run()
    assert isinstance(outcome, Preempt)
    text = outcome.victims[0].message
    assert "ns/w (UID: w" in text
    assert text.endswith("preemptor path: /all/a; preemptee path: /all/b")
