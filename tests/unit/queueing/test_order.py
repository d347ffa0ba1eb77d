"""Which workload is first."""

from dataclasses import replace
from typing import Any

import pytest

from extender.queueing.rules import AdmissionOptions, queue_order
from extender.state.queue.records import Meta
from tests.queue_makers import Admissions, cluster_queue, condition, local_queue, workload

LATE = condition("Evicted", "PodsReadyTimeout", at=50.0)
WANT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "priority": ({"priority": 2, "created": 9}, {"priority": 1, "created": 1}),
    "age": ({"created": 1}, {"created": 2}),
    "of twins the lower UID": (
        {"meta": Meta("a", "ns", "1", created=5)},
        {"meta": Meta("b", "ns", "2", created=5)},
    ),
    "a workload that was evicted keeps its place": (
        {"created": 1, "conditions": (condition("Evicted", "Preempted", at=50.0),)},
        {"created": 2},
    ),
    "whose pods were not ready goes to the end": (
        {"created": 2},
        {"created": 1, "conditions": (LATE,)},
    ),
    "an old eviction is forgotten": (
        {"created": 1, "conditions": (condition("Evicted", "PodsReadyTimeout", true=False),)},
        {"created": 2},
    ),
    "a check that failed counts from then": (
        {"created": 2},
        {"created": 1, "conditions": (condition("Evicted", "AdmissionCheck", at=50.0),)},
    ),
}


@pytest.mark.parametrize(("first", "second"), WANT.values(), ids=WANT)
def test_a_queue_orders_its_workloads(first: dict[str, Any], second: dict[str, Any]) -> None:
    one, other = workload("one", **first), workload("other", **second)
    assert queue_order(one, AdmissionOptions()) < queue_order(other, AdmissionOptions())


def test_the_time_of_creation_may_count_instead() -> None:
    late, young = workload("late", created=1, conditions=(LATE,)), workload("young", created=2)
    options = AdmissionOptions(requeuing_timestamp="Creation")
    assert queue_order(late, options) < queue_order(young, options)


def test_of_workloads_of_one_second_the_first_that_came_is_first() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    for name in ("zoe", "max", "ann"):
        queues.put(workload(name, 1, created=7))

    assert queues.waiting() == ["zoe", "max", "ann"]
    assert queues.admitted() == ["zoe"]


def test_a_later_change_takes_no_place_away() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    first, second = workload("zoe", 1, created=7), workload("ann", 1, created=7)
    queues.put(first, second)
    newer = replace(first.meta, version=second.meta.version + 1)
    queues.put(replace(first, meta=newer, past_execution=1))

    assert queues.waiting() == ["zoe", "ann"]


def test_one_that_is_created_again_comes_last() -> None:
    queues = Admissions(cluster_queue(cpu=1), local_queue())
    first, second = workload("zoe", 1, created=7), workload("ann", 1, created=7)
    queues.put(first, second)
    queues.drop(first)
    again = workload("zoe", 1, created=7)
    queues.put(replace(again, meta=replace(again.meta, uid="other")))

    assert queues.waiting() == ["ann", "zoe"]
