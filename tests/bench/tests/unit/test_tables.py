"""Columns, lines and cells of all reports."""

import pytest

from tests.bench.tables import Row, cell, columns, table


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


def test_runs_of_the_same_are_one_column() -> None:
    assert columns([3, 4, 5, 7], lambda number: number % 2) == [[3, 5, 7], [4]]


def test_a_line_without_a_number_is_left_out() -> None:
    rows: list[Row[int]] = [Row("itself", float), Row("nothing", lambda _: None)]
    made = table("numbers", [[1, 3], [4]], rows, heading=lambda each: f"from {each}")

    assert [str(each.header) for each in made.columns] == ["", "from 1", "from 4"]
    assert [[*each.cells] for each in made.columns] == [["itself"], ["2 (1..3)"], ["4"]]
