"""What the times of pods say about their gangs."""

from tests.bench.gangs import Gangs, judge


def test_gangs_one_after_the_other() -> None:
    times = {"a-0": 1.0, "a-1": 1.5, "b-0": 2.0, "b-1": 4.0}

    assert judge(times, 2) == Gangs(whole=2, partial=0, partial_peak=1, spread_seconds=1.25)


def test_gangs_member_by_member() -> None:
    times = {"a-0": 1.0, "b-0": 2.0, "a-1": 3.0, "b-1": 4.0}

    assert judge(times, 2) == Gangs(whole=2, partial=0, partial_peak=2, spread_seconds=2.0)


def test_a_gang_that_is_left_partial() -> None:
    times = {"a-0": 1.0, "a-1": 1.5, "b-0": 2.0}

    assert judge(times, 2) == Gangs(whole=1, partial=1, partial_peak=1, spread_seconds=0.5)


def test_nothing_scheduled() -> None:
    assert judge({}, 2) == Gangs(whole=0, partial=0, partial_peak=0, spread_seconds=None)
