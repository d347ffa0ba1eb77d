"""A cycle piece by piece: the state may change between two of them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.queueing.cycle import Admit, NotAdmitted, Outcome
from extender.queueing.quota import Held, Holders
from extender.queueing.rules import AdmissionOptions, PodsReady
from extender.state.queue import events as ev
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    validate_queues,
    workload,
)


def two_queues(**more: object) -> Admissions:
    """Return two queues of two CPU each that share them."""
    return Admissions(
        cluster_queue("a", 2, "all", **more),
        cluster_queue("b", 2, "all", **more),
        local_queue("a"),
        local_queue("b"),
    )


def run(queues: Admissions, after: int, act: Callable[[], None]) -> list[Outcome]:
    """Run a cycle in which something happens after so many pieces; apply what it admits."""
    decided: list[Outcome] = []
    for number, piece in enumerate(queues.decide_slowly(), start=1):
        if piece is not None:
            decided.append(piece)
        if isinstance(piece, Admit):
            queues.apply(ev.Assumed(piece.workload, piece.admission))
        if number == after:
            act()
    return decided


def admitted(outcomes: list[Outcome]) -> list[str]:
    return [each.workload.split("/")[1] for each in outcomes if isinstance(each, Admit)]


def test_quota_that_another_took_in_between_is_not_given_again() -> None:
    queues = two_queues()
    queues.put(workload("x", 3, "a"), workload("y", 1, "b"))
    other = workload("other", 2, "b")

    def act() -> None:
        conditions = (condition("QuotaReserved"), condition("Admitted"))
        queues.put(replace(other, admission=admission(other, "b"), conditions=conditions))

    outcomes = run(queues, 2, act)

    assert admitted(outcomes) == ["y"]
    validate_queues(queues.queues)
    assert queues.view.usage("a").get(("default", "cpu"), 0) == 0


def test_quota_that_came_back_in_between_is_seen_by_a_head_that_was_refused_before() -> None:
    queues = two_queues()
    holder = workload("holder", 4, "a")
    queues.put(replace(holder, admission=admission(holder, "a")), workload("x", 2, "b"))

    outcomes = run(queues, 1, lambda: queues.drop(holder))

    assert admitted(outcomes) == ["x"]


def test_a_head_that_is_gone_by_its_turn_is_passed_over() -> None:
    queues = two_queues()
    gone = workload("x", 2, "a")
    queues.put(gone, workload("y", 2, "b"))

    assert admitted(run(queues, 2, lambda: queues.drop(gone))) == ["y"]


def test_a_new_first_one_of_a_strict_queue_is_not_passed_by_the_head_that_was_judged() -> None:
    queues = two_queues(strategy="StrictFIFO")
    queues.put(workload("x", 2, "a"), workload("y", 2, "b"))

    outcomes = run(queues, 2, lambda: queues.put(workload("first", 2, "a", 5)))

    assert admitted(outcomes) == ["y", "first"]


def test_what_is_kept_for_a_head_that_goes_in_between_is_free_for_those_after_it() -> None:
    lower = {"reclaim_within_cohort": "LowerPriority"}
    queues = Admissions(
        cluster_queue("a", 2, "all", strategy="StrictFIFO", preemption=lower),
        cluster_queue("b", 2, "all"),
        local_queue("a"),
        local_queue("b"),
    )
    holder = workload("holder", 3, "b", 9)
    bars = workload("bars", 2, "a", 5)
    queues.put(replace(holder, admission=admission(holder, "b")), bars)
    queues.put(workload("y", 1, "b"))

    def drop_it() -> None:
        assert key("bars") in queues.pending.provisional
        queues.drop(bars)

    outcomes = run(queues, 3, drop_it)

    assert admitted(outcomes) == ["y"]


def test_an_admission_that_is_applied_in_between_counts_once() -> None:
    queues = two_queues()
    queues.put(*(workload(name, 1, "a") for name in "stuv"))

    assert sorted(admitted(run(queues, 0, lambda: None))) == ["s", "t", "u", "v"]
    validate_queues(queues.queues)


def test_of_those_admitted_in_a_cycle_none_makes_way_for_another_of_it() -> None:
    preemption = {"within_cluster_queue": "LowerPriority"}
    queues = Admissions(
        cluster_queue("a", 2, "all", preemption=preemption),
        cluster_queue("b", 0, "all"),
        local_queue("a"),
        local_queue("b"),
    )
    queues.put(workload("low", 2, "a", 0))

    outcomes = run(queues, 2, lambda: queues.put(workload("high", 2, "a", 5)))

    assert admitted(outcomes) == ["low"]
    (waits,) = [each for each in outcomes if isinstance(each, NotAdmitted)]
    assert waits.workload == key("high")


def test_a_changed_structure_ends_the_cycle() -> None:
    queues = two_queues()
    queues.put(workload("x", 2, "a"), workload("y", 2, "b"))

    outcomes = run(queues, 1, lambda: queues.put(cluster_queue("b", 0, "all")))

    assert outcomes == []
    assert queues.last.more
    assert queues.admitted() == ["x"]


def test_pods_that_became_ready_in_between_hold_no_workload() -> None:
    queues = Admissions(
        cluster_queue("a", 2),
        local_queue("a"),
        options=AdmissionOptions(pods_ready=PodsReady(block_admission=True)),
    )
    runs = workload("runs", 1, "a")
    conditions = (condition("QuotaReserved"), condition("Admitted"))
    runs = replace(runs, admission=admission(runs, "a"), conditions=conditions)
    queues.put(runs, workload("x", 1, "a"))
    ready = replace(
        runs,
        meta=replace(runs.meta, version=runs.meta.version + 10_000),
        conditions=(*conditions, condition("PodsReady")),
    )

    assert admitted(run(queues, 1, lambda: queues.put(ready))) == ["x"]


def looks(queues: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a cycle asks what a ClusterQueue holds, where no head of many fits."""
    count, of = 0, Holders.held_in

    def counting(self: Holders, cluster_queue: str) -> Held:
        nonlocal count
        count += 1
        return of(self, cluster_queue)

    scene = Admissions()
    for number in range(queues):
        name = f"q{number}"
        made = workload(f"h{number}", 1, name)
        scene.put(cluster_queue(name, 1, "all"), local_queue(name))
        scene.put(replace(made, admission=admission(made, name)))
        scene.put(*(workload(f"w{number}-{n}", 1 + n, name) for n in range(4)))
    with monkeypatch.context() as patch:
        patch.setattr(Holders, "held_in", counting)
        assert len(scene.run()) == 4 * queues
    return count


def test_a_cycle_costs_what_its_heads_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(40, monkeypatch) <= 5 * looks(10, monkeypatch)


def test_what_was_admitted_and_has_ended_in_between_keeps_nothing() -> None:
    queues = two_queues()
    queues.put(workload("x", 4, "a", 5), workload("y", 3, "b"))

    def end_it() -> None:
        queues.drop(queues.view.workloads[key("x")])

    assert admitted(run(queues, 3, end_it)) == ["x", "y"]
