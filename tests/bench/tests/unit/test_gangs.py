"""What the times of pods say about their gangs."""

import pytest

from tests.bench.gangs import Gangs, at_the_end, judge


def test_gangs_one_after_the_other() -> None:
    times = {"gang-a-0": 1.0, "gang-a-1": 1.5, "gang-b-0": 2.0, "gang-b-1": 4.0}

    assert judge(times, 2) == Gangs(whole=2, partial=0, partial_peak=1, spread_seconds=1.25)


def test_gangs_member_by_member() -> None:
    times = {"gang-a-0": 1.0, "gang-b-0": 2.0, "gang-a-1": 3.0, "gang-b-1": 4.0}

    assert judge(times, 2) == Gangs(whole=2, partial=0, partial_peak=2, spread_seconds=2.0)


def test_a_gang_that_is_left_partial() -> None:
    times = {"gang-a-0": 1.0, "gang-a-1": 1.5, "gang-b-0": 2.0}

    assert judge(times, 2) == Gangs(whole=1, partial=1, partial_peak=1, spread_seconds=0.5)


def test_nothing_scheduled() -> None:
    assert judge({}, 2) == Gangs(whole=0, partial=0, partial_peak=0, spread_seconds=None)


@pytest.mark.parametrize(
    ("bound", "seen", "want"),
    [
        pytest.param({"gang-0-0", "gang-0-1"}, set(), (1, 0, 0), id="whole"),
        pytest.param({"gang-0-0"}, {"gang-0-0"}, (0, 1, 0), id="partial"),
        pytest.param({"gang-0-0"}, {"gang-0-0", "gang-0-1"}, (0, 1, 0), id="one went away"),
        pytest.param(set(), {"gang-0-0"}, (0, 1, 0), id="was partial, and all went away"),
        pytest.param({"gang-0-0", "gang-0-1"}, {"gang-0-0"}, (1, 0, 0), id="the watch is late"),
        pytest.param({"impossible-0-0"}, set(), (0, 1, 1), id="a part of what cannot fit"),
        pytest.param({"impossible-0-0", "impossible-0-1"}, set(), (0, 0, 2), id="all of it"),
        pytest.param(set(), {"impossible-0-0"}, (0, 1, 1), id="it went away again"),
    ],
)
def test_gangs_are_judged_at_the_end(
    bound: set[str], seen: set[str], want: tuple[int, int, int]
) -> None:
    found = at_the_end(judge({}, 2), bound=bound, seen=seen, size=2)

    assert (found.whole, found.partial, found.impossible_bound) == want
