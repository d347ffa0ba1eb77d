"""Preemptions of ClusterQueues whose policies work against each other come to an end."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.api.queue_wire import Eviction, FlavorFungibility
from extender.queueing import lifecycle as to
from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.queueing.preempt import SPARED
from extender.state.queue import events as ev
from extender.state.queue.records import (
    ClusterQueueInfo,
    WorkloadInfo,
)
from tests.makers import shape
from tests.queue_makers import (
    Admissions,
    cluster_queue,
    cohort,
    flavor,
    group,
    local_queue,
    meta,
    quota,
    workload,
)

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
    """Return what was preempted for what, until nothing happens though all are tried again."""
    preempted = []
    for _ in range(CYCLES):
        version = found.view.version
        for _ in found.pending.requeue_all(found.view, found.now):
            pass
        preempted += cycle(found)
        if found.view.version == version:
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
    before = (Eviction("Preempted", "", 1),) if preempted else ()
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


def test_what_is_only_borrowed_is_found_behind_what_is_not_enough() -> None:
    """The last of `b` is chosen first and is not enough; the other one alone is."""
    found = queues({"a": 1, "b": 1}, spare=2)
    running: list[Wanted] = [("y", 3, "b", 0), ("x", 1, "b", 0)]
    assert for_w(found, *running, cores=3, preempted=True) == ["y"]


@pytest.mark.parametrize("priority", [0, 5])
def test_one_that_was_preempted_has_its_own_quota(priority: int) -> None:
    found = queues({"a": 2, "b": 1})
    running: list[Wanted] = [("mine", 1, "a", 0), ("theirs", 2, "b", priority)]
    assert for_w(found, *running, cores=2, preempted=True) == ["mine", "theirs"]


def test_one_that_was_preempted_does_not_stand_for_equal_ones() -> None:
    """It may evict none, and the next one may."""
    found = queues({"a": 2, "b": 2})
    running: list[Wanted] = [("small", 1, "b", 0), ("large", 3, "b", 0)]
    assert for_w(found, *running, cores=3, preempted=True) == []
    found.put(workload("fresh", 3, "a", 2))
    assert until_rest(found)[0] == ("fresh", ["large"])


def test_what_a_child_keeps_is_not_the_cohorts() -> None:
    """Of the four that are released the cohort had borrowed three: it has all of its quota left."""
    found = queues({"a": 2}, spare=1)
    found.put(cohort("inner", "all"))
    for name, reclaim, own in (("b", "Never", quota(4, None, 2)), ("c", "Any", quota(0))):
        policy = {"reclaim_within_cohort": reclaim}
        found.put(cluster_queue(name, own, "inner", preemption=policy), local_queue(name))
    running: list[Wanted] = [("small", 1, "b", 0), ("large", 4, "b", 0), ("c", 2, "c", 0)]
    assert for_w(found, *running, cores=3, preempted=True) == ["large"]


GPU = "example.com/gpu"


def of_two(name: str, cpu: int, gpu: int, **policy: str) -> ClusterQueueInfo:
    """Return a ClusterQueue with quota for both."""
    both = group(default={"cpu": quota(cpu), GPU: quota(gpu, resource=GPU)})
    return cluster_queue(name, both, "all", preemption={**ANY, **policy})


OF_TWO: dict[str, list[ClusterQueueInfo]] = {
    "one that borrows both": [of_two("a", 0, 0), of_two("spare", 1, 0)],
    "one that takes back one and borrows the other": [of_two("a", 1, 0)],
}


@pytest.mark.parametrize("more", OF_TWO.values(), ids=OF_TWO)
def test_they_come_to_an_end_where_only_one_resource_is_short(
    more: list[ClusterQueueInfo],
) -> None:
    """What the victim releases of the other one is its owner's all the same."""
    found = Admissions(of_two("b", 0, 3), *more, local_queue("a"), local_queue("b"))
    preempted = list[tuple[str, list[str]]]()
    for name, cpu, gpu, queue, priority in (
        ("high", 1, 1, "b", 2), ("large", 1, 2, "a", 3), ("low", 0, 3, "b", 1),
    ):  # fmt: skip
        found.put(workload(name, shape(cpu, gpu=gpu), queue, priority))
        preempted += until_rest(found)
    assert ("low", ["large"]) in preempted


def for_w_of_two(found: Admissions, *running: WorkloadInfo, cpu: int, gpu: int) -> list[str]:
    """Return what is evicted of these for `w` of `a`, which was preempted before."""
    for each in running:
        found.put(each)
        until_rest(found)
    before = (Eviction("Preempted", "", 1),)
    found.put(workload("w", shape(cpu, gpu=gpu), "a", 5, evictions=before))
    return [name for _, names in until_rest(found) for name in names]


def test_what_is_free_for_its_owner_is_not_owed() -> None:
    """It borrows some of a hundred idle CPUs, and its own GPUs are lent."""
    found = Admissions(of_two("a", 4, 2), of_two("b", 10, 0), of_two("idle", 100, 0))
    found.put(local_queue("a"), local_queue("b"))
    y = workload("y", shape(1, gpu=2), "b", 0)
    assert for_w_of_two(found, y, cpu=8, gpu=2) == ["y"]


def test_one_that_borrows_nothing_once_its_own_victims_are_gone_spares_none() -> None:
    found = Admissions(of_two("a", 2, 2), of_two("b", 3, 0), local_queue("a"), local_queue("b"))
    x, y = workload("x", shape(2), "a", 0), workload("y", shape(3, gpu=2), "b", 0)
    assert for_w_of_two(found, x, y, cpu=2, gpu=2) == ["x", "y"]


def test_a_resource_that_it_does_not_ask_for_is_none_of_its_concern() -> None:
    """Its ClusterQueue borrows CPUs already, and it wants its own GPUs."""
    found = Admissions(of_two("a", 0, 2), of_two("b", 3, 0), local_queue("a"), local_queue("b"))
    z, y = workload("z", shape(2), "a", 9), workload("y", shape(1, gpu=2), "b", 0)
    assert for_w_of_two(found, z, y, cpu=0, gpu=2) == ["y"]


def test_its_message_says_that_it_spares_others() -> None:
    found = queues({"a": 2, "b": 2})
    running: list[Wanted] = [("small", 1, "b", 0), ("large", 3, "b", 0)]
    assert for_w(found, *running, cores=3, preempted=True) == []
    [outcome] = found.last.outcomes
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == "WaitingForQuota"
    assert outcome.message.endswith(f"3 more needed; {SPARED.text}")


def test_where_its_victims_are_spared_in_one_flavor_it_has_those_of_the_next() -> None:
    def queue(name: str, fa: tuple[int, int], fb: tuple[int, int]) -> ClusterQueueInfo:
        both = {
            flavor: {"cpu": quota(cpu), GPU: quota(gpu, resource=GPU)}
            for flavor, (cpu, gpu) in (("fa", fa), ("fb", fb))
        }
        first = FlavorFungibility("MayStopSearch", "MayStopSearch", None)
        return cluster_queue(name, group(**both), "all", preemption=ANY, fungibility=first)

    found = Admissions(flavor("fa"), flavor("fb"), local_queue("a"), local_queue("b"))
    found.put(queue("a", (4, 2), (8, 2)), queue("b", (10, 0), (0, 0)))
    running = [workload(name, shape(1, gpu=2), "b", 0) for name in ("y0", "y1")]
    assert for_w_of_two(found, *running, cpu=8, gpu=2) == ["y1"]


def test_one_that_need_not_go_does_not_leave_another_one_owed() -> None:
    """With both gone the cohort would borrow nothing; with one it would."""
    found = Admissions(cohort("inner", "all", 4), local_queue("a"), local_queue("b"))
    for name, cores, parent in (("a", 0, "inner"), ("c", 0, "inner"), ("b", 2, "all")):
        found.put(cluster_queue(name, cores, parent, preemption=ANY))
    found.put(local_queue("c"))
    running: list[Wanted] = [("large", 5, "b", 0), ("small", 1, "c", 0)]
    assert for_w(found, *running, cores=4, preempted=True) == []


@pytest.mark.parametrize(("most", "evicted"), [(2, []), (9, ["other"])])
def test_a_search_spares_so_many_and_then_gives_up(
    most: int, evicted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.queueing.preempt._MOST_SPARED", most)
    found = queues({"a": 1, "b": 1, "c": 1, "d": 0}, spare=5)
    running: list[Wanted] = [("other", 4, "d", 0), ("x", 2, "b", 0), ("y", 2, "c", 0)]
    assert for_w(found, *running, cores=4, preempted=True) == evicted


def test_what_a_cohort_would_take_back_is_left_to_it() -> None:
    """No ClusterQueue of it has quota of its own, and one of them takes back from any priority."""
    found = queues({"a": 2})
    found.put(cohort("inner", "all", 2))
    for name, reclaim in (("b", "Never"), ("c", "Any")):
        policy = {"reclaim_within_cohort": reclaim}
        found.put(cluster_queue(name, 0, "inner", preemption=policy), local_queue(name))
    running: list[Wanted] = [("large", 3, "b", 0), ("small", 1, "b", 0)]
    assert for_w(found, *running, cores=3, preempted=True) == []
