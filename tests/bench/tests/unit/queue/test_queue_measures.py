"""What a history comes to: waits, rates, use of the quota."""

from typing import Any

import pytest

from tests.bench.percentiles import percentile
from tests.bench.queue.measures import Wait, measure
from tests.bench.tests.unit.queue.makers import admitted, finished, load, seen

LARGE: dict[str, Any] = {"kind": "large", "held": 4000}


def test_a_history() -> None:
    history = [
        seen(10.0, "a"),
        seen(10.5, "b", kind="large", queue=1),
        admitted(11.0, "a"),
        admitted(13.0, "b", **LARGE, queue=1),
        finished(14.0, "a"),
        finished(16.0, "b", kind="large", queue=1),
    ]

    got = measure(history, load())

    assert (got.start, got.end) == (10.0, 16.0)
    assert (got.created, got.admitted, got.finished, got.evictions) == (2, 2, 2, 0)
    assert got.waits == {"small": Wait(1, 1.0, 1.0), "large": Wait(1, 2.5, 2.5)}
    assert (got.broken, got.violations) == (0, ())


def test_quota_is_used_as_long_as_a_workload_waits_for_it() -> None:
    history = [
        seen(0.0, "a"),
        admitted(2.0, "a", **LARGE),  # 4 of 8 CPU for one second
        admitted(3.0, "b", **LARGE, queue=1),  # 8 of 8 for one
        finished(4.0, "a", kind="large"),  # 4 of 8 for four
        admitted(8.0, "c"),  # the last one to be admitted
        admitted(50.0, "c"),
    ]

    assert measure(history, load()).usage == pytest.approx((4 + 8 + 4 * 4) / 8 / 8)


def test_quota_that_is_reserved_and_not_admitted_is_not_used() -> None:
    history = [
        seen(0.0, "a"),
        admitted(0.0, "a", **LARGE, admitted=False),
        admitted(2.0, "a", **LARGE),
        admitted(4.0, "b"),
    ]

    assert measure(history, load()).usage == pytest.approx(4 * 2 / 4 / 8)


def test_the_first_admission_ends_the_wait_and_evictions_are_counted_once() -> None:
    history = [
        seen(0.0, "a"),
        admitted(1.0, "a"),
        admitted(2.0, "a", evicted=True),
        seen(3.0, "a", evicted=True),
        admitted(5.0, "a"),
        admitted(6.0, "a", evicted=True),
    ]

    got = measure(history, load())

    assert got.waits["small"] == Wait(1, 1.0, 1.0)
    assert (got.admitted, got.finished, got.evictions) == (1, 0, 2)


def test_a_violation_is_part_of_it() -> None:
    history = [admitted(float(number), f"w-{number}") for number in range(7)]

    got = measure(history, load())

    assert got.broken == 1
    assert got.violations == ("team-0-queue-0 holds 7000m of at most 6000m with w-6",)


def test_nothing_happened() -> None:
    got = measure([], load())

    assert (got.created, got.end - got.start, got.usage, got.waits) == (0, 0.0, 0.0, {})


def test_nothing_was_admitted() -> None:
    got = measure([seen(1.0, "a"), seen(2.0, "b")], load())

    assert (got.created, got.admitted, got.usage, got.waits) == (2, 0, 0.0, {})


@pytest.mark.parametrize(
    ("values", "q", "want"),
    [
        pytest.param([3.0], 0.99, 3.0, id="one"),
        pytest.param(range(100, 0, -1), 0.99, 99, id="one in a hundred is above"),
        pytest.param(range(1, 51), 0.99, 50, id="of fifty the highest"),
        pytest.param([2.0, 1.0, 4.0, 3.0], 0.5, 2.0, id="half of four"),
    ],
)
def test_a_percentile_is_taken_of_values(values: list[float], q: float, want: float) -> None:
    assert percentile(values, q) == want
