"""What the report says of the runs."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.bench.queue import load as loads
from tests.bench.queue import report
from tests.bench.queue.__main__ import app
from tests.bench.queue.measures import Wait
from tests.bench.queue.report import Reference
from tests.bench.queue.runs import Result
from tests.bench.tests.unit.queue.makers import load
from tests.bench.tests.unit.queue.results import measures, result

FASTER = measures(end=101.0)


def _rows(*results: Result) -> dict[str, list[str]]:
    console = Console(file=io.StringIO(), width=120)
    table = report.table(results, load(), "test")
    console.print(table)
    cells = [list(column.cells) for column in table.columns]
    return {
        str(row[0]).strip(): [str(each) for each in row[1:]] for row in zip(*cells, strict=True)
    }


def test_the_table_has_a_column_for_each_controller() -> None:
    rows = _rows(result(), result("other", measures=FASTER))

    assert rows["Workloads/s, first created to last finished"] == ["5.0", "10.0"]
    assert rows["seconds, first created to last finished"] == ["2.0", "1.0"]
    assert rows["seconds to admission, small, mean"] == ["0.25", "0.25"]
    assert rows["seconds to admission, large, p99"] == ["1.50", "1.50"]
    assert rows["mean use of the quota, %"] == ["80.0", "80.0"]
    assert rows["API writes per Workload"] == ["2.50", "2.50"]
    assert rows["evictions"] == ["1", "1"]
    assert rows["events with more than the quota"] == ["0", "0"]
    assert rows["CPU s, controller"] == ["1.5", "1.5"]
    assert rows["peak MiB, controller"] == ["90", "90"]
    assert "CPU s, etcd" not in rows


def test_repeats_are_reported_as_median_and_spread() -> None:
    rows = _rows(result(), result(repeat=2, measures=FASTER))

    assert rows["Workloads/s, first created to last finished"] == ["7.5 (5.0..10.0)"]


def test_what_was_not_admitted_has_no_wait() -> None:
    rows = _rows(result(measures=measures(waits={"small": Wait(1, 2.0, 2.0)})))

    assert "seconds to admission, large, mean" not in rows


def test_the_writes_and_what_is_to_be_known() -> None:
    assert report.notes([result(notes=("ended early",))]) == [
        "gang-extender, repeat 1: writes: 20 PATCH workloads/status, 5 POST events",
        "gang-extender, repeat 1: ended early",
    ]


def test_a_reference_says_that_it_is_of_another_machine() -> None:
    reference = Reference("Another", 2.0, {"small": 1.0, "large": 4.0}, 3.0, 180.0)

    assert report.compared([result(), result(repeat=2, measures=FASTER)], reference) == [
        "Another, run on another 2-core machine: 2 Workloads/s, mean seconds to admission "
        "small 1, large 4, 3 CPU s, 180 MiB. Relative to that run:",
        "gang-extender: Workloads/s x3.75, wait of small x0.25, wait of large x0.25, "
        "CPU x0.50, memory x0.50",
    ]


def test_what_must_not_be_is_a_fault() -> None:
    found = measures(finished=9, broken=3, violations=("a holds 2m of 1m with b",))

    assert result().faults == []
    assert result(measures=found).faults == [
        "9 of 10 Workloads finished",
        "quota was exceeded at 3 events:",
        "a holds 2m of 1m with b",
    ]


def test_json_has_all_of_it() -> None:
    document = json.loads(json.dumps(report.as_builtins([result()], load(), "test")))

    assert document["title"] == "test: 10 Workloads, 2 queues in 1 cohorts"
    assert loads.parse(document["load"]) == load()
    (run,) = document["runs"]
    assert run["workloads_per_second"] == 5.0
    assert run["writes_per_workload"] == 2.5
    assert run["measures"]["waits"]["small"] == {"count": 6, "mean": 0.25, "p99": 0.5}
    assert run["faults"] == []


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(["--repeat", "0"], "--repeat", id="no run"),
        pytest.param(["--config", "no-such-file.yaml"], "no-such-file.yaml", id="no file"),
    ],
)
def test_options_that_mean_nothing_are_wrong_use(options: list[str], want: str) -> None:
    done = CliRunner().invoke(app, options)

    assert done.exit_code == 2
    assert want in done.output


def test_a_bad_load_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "load.yaml"
    file.write_text("cohorts: []")

    done = CliRunner().invoke(app, ["--config", str(file)], env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert "cohorts: List should have at least 1 item" in done.output
