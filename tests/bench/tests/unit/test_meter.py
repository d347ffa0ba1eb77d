"""What a process used between two times, from samples of its counter."""

import pytest

from tests.bench.meter import used

SAMPLES = [(1.0, 10.0), (2.0, 12.0), (4.0, 13.0)]


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [
        pytest.param(1.0, 4.0, 3.0, id="from sample to sample"),
        pytest.param(1.5, 3.0, 1.5, id="between samples"),
        pytest.param(0.0, 9.0, 3.0, id="nothing is known outside"),
        pytest.param(5.0, 6.0, 0.0, id="after the last"),
    ],
)
def test_cpu_is_counted_between_two_samples(start: float, end: float, want: float) -> None:
    assert used(SAMPLES, start, end) == want


def test_a_process_without_samples_used_nothing() -> None:
    assert used([], 0.0, 1.0) == 0.0
