"""The mean of a sum whose parts come and go."""

from tests.bench.over_time import mean

CHANGES = [(0.0, "a", 2), (4.0, "b", 6), (6.0, "a", 0), (8.0, "b", 1)]


def test_each_amount_counts_until_it_changes() -> None:
    assert mean(CHANGES, start=0, end=10) == (4 * 2 + 2 * 8 + 2 * 6 + 2 * 1) / 10


def test_what_came_before_counts_and_what_comes_after_does_not() -> None:
    assert mean(CHANGES, start=2, end=6) == (2 * 2 + 2 * 8) / 4
    assert mean(CHANGES, start=9, end=10) == 1
    assert mean(CHANGES, start=-10, end=0) == 0


def test_there_is_none_over_no_time() -> None:
    assert mean(CHANGES, start=3, end=3) == 0
    assert mean([], start=0, end=1) == 0
