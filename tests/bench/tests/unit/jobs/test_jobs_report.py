"""What the report says of the sides, and what is compared."""

import json

import pytest

from tests.bench.jobs import report, sides
from tests.bench.jobs.runs import Result
from tests.bench.queue import controllers
from tests.bench.tests.unit.jobs.makers import load, measures, result

FASTER = measures(end=102.0)


def _rows(*results: Result) -> dict[str, list[str]]:
    table = report.table(results, load())
    cells = [list(column.cells) for column in table.columns]
    return {str(row[0]): [str(each) for each in row[1:]] for row in zip(*cells, strict=True)}


def test_the_table_has_a_column_for_each_side() -> None:
    rows = _rows(result(), result("other", measures=FASTER))

    assert rows["Jobs/s, first created to last Complete"] == ["3.00", "6.00"]
    assert rows["seconds, created to admitted, median"] == ["0.50", "0.50"]
    assert rows["seconds, created to Complete, p99"] == ["3.00", "3.00"]
    assert rows["mean use of the quota, %"] == ["75.0", "75.0"]
    assert rows["API writes for each Job"] == ["2.50", "2.50"]
    assert rows["API reads for each Job"] == ["0.50", "0.50"]
    assert rows["CPU s, controller"] == ["1.5", "1.5"]
    assert rows["peak MiB, controller"] == ["90", "90"]
    assert "CPU s, extender" not in rows


def test_repeats_are_reported_as_median_and_spread() -> None:
    rows = _rows(result(), result(repeat=2, measures=FASTER))

    assert rows["Jobs/s, first created to last Complete"] == ["4.50 (3.00..6.00)"]


def test_what_was_never_complete_has_no_times() -> None:
    rows = _rows(result(measures=measures(to_complete=None, complete=0)))

    assert "seconds, created to Complete, median" not in rows
    assert "API writes for each Job" not in rows


def test_the_requests_and_what_is_to_be_known() -> None:
    assert report.notes([result(note="stalled")]) == [
        "gang-extender, repeat 1: writes for each Job: 2.00 PATCH workloads/status, "
        "0.50 POST events",
        "gang-extender, repeat 1: reads for each Job: 0.50 GET jobs",
        "gang-extender, repeat 1: stalled",
    ]


def test_what_must_not_be_is_a_fault() -> None:
    found = measures(complete=11, broken=3, violations=("more than there is",))

    assert result().faults == []
    assert result(measures=found).faults == [
        "11 of 12 Jobs are complete",
        "quota was exceeded at 3 events:",
        "more than there is",
    ]


def test_json_has_all_of_it() -> None:
    document = json.loads(json.dumps(report.as_builtins([result()], load())))

    (run,) = document["runs"]
    assert run["jobs_per_second"] == 3.0
    assert run["measures"]["to_admission"] == {"count": 12, "median": 0.5, "p99": 1.5}
    assert document["load"]["quota"] == 1
    assert document["title"] == "12 Jobs of 2 pods of 1 s, created at once, quota for 5"


@pytest.mark.parametrize(
    ("other", "both", "want"),
    [
        pytest.param(False, False, [("ours", False), ("whole", True)], id="ours"),
        pytest.param(True, False, [("external", False)], id="another"),
        pytest.param(
            True, True, [("ours", False), ("external", False), ("whole", True)], id="both"
        ),
    ],
)
def test_only_ours_with_gangs_has_the_extender(
    other: bool, both: bool, want: list[tuple[str, bool]]
) -> None:
    controller = controllers.external("true") if other else None

    found = sides.measured(None, controller, both=both)

    assert [(side.key, side.extender) for side in found] == want
