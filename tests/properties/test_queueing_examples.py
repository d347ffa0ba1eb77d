"""Sequences of events that once ended wrongly in `test_queueing`, kept as they were found."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from tests.properties.test_queueing import Queueing
from tests.queue_makers import quota


class Drawn:
    """Answers what a property test would draw."""

    def __init__(self, *values: object) -> None:
        self._values: Iterator[object] = iter(values)

    def draw(self, _: object) -> Any:
        return next(self._values)


def a_strict_queue_beside_one_that_takes_back() -> Queueing:
    """Return two queues of one cohort that has quota of its own, and a cohort above it."""
    machine = Queueing()
    drawn = Drawn(
        *(quota(2, 0), quota(1, None)),
        *("co0", "MayStopSearch", "MayStopSearch", None),
        *(quota(2, None, None), False, "StrictFIFO"),
        {
            "within_cluster_queue": "LowerOrNewerEqualPriority",
            "borrow_within_cohort": "LowerPriority",
            "reclaim_within_cohort": "LowerPriority",
            "borrow_max_priority": None,
        },
        *("co0", "TryNextFlavor", "MayStopSearch", None),
        *(quota(2, None, None), True, quota(2, None, None), "BestEffortFIFO"),
        {
            "within_cluster_queue": "LowerOrNewerEqualPriority",
            "borrow_within_cohort": "LowerPriority",
            "reclaim_within_cohort": "Any",
            "borrow_max_priority": None,
        },
    )
    machine.begin(data=cast(st.DataObject, drawn), queues=2, parents=2)
    return machine


def two_cohorts_above_each_other() -> Queueing:
    """Return a queue in a cohort with two above it, and one with two flavors in the highest."""
    machine = Queueing()
    drawn = Drawn(
        *(quota(1, None), quota(1, None)),
        *("co0", "MayStopSearch", "MayStopSearch", None),
        *(quota(0, None, None), False, "BestEffortFIFO"),
        {
            "within_cluster_queue": "LowerOrNewerEqualPriority",
            "borrow_within_cohort": "Never",
            "reclaim_within_cohort": "LowerPriority",
            "borrow_max_priority": None,
        },
        *("co2", "MayStopSearch", "MayStopSearch", None),
        *(quota(1, 1, None), True, quota(4, None, None), "BestEffortFIFO"),
        {
            "within_cluster_queue": "LowerPriority",
            "borrow_within_cohort": "LowerPriority",
            "reclaim_within_cohort": "Any",
            "borrow_max_priority": None,
        },
    )
    machine.begin(data=cast(st.DataObject, drawn), queues=2, parents=2)
    return machine


def borrower_not_tried(state: Queueing) -> None:
    state.settle()
    state.settle()
    state.create(again=3, cpu=2, index=0, least=None, pods=1, priority=0)
    state.settle()
    state.fill(cpu=2, index=0, pods=2, priority=1)
    state.settle()
    state.delete_holding(index=0)
    state.press(cpu=3, index=0, priority=1)
    state.delete_waiting(index=0)
    state.fill(cpu=3, index=15, pods=2, priority=0)
    state.change_priority(index=0, priority=3)
    state.end_a_pod(index=29)
    state.delete_holding(index=0)
    state.change_priority(index=8, priority=0)
    state.delete_holding(index=11)
    state.end_a_pod(index=0)
    state.delete_holding(index=0)
    state.create(again=2, cpu=3, index=0, least=None, pods=1, priority=1)
    state.change_priority(index=1, priority=0)
    state.create(again=2, cpu=1, index=0, least=None, pods=1, priority=0)
    state.delete_waiting(index=0)
    state.settle()


def victims_named_twice(state: Queueing) -> None:
    state.settle()
    state.enlarge(index=0, more=0)
    state.settle()
    state.settle()
    state.create(again=3, cpu=2, index=0, least=None, pods=1, priority=0)
    state.settle()
    state.fill(cpu=2, index=0, pods=2, priority=1)
    state.settle()
    state.cycle(late=False)
    state.create(again=2, cpu=1, index=16, least=None, pods=2, priority=1)
    state.press(cpu=1, index=17, priority=3)


def place_taken_by_one_that_borrows_less(state: Queueing) -> None:
    state.press(cpu=3, index=15, priority=2)
    state.enlarge(index=20, more=0)
    state.fill(cpu=1, index=27, pods=6, priority=0)
    state.enlarge(index=0, more=2)
    state.fill(cpu=2, index=0, pods=6, priority=1)
    state.enlarge(index=15, more=1)
    state.cycle(late=False)
    state.create(again=3, cpu=2, index=0, least=None, pods=1, priority=2)
    state.answer(index=28, written=False)
    state.press(cpu=3, index=11, priority=3)


@pytest.mark.parametrize(
    ("queues", "events"),
    [
        (a_strict_queue_beside_one_that_takes_back, borrower_not_tried),
        (a_strict_queue_beside_one_that_takes_back, victims_named_twice),
        (two_cohorts_above_each_other, place_taken_by_one_that_borrows_less),
    ],
    ids=lambda each: each.__name__,
)
def test_examples_that_once_ended_wrongly_end_rightly(
    queues: Callable[[], Queueing], events: Callable[[Queueing], None]
) -> None:
    machine = queues()
    events(machine)
    machine.books_are_right()
    machine.all_that_may_be_queued_are()
    machine.teardown()
