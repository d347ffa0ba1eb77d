"""What a history comes to."""

import pytest

from tests.bench.room.history import Seen
from tests.bench.room.measures import measure
from tests.bench.room.usage import usage
from tests.bench.tests.unit.room.makers import (
    admitted,
    bound,
    evicted,
    finished,
    load,
    pod,
    workload,
)

SMALL = "small-1"


def test_usage_is_distinguished_from_pods_that_wait_for_others() -> None:
    history = [
        bound(0.0, 0),  # one of two: 4 CPU of 12 wait for the other
        bound(4.0, 1),
        bound(6.0, 0, ended=True),  # the other one goes on
        bound(7.0, 1, ended=True),
        bound(8.0, 0, SMALL),
        bound(9.0, 0, SMALL, gone=True),
    ]

    found = usage(history, load(), start=0.0, end=10.0)

    assert found.idle == pytest.approx(4 * 4 / 120)
    assert found.used == pytest.approx((4 * 4 + 8 * 2 + 4 * 1 + 1 * 1) / 120)


def test_usage_is_that_of_the_window() -> None:
    history = [bound(0.0, 0), bound(1.0, 1), bound(99.0, 0, gone=True), bound(99.0, 1, gone=True)]

    found = usage(history, load(), start=2.0, end=4.0)

    assert found.used == pytest.approx(8 / 12)
    assert found.idle == 0.0


def test_measures_of_a_window() -> None:
    history: list[Seen] = [
        workload(95.0),
        workload(95.0, waits="WaitingForRoom"),
        workload(96.0, "wide-9", waits="WaitingForRoom"),
        workload(97.0, "wide-9", waits="WaitingForQuota"),
        admitted(100.0),
        admitted(100.0, SMALL),
        bound(100.5, 0),
        bound(101.5, 1),
        pod(101.0, 0, SMALL),
        bound(101.0, 0, SMALL),
        finished(102.0, SMALL),
        finished(105.0),
        admitted(106.0, "wide-2"),
        bound(106.0, 0, "wide-2"),
        pod(106.0, 1, "wide-2"),
        evicted(109.0, "wide-2"),
        admitted(111.0, "small-3"),
        finished(112.0, "small-3"),
    ]

    found = measure(history, load())

    assert found is not None
    assert (found.start, found.end, found.window) == (100.0, 110.0, 10.0)
    assert (found.admitted, found.waited, found.timeouts, found.finished) == (3, 1, 1, 2)
    wide, small = found.classes["wide"], found.classes["small"]
    assert (wide.admitted, wide.waited, wide.timeouts, wide.finished) == (2, 1, 1, 1)
    assert (small.admitted, small.waited, small.timeouts, small.finished) == (1, 0, 0, 1)
    assert (found.made, found.without_room) == (4, 2)
    assert found.seconds == [1.0, 1.5]
    assert found.median_seconds == 1.25
    assert found.median_made_seconds == 1.0
    # 8 CPU for 3 s and 1 CPU for 1 s, of 12 CPU for 10 s.
    assert found.useful == pytest.approx(25 / 120)


def test_without_an_admission_there_is_nothing_to_measure() -> None:
    assert measure([workload(1.0)], load()) is None
