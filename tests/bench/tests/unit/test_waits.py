"""What the times of pods say about gangs that came while the scheduler ran."""

import pytest

from tests.bench.creation import Pace, PaceError, Turn
from tests.bench.waits import Quantiles, Waits, waits


def test_a_gang_waits_from_its_last_pod_and_from_its_first() -> None:
    created = {"gang-0-0-abcde": 1.0, "gang-0-1-fghij": 3.0}
    bound = {"gang-0-0-abcde": 8.0, "gang-0-1-fghij": 7.0}

    assert waits(created, bound, 2) == Waits(Quantiles(5.0, 5.0), Quantiles(7.0, 7.0), 1.0)


def test_quantiles_are_values_that_were_measured() -> None:
    created = {f"gang-{number}-0": 0.0 for number in range(1, 201)}
    bound = {f"gang-{number}-0": float(number) for number in range(1, 201)}

    found = waits(created, bound, 1)

    assert found is not None
    assert found.from_last == Quantiles(100.0, 198.0)


def test_a_pod_that_is_seen_on_its_node_before_it_is_seen_waited_for_nothing() -> None:
    found = waits({"gang-0-0": 1.0, "gang-0-1": 2.0}, {"gang-0-0": 1.5, "gang-0-1": 1.9}, 2)

    assert found is not None
    assert found.from_last == Quantiles(0.0, 0.0)
    assert found.from_first.p99 == pytest.approx(0.9)


def test_a_gang_that_is_not_whole_does_not_count() -> None:
    created = {"gang-0-0": 0.0, "gang-0-1": 0.0, "gang-1-0": 0.0, "gang-1-1": 0.5}

    found = waits(created, {"gang-0-0": 1.0, "gang-1-0": 2.0, "gang-1-1": 2.0}, 2)

    assert found is not None
    assert found.from_last == Quantiles(1.5, 1.5)
    assert waits(created, {"gang-0-0": 1.0}, 2) is None


def test_pods_that_were_there_before_the_scheduler_waited_for_nothing() -> None:
    assert waits({}, {"gang-0-0": 1.0}, 1) is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("burst", Pace(turn=Turn.BURST)),
        ("next", Pace(turn=Turn.NEXT)),
        ("2", Pace(rate=2.0)),
        ("0.5", Pace(rate=0.5)),
    ],
)
def test_a_pace_is_a_turn_or_a_rate(text: str, want: Pace) -> None:
    assert Pace.parse(text) == want


@pytest.mark.parametrize("text", ["", "0", "-1", "inf", "often", "2/s"])
def test_what_is_no_pace_is_refused(text: str) -> None:
    with pytest.raises(PaceError, match="gangs a second"):
        Pace.parse(text)
