"""Who is first."""

from typing import Any

import pytest

from extender.queueing.options import Options
from extender.queueing.order import cycle_order, queue_order
from tests.queue_makers import Meta, condition, workload

LATE = condition("Evicted", "PodsReadyTimeout", at=50.0)
WANT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "priority": ({"priority": 2, "created": 9}, {"priority": 1, "created": 1}),
    "age": ({"created": 1}, {"created": 2}),
    "of twins the lower UID": (
        {"meta": Meta("a", "ns", "1", created=5)},
        {"meta": Meta("b", "ns", "2", created=5)},
    ),
    "who was pushed out keeps its place": (
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
def test_queue_order(first: dict[str, Any], second: dict[str, Any]) -> None:
    one, other = workload("one", **first), workload("other", **second)
    assert queue_order(one, Options()) < queue_order(other, Options())


def test_the_time_of_creation_may_count_instead() -> None:
    late, young = workload("late", created=1, conditions=(LATE,)), workload("young", created=2)
    options = Options(requeuing_timestamp="Creation")
    assert queue_order(late, options) < queue_order(young, options)


def test_cycle_order_looks_at_borrowing_first() -> None:
    high = queue_order(workload("high", priority=5), Options())
    low = queue_order(workload("low"), Options())
    assert cycle_order(0, low) < cycle_order(1, high) < cycle_order(1, low)
