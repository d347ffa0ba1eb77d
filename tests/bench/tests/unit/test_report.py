"""Medians, ratios, and what is said to be broken."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from tests.bench.creation import Pace
from tests.bench.gangs import Gangs
from tests.bench.report import Comparison, as_json, audited, broken, outcome, rate, show
from tests.bench.tests.unit.results import AUDIT, CASE, CHURN, WHOLE, churn, result
from tests.bench.waits import Quantiles, Waits


def test_ratio_is_to_the_plain_run_of_the_same_repeat() -> None:
    ours = [result("ours", 1, seconds=1.0), result("ours", 2, seconds=1.0)]
    plain = [result("plain", 1, seconds=2.0), result("plain", 2, seconds=3.0)]
    comparison = Comparison(CASE, [plain[0], ours[0], plain[1], ours[1]])

    assert [comparison.ratio(each, lambda run: run.pods_per_second) for each in ours] == [2.0, 3.0]


def test_without_a_plain_run_there_is_no_ratio() -> None:
    ours = result("ours")

    assert Comparison(CASE, [ours]).ratio(ours, lambda run: run.pods_per_second) is None


def test_only_our_gangs_must_be_whole() -> None:
    partial = Gangs(whole=1, partial=1, partial_peak=1, spread_seconds=0.0)

    assert not broken(Comparison(CASE, [result("plain", gangs=partial), result("ours")]))
    assert broken(Comparison(CASE, [result("plain"), result("ours", gangs=partial)])) == [
        "10 nodes, 2 gangs of 5, stock QPS: 1 of 2 gangs are whole, partial gangs: 1 (repeat 1)"
    ]


@pytest.mark.parametrize("side", ["ours", "open", "off"])
def test_gangs_of_each_of_our_sides_must_be_whole(side: str) -> None:
    partial = Gangs(whole=1, partial=1, partial_peak=1, spread_seconds=0.0)

    assert broken(Comparison(CASE, [result("plain"), result(side, gangs=partial)]))


def test_an_overcommit_of_any_side_is_named() -> None:
    over = dataclasses.replace(
        AUDIT, overcommits=[f"node-{number} is over" for number in range(12)]
    )

    sentences = broken(Comparison(CASE, [result("plain", ledger=over), result("ours")]))

    run = "10 nodes, 2 gangs of 5, stock QPS, kube-scheduler, repeat 1"
    assert sentences[0] == f"{run}: node-0 is over"
    assert sentences[-1] == f"{run}: 2 more overcommits"
    assert len(sentences) == 11


def test_a_gang_that_is_partial_by_the_books_and_two_events_about_a_pod_are_named() -> None:
    partial = dataclasses.replace(AUDIT, partial=1)
    twice = dataclasses.replace(AUDIT, repeated_events=3)

    assert broken(Comparison(CASE, [result("ours", ledger=partial)]))
    assert broken(Comparison(CASE, [result("ours", ledger=twice)])) == [
        "10 nodes, 2 gangs of 5, stock QPS, gang-extender, repeat 1: pods with two Events: 3"
    ]
    assert not broken(Comparison(CASE, [result("plain", ledger=twice)]))


def test_collisions_are_counted_and_do_not_end_it() -> None:
    collided = result("ours", ledger=dataclasses.replace(AUDIT, collisions=2))

    assert not broken(Comparison(CASE, [collided]))
    assert audited([collided, collided]) == "overcommits: 0, collisions: 4"


def test_with_gangs_that_cannot_fit_the_ratio_is_to_the_same_side_without_them() -> None:
    ours, peer = churn(seconds=2.0), churn("peer", seconds=8.0)
    runs = [result("ours", seconds=1.0), ours, result("peer", seconds=2.0), peer]
    comparison = Comparison(CHURN, runs)

    assert comparison.ratio(ours, rate) == 0.5
    assert comparison.ratio(peer, rate) == 0.25


def test_where_the_run_without_them_is_missing_there_is_no_ratio() -> None:
    ours = churn()

    assert Comparison(CHURN, [ours, result("ours", repeat=2)]).ratio(ours, rate) is None


@pytest.mark.parametrize(
    ("gangs", "want"),
    [
        pytest.param(WHOLE, [], id="as it should be"),
        pytest.param(
            dataclasses.replace(WHOLE, impossible_bound=5),
            ["2 of 2 gangs are whole, partial gangs: 0, pods bound of gangs that cannot fit: 5"],
            id="a gang that cannot fit is whole",
        ),
        pytest.param(
            dataclasses.replace(WHOLE, partial=1, impossible_bound=3),
            ["2 of 2 gangs are whole, partial gangs: 1, pods bound of gangs that cannot fit: 3"],
            id="a part of it is there",
        ),
    ],
)
def test_no_pod_of_a_gang_that_cannot_fit_may_be_bound(gangs: Gangs, want: list[str]) -> None:
    name = "10 nodes and 4 large ones, 2 gangs of 5 and as many that cannot fit, stock QPS"
    sentences = broken(Comparison(CHURN, [result("ours"), churn(gangs=gangs)]))

    assert sentences == [f"{name}: {sentence} (repeat 1)" for sentence in want]


def test_a_partial_gang_in_the_run_without_the_others_counts_too() -> None:
    partial = Gangs(whole=1, partial=1, partial_peak=1, spread_seconds=0.0)

    assert broken(Comparison(CHURN, [result("ours", gangs=partial), churn()]))


def test_outcome_is_of_all_runs_together_and_unknown_without_any() -> None:
    partial = Gangs(whole=1, partial=1, partial_peak=1, spread_seconds=0.0)

    assert outcome([]) == "partial gangs: unknown"
    assert outcome([result("ours"), result("ours")]) == "partial gangs: 0"
    assert outcome([result("ours", gangs=partial)] * 2) == "partial gangs: 2"


def _shown(comparison: Comparison) -> str:
    out = io.StringIO()
    show(comparison, Console(file=out, width=120))
    return out.getvalue()


def test_the_table_has_a_column_for_each_side_and_no_empty_lines() -> None:
    page = _shown(Comparison(CASE, [result("plain", notes=("stalled",)), result("ours")]))
    lines = {line.strip("│ ").partition("│")[0].strip(): line.split() for line in page.splitlines()}

    assert "kube-scheduler" in page
    assert "gang-extender" in page
    assert lines["pods/s, first to last"].count("10") == 2
    assert "2.00" in lines["filter calls per pod"]
    assert "1.8" in lines["CPU s until the last Event, scheduler"]
    assert "0" in lines["overcommits"]
    assert "bind p50, ms" not in lines
    assert "kube-scheduler, repeat 1: stalled" in page


def test_gangs_that_came_while_the_scheduler_ran_have_lines_of_their_own() -> None:
    case = dataclasses.replace(CASE, pace=Pace(rate=2.0))
    quick, slow = Quantiles(0.5, 1.0), Quantiles(2.0, 4.0)
    runs = [
        result("plain", waits=Waits(slow, slow, 100.0)),
        result("ours", waits=Waits(quick, slow, 100.0)),
        result("plain", 2, waits=Waits(slow, slow, 100.0)),
        result("ours", 2, waits=Waits(slow, slow, 100.0)),
    ]

    page = _shown(Comparison(case, runs))
    lines = [line.strip("│ ") for line in page.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("last pod created"))

    assert "10 nodes, 2 gangs of 5 created 2 a second, stock QPS" in page
    cells = [[each.strip() for each in line.split("│")[1:]] for line in lines[at : at + 2]]
    assert cells == [["2000", "1250 (500..2000)"], ["1.00", "0.62 (0.25..1.00)"]]
    assert any(line.startswith("pods created/s") and "100" in line for line in lines)


def test_the_table_has_a_column_for_each_load() -> None:
    page = _shown(Comparison(CHURN, [result("ours"), churn()]))
    lines = {line.strip("│ ").partition("│")[0].strip(): line.split() for line in page.splitlines()}

    assert "gang-extender, alone" in page
    assert "gang-extender, churn" in page
    assert lines["pods that cannot fit, refused"].count("10") == 1


def test_json_has_rates_and_ratios_of_every_run() -> None:
    runs = [result("plain", seconds=2.0), result("ours", seconds=1.0)]

    (document,) = json.loads(as_json([Comparison(CASE, runs)]))

    assert document["case"]["load"]["nodes"] == 10
    assert [run["side"] for run in document["runs"]] == ["plain", "ours"]
    assert document["runs"][1]["pods_per_second"] == 10.0
    assert document["runs"][1]["pods_per_second_ratio"] == 2.0
    assert document["runs"][1]["gangs"]["whole"] == 2
