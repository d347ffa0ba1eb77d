"""Columns, lines and cells of all reports."""

import pytest

from tests.bench.series import cell


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param([], "", id="no runs"),
        pytest.param([None, None], "", id="not measured"),
        pytest.param([2.0], "2.0", id="one run"),
        pytest.param([None, 2.0], "2.0", id="measured once"),
        pytest.param([2.0, 2.0], "2.0", id="always the same"),
        pytest.param([3.0, 1.0, 2.5], "2.5 (1.0..3.0)", id="several runs"),
    ],
)
def test_a_cell_shows_all_values(values: list[float | None], want: str) -> None:
    assert cell(values, "{:.1f}") == want
