"""The one line of a case."""

from tests.bench.report import Comparison
from tests.bench.summary import line
from tests.bench.tests.unit.results import CASE, CHURN, churn, result


def test_both_clocks_and_their_ratios_to_the_plain_runs() -> None:
    runs = [
        result("plain", 1, seconds=2.0),
        result("ours", 1, seconds=1.0),
        result("plain", 2, seconds=2.0),
        result("ours", 2, seconds=0.5),
    ]

    assert line(Comparison(CASE, runs)) == (
        "10 nodes, 2 gangs of 5, stock QPS: kube-scheduler alone → with gang-extender: "
        "first to last 5 → 15 (10..20) pods/s, ratio 3.00 (2.00..4.00); "
        "ready to last 2 → 8 (5..10) pods/s, ratio 3.00 (2.00..4.00); "
        "partial gangs: 0; overcommits: 0, collisions: 0"
    )


def test_gangs_that_cannot_fit_are_compared_with_our_run_without_them() -> None:
    runs = [result("ours", seconds=1.0), churn(seconds=2.0), result("peer"), churn("peer")]

    assert line(Comparison(CHURN, runs)) == (
        "10 nodes and 4 large ones, 2 gangs of 5 and as many that cannot fit, stock QPS: "
        "gangs that fit, alone → among the others: "
        "first to last 10 → 5 pods/s, ratio 0.50; "
        "ready to last 5 → 2 pods/s, ratio 0.50; "
        "goal 0.9; "
        "partial gangs: 0, pods bound of gangs that cannot fit: 0; "
        "overcommits: 0, collisions: 0; "
        "not kube-scheduler alone: it would place pods of gangs that cannot fit"
    )


def test_what_was_not_run_is_unknown() -> None:
    assert line(Comparison(CASE, [result("plain")])) == (
        "10 nodes, 2 gangs of 5, stock QPS: kube-scheduler alone → with gang-extender: "
        "first to last 10 → unknown pods/s, ratio unknown; "
        "ready to last 5 → unknown pods/s, ratio unknown; "
        "partial gangs: unknown; overcommits: unknown"
    )
