"""Preemptions of ClusterQueues whose policies work against each other come to an end."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.queueing import transitions as to
from extender.queueing.cycle import Admit, Preempt
from extender.state.queue import events as ev
from extender.state.queue.records import EvictionCount, WorkloadInfo
from tests.queue_makers import Admissions, cluster_queue, cohort, local_queue, meta, workload

ANY: dict[str, Any] = {
    "reclaim_within_cohort": "Any",
    "borrow_within_cohort": "LowerPriority",
    "within_cluster_queue": "LowerPriority",
}
CYCLES = 60

Wanted = tuple[str, int, str, int]
"""Name, cores, ClusterQueue and priority, in the order in which they come."""


def queues(cores: Mapping[str, int], *, reclaim: str = "Any", spare: int = 0) -> Admissions:
    """Return ClusterQueues of one cohort, by name with their cores; the cohort has `spare` ones."""
    found = Admissions(cohort("all", None, spare))
    policy = {**ANY, "reclaim_within_cohort": reclaim}
    for name, amount in cores.items():
        found.put(cluster_queue(name, amount, "all", preemption=policy), local_queue(name))
    return found


def cycle(found: Admissions) -> list[tuple[str, list[str]]]:
    """Do what a cycle says, let go of the victims; return what was preempted for what."""
    preempted = []
    for outcome in found.run():
        if isinstance(outcome, Preempt):
            names = [victim.workload.split("/")[1] for victim in outcome.victims]
            preempted.append((outcome.workload.split("/")[1], sorted(names)))
            for victim in outcome.victims:
                held = found.view.workloads[victim.workload]
                held = replace(held, admission=found.view.admission(held.key))
                gone = to.preempted(held, victim.reason, victim.message, now=found.now)
                write(found, to.released(gone, found.now))
        elif isinstance(outcome, Admit):
            admitted = found.view.workloads[outcome.workload]
            write(found, to.reserved(admitted, outcome.admission, now=found.now))
    found.now += 1
    return preempted


def write(found: Admissions, after: WorkloadInfo) -> None:
    """Take in what was written of a workload."""
    newer = meta(after.meta.name, after.meta.namespace, created=after.meta.created)
    found.apply(ev.Applied(replace(after, meta=newer)))


def until_rest(found: Admissions) -> list[tuple[str, list[str]]]:
    """Return what was preempted for what, until nothing happens any more."""
    preempted = []
    for _ in range(CYCLES):
        version = found.view.version
        preempted += cycle(found)
        if found.view.version == version and not found.pending.ready():
            return preempted
    raise AssertionError(f"no end: {preempted[-12:]}")


def play(found: Admissions, *wanted: Wanted) -> list[tuple[str, list[str]]]:
    preempted = []
    for number, (name, cores, queue, priority) in enumerate(wanted):
        found.put(workload(name, cores, queue, priority, created=number))
        preempted += until_rest(found)
    return preempted


LOOPS: dict[str, tuple[dict[str, int], list[Wanted]]] = {
    "victims take back what is theirs": (
        {"a": 1, "b": 2},
        [("w0", 3, "b", 3), ("w1", 1, "a", 1), ("w2", 2, "a", 2)],
    ),
    "a victim of a victim does": (
        {"a": 1, "b": 3},
        [
            ("w0", 1, "b", 1), ("w1", 2, "a", 3), ("w2", 2, "b", 2), ("w3", 1, "b", 1),
            ("w4", 2, "b", 3),
        ],
    ),
    "each of four evicts the next": (
        {"a": 1, "b": 4},
        [("w0", 1, "a", 0), ("w1", 3, "a", 1), ("w2", 2, "b", 3), ("w3", 3, "b", 2)],
    ),
    "three ClusterQueues": (
        {"a": 2, "b": 3, "c": 1},
        [
            ("w0", 3, "b", 3), ("w1", 3, "c", 2), ("w2", 3, "b", 3), ("w3", 1, "c", 1),
            ("w4", 1, "b", 0),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cores", "wanted"), LOOPS.values(), ids=LOOPS)
def test_they_come_to_an_end(cores: dict[str, int], wanted: list[Wanted]) -> None:
    found = queues(cores)
    play(found, *wanted)
    assert found.waiting("a") or found.waiting("b")


def for_w(found: Admissions, *running: Wanted, cores: int, preempted: bool) -> list[str]:
    """Return what is evicted of these for `w` of `a`, which has to borrow."""
    assert play(found, *running) == []
    before = (EvictionCount("Preempted", "", 1),) if preempted else ()
    found.put(workload("w", cores, "a", 2, evictions=before))
    return [name for _, names in cycle(found) for name in names]


@pytest.mark.parametrize(
    ("reclaim", "preempted", "evicted"),
    [("Any", False, ["large"]), ("Any", True, []), ("LowerPriority", True, ["large"])],
)
def test_one_that_was_preempted_leaves_others_what_they_would_take_back(
    reclaim: str, preempted: bool, evicted: list[str]
) -> None:
    found = queues({"a": 2, "b": 2}, reclaim=reclaim)
    running: list[Wanted] = [("small", 1, "b", 0), ("large", 3, "b", 0)]
    assert for_w(found, *running, cores=3, preempted=preempted) == evicted


def test_one_that_was_preempted_evicts_what_is_only_borrowed() -> None:
    found = queues({"a": 1, "b": 2}, spare=1)
    running: list[Wanted] = [("x", 2, "b", 0), ("y", 2, "b", 0)]
    assert for_w(found, *running, cores=2, preempted=True) == ["y"]


def test_what_a_cohort_would_take_back_is_left_to_it() -> None:
    """No ClusterQueue of it has quota of its own, and one of them takes back from any priority."""
    found = queues({"a": 2})
    found.put(cohort("inner", "all", 2))
    for name, reclaim in (("b", "Never"), ("c", "Any")):
        policy = {"reclaim_within_cohort": reclaim}
        found.put(cluster_queue(name, 0, "inner", preemption=policy), local_queue(name))
    running: list[Wanted] = [("large", 3, "b", 0), ("small", 1, "b", 0)]
    assert for_w(found, *running, cores=3, preempted=True) == []
