"""What the report says of the modes."""

from typing import Any

from tests.bench.room import report
from tests.bench.room.measures import Measures, OfClass
from tests.bench.room.modes import MODES, QUOTA, ROOM
from tests.bench.room.runs import Result
from tests.bench.room.usage import Usage
from tests.bench.tests.unit.room.makers import load


def _measures(finished: int, waited: int) -> Measures:
    fields: dict[str, Any] = {"waited": waited, "timeouts": 0}
    return Measures(
        start=100.0,
        end=110.0,
        classes={
            "wide": OfClass(
                admitted=2, finished=2, seconds=[0.5, 1.5], made_seconds=[0.4, 0.6], **fields
            ),
            "small": OfClass(
                admitted=9,
                finished=finished,
                seconds=[0.1],
                made_seconds=[0.1],
                waited=0,
                timeouts=0,
            ),
        },
        made=20,
        without_room=6,
        usage=Usage(0.8, 0.1),
        useful=0.6,
    )


def _result(mode: str, finished: int = 8, waited: int = 0, repeat: int = 1) -> Result:
    title = next(each.title for each in MODES if each.key == mode)
    return Result(
        mode=mode,
        title=title,
        repeat=repeat,
        measures=_measures(finished, waited),
        cpu_seconds={"reconciler": 1.5},
    )


def _rows(*results: Result) -> dict[str, list[str]]:
    table = report.table(results, load(), "test")
    cells = [list(column.cells) for column in table.columns]
    return {
        str(row[0]).strip(): [str(each) for each in row[1:]] for row in zip(*cells, strict=True)
    }


def test_the_table_has_a_column_for_each_mode_and_ratios_to_quota_alone() -> None:
    rows = _rows(_result(ROOM), _result(QUOTA, finished=3, waited=2))

    assert rows["Jobs finished/s"] == ["1.00  x2.00", "0.50"]
    assert rows["node usage, % of free CPU"] == ["80.0  x1.00", "80.0"]
    assert rows["then waited for room"] == ["0  x0.00", "2"]
    assert rows["s until all on nodes, median"] == ["0.50  x1.00", "0.50"]
    assert rows["s until all are made, median"] == ["0.40  x1.00", "0.40"]
    assert rows["s until all on nodes, most"] == ["1.50  x1.00", "1.50"]
    assert rows["CPU s, reconciler"] == ["1.5  x1.00", "1.5"]


def test_repeats_are_reported_as_median_and_spread_and_the_ratio_of_medians() -> None:
    rows = _rows(
        *(_result(ROOM), _result(QUOTA, finished=3)),
        *(_result(ROOM, finished=18, repeat=2), _result(QUOTA, finished=13, repeat=2)),
    )

    assert rows["Jobs finished/s"] == ["1.50 (1.00..2.00)  x1.50", "1.00 (0.50..1.50)"]


def test_classes_are_reported_one_by_one() -> None:
    table = report.table([_result(ROOM)], load(), "test")
    names, values = ([str(each) for each in column.cells] for column in table.columns)

    finished = names.index("Jobs finished/s")
    assert names[finished + 1 : finished + 3] == ["  wide", "  small"]
    assert values[finished : finished + 3] == ["1.00", "0.20", "0.80"]


def test_only_workloads_admitted_by_room_must_not_wait_for_it() -> None:
    assert _result(ROOM).faults == []
    assert _result(QUOTA, waited=2).faults == []
    assert _result(ROOM, waited=1).faults == ["1 of 11 admissions waited for room"]


def test_json_has_all_of_it() -> None:
    document = report.as_builtins([_result(ROOM)], load(), "test")

    (run,) = document["runs"]
    assert run["jobs_per_second"] == 1.0
    assert run["faults"] == []
    assert run["measures"]["classes"]["wide"]["seconds"] == [0.5, 1.5]
    assert document["load"]["quota"] == "16000m"
    assert document["title"] == "test: 12 CPU free on 4 nodes, quota 16, 10 s"
