"""What becomes of gangs: how they are judged, how long they waited, and what the table says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner
from typing_extensions import override

from tests.bench.__main__ import app
from tests.bench.creation import Pace, PaceError
from tests.bench.gangs import Gangs, Quantiles, Waits, judge, waits
from tests.bench.load import Load, LoadError, Shape, shapes
from tests.bench.runs import Bench, Case, Column, Result
from tests.bench.series import Limits, play
from tests.bench.sides import Side, ours, plain

CASE = Case(load=Load(nodes=10, gangs=2, size=5), qps="stock")
CHURN = replace(CASE, load=CASE.load.churned())
WHOLE = Gangs(whole=2, partial=0)


def result(side: str, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "side": side,
        "title": side,
        "repeat": 1,
        "load": CASE.load,
        "refused": 0,
        "scheduled": 10,
        "seconds": 1.0,
        "gangs": WHOLE,
        "overcommits": (),
        "collisions": 0,
        "partial": 0,
        "cpu_seconds": {"extender": 0.05} if side == "ours" else {},
        "peak_mib": {},
    }
    return Result(**{**fields, **changes})


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
    found = judge(bound, seen, 2)

    assert (found.whole, found.partial, found.impossible_bound) == want


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, [], id="as it should be"),
        pytest.param({"gangs": Gangs(whole=1, partial=1)}, ["1 of 2 gangs are whole, 1 partial"]),
        pytest.param({"partial": 1}, ["2 of 2 gangs are whole, 1 partial"], id="by the books"),
        pytest.param(
            {"gangs": replace(WHOLE, impossible_bound=5)},
            ["pods bound of gangs that cannot fit: 5"],
        ),
        pytest.param({"overcommits": ["node-0 is over"]}, ["node-0 is over"], id="overcommit"),
        pytest.param({"collisions": 2}, [], id="collisions do not end it"),
    ],
)
def test_what_must_not_be_of_our_gangs_is_named(changes: dict[str, Any], want: list[str]) -> None:
    assert result("ours", **changes).faults == want
    assert result("plain", **changes).faults == list(changes.get("overcommits", ()))


def test_a_gang_waits_from_its_last_pod_and_from_its_first() -> None:
    created = {"gang-0-0-abcde": 1.0, "gang-0-1-fghij": 3.0, "gang-1-0": 0.0, "gang-1-1": 0.0}
    bound = {"gang-0-0-abcde": 8.0, "gang-0-1-fghij": 7.0, "gang-1-0": 1.0}

    # The second gang is not whole.
    assert waits(created, bound, 2) == Waits(Quantiles(5.0, 5.0), Quantiles(7.0, 7.0))
    # A watch may show a pod on its node before the other one shows it at all.
    early = waits({"gang-0-0": 1.0}, {"gang-0-0": 0.5}, 1)
    assert early == Waits(Quantiles(0.0, 0.0), Quantiles(0.0, 0.0))
    assert waits({}, {"gang-0-0": 1.0}, 1) is None


class Played(Bench):
    """A case whose runs are given."""

    def __init__(self, case: Case, runs: list[Result], *sides: Side) -> None:
        super().__init__(case, sides or [plain(), ours()], Limits(), 2)
        self.runs = {(run.side, run.load.impossible, run.repeat): run for run in runs}

    @override
    def measure(self, side: Column, repeat: int) -> Result:
        found = self.runs.get((side.side.key, side.churn, repeat))
        if found is None:
            raise RuntimeError("the control plane did not start")
        return replace(found, title=side.title)


def cells(bench: Bench) -> dict[str, list[str]]:
    """Return the cells of each line of the table; of lines of one name the first."""
    bench.run(lambda: None)
    console = Console(width=160)
    with console.capture() as captured:
        bench.show(console)
    found: dict[str, list[str]] = {}
    for line in captured.get().splitlines():
        parts = line.replace("┃", "│").removeprefix("│").removesuffix("│").split("│")
        name, *values = (each.strip() for each in parts)
        found.setdefault(name, values)
    return found


def test_the_table_has_a_column_for_each_side_and_ratios_of_the_same_repeat() -> None:
    waited = Waits(Quantiles(2.0, 4.0), Quantiles(2.0, 4.0))
    runs = [
        result("plain", seconds=2.0, waits=waited),
        result("ours", waits=replace(waited, from_last=Quantiles(0.5, 1.0))),
        result("plain", repeat=2, seconds=4.0, notes=["stalled"]),
        result("ours", repeat=2, seconds=2.0),
    ]
    bench = Played(replace(CASE, pace=Pace(rate=2.0)), runs)
    found = cells(bench)

    assert bench.name == "10 nodes, 2 gangs of 5 created 2 a second, stock QPS"
    assert found[""] == ["kube-scheduler", "gang-extender"]
    assert found["pods/s"] == ["4 (2..5)", "8 (5..10)"]
    assert found["ratio"] == ["1.00", "2.00"]
    assert found["last pod created to last on a node, p50, ms"] == ["2000", "500"]
    assert found["extender, CPU ms a pod"] == ["", "5.00"]
    assert "pods that cannot fit, refused" not in found
    assert found["kube-scheduler, repeat 2: stalled"] == []


def test_gangs_that_cannot_fit_are_compared_with_our_runs_without_them() -> None:
    runs = [result("ours"), result("ours", load=CHURN.load, seconds=2.0, refused=10)]
    found = cells(Played(CHURN, runs))

    assert found[""] == ["gang-extender, alone", "gang-extender, churn"]
    assert found["ratio"] == ["1.00", "0.50"]
    assert found["pods that cannot fit, refused"] == ["", "10"]


def test_everything_is_written_and_what_failed_ends_with_one(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    good = Played(CASE, [result("ours", repeat=repeat) for repeat in (1, 2)], ours())
    assert play([good], file) == 0
    [written] = json.loads(file.read_bytes())
    assert [written["load"]["load"]["nodes"], len(written["runs"])] == [10, 2]
    run = written["runs"][1]
    assert (run["repeat"], run["pods_per_second"], run["gangs"]["whole"]) == (2, 10.0, 2)

    partial = result("ours", gangs=Gangs(whole=1, partial=1))
    bad = Played(CASE, [partial], ours())
    assert play([bad], file) == 1
    assert bad.failures == [
        "10 nodes, 2 gangs of 5, stock QPS, gang-extender 1/2: 1 of 2 gangs are whole, 1 partial",
        "10 nodes, 2 gangs of 5, stock QPS, gang-extender 2/2: the run failed",
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("100x50", [Shape(100, 50)], id="one"),
        pytest.param("5000x1, 1x5000", [Shape(5000, 1), Shape(1, 5000)], id="with commas"),
        pytest.param("churn:3x4", [Shape(3, 4, churn=True)], id="with others that cannot fit"),
        pytest.param("churn", [Shape(50, 50, churn=True)], id="by name"),
    ],
)
def test_shapes_are_parsed(text: str, want: list[Shape]) -> None:
    assert shapes([text]) == want
    every = shapes(["all"])
    assert {each.gangs * each.size * (1 + each.churn) for each in every} == {5000}


@pytest.mark.parametrize("text", ["", "100", "0x5", "-1x5", "5 x 5", "chrun:3x4", "churn:3x1"])
def test_what_is_no_shape_is_an_error(text: str) -> None:
    with pytest.raises(LoadError):
        shapes([text])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("burst", Pace()),
        ("0.5", Pace(rate=0.5)),
        *((wrong, None) for wrong in ("", "0", "-1", "inf", "often", "2/s")),
    ],
)
def test_a_pace_is_a_burst_or_a_rate(text: str, want: Pace | None) -> None:
    if want is not None:
        assert Pace.parse(text) == want
        return
    with pytest.raises(PaceError, match="gangs a second"):
        Pace.parse(text)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param("--shape 1x81", "take 80 pods, not 81", id="too many pods"),
        pytest.param("--shape churn:1x1", "a gang of one", id="no shape"),
        pytest.param("--shape 1x1 --arrive soon", "'soon' is neither", id="no pace"),
        pytest.param("--shape churn:1x2 --arrive 1", "does not go with churn", id="churn of Jobs"),
        pytest.param("--preempt --bare", "goes neither with", id="no victims alone"),
        pytest.param("--preempt --arrive burst", "goes neither with", id="no victims that come"),
        pytest.param("--preempt --shape churn", "does not go with churn", id="no victims of churn"),
        pytest.param("--preempt --nodes 7", "do not fill 7 nodes evenly", id="not full"),
        pytest.param("--native --arrive burst", "--native goes with no", id="no native Jobs"),
    ],
)
def test_wrong_use_is_an_error_before_anything_runs(options: str, want: str) -> None:
    ran = CliRunner().invoke(app, ["--nodes", "1", *options.split()], env={"COLUMNS": "300"})

    assert ran.exit_code == 2
    assert want in ran.output
