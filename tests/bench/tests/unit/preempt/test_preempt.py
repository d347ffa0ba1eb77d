"""The benchmark of preemption: its load, what is counted, and what counts as a fault."""

import json
from collections import Counter
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.bench.__main__ import app
from tests.bench.load import GroupKind, nodes_of
from tests.bench.preempt import report
from tests.bench.preempt.command import Wanted, benches
from tests.bench.preempt.load import HIGH, LOW, Load, LoadError, _pods
from tests.bench.preempt.measures import Measures, measure, remaining
from tests.bench.preempt.runs import Result
from tests.bench.runs import Limits
from tests.bench.shapes import parse
from tests.bench.sides import OURS, PLAIN, plain

LOAD = Load(nodes=4, gangs=4, size=2, preemptors=1)


def pod(name: str, node: str | None = "node-00000", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"name": name}, "spec": {}, "status": {}}
    if node is not None:
        found["spec"]["nodeName"] = node
    for key, value in more.items():
        found[key] |= value
    return found


def made(pods: list[dict[str, Any]], times: dict[str, float]) -> Measures:
    return measure(pods, LOAD, times=times, began=10.0, created=11.0)


LOWS = [pod(name) for name in LOAD.pod_names(LOW)]
HIGHS = [pod(name) for name in LOAD.pod_names(HIGH)]
TIMES = {"high-00000-0": 12.0, "high-00000-1": 13.5, "low-00000-0": 99.0}
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TARGET = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize("interleave", [False, True])
def test_the_gangs_of_low_priority_fill_each_node_to_the_last_pod(*, interleave: bool) -> None:
    load = Load(nodes=3, gangs=4, size=6, preemptors=2, node_cpu="8", interleave=interleave)
    pods = [json.loads(each) for each in _pods(LOW, load, GroupKind())]
    nodes = [json.loads(each) for each in nodes_of(load.low)]
    on = Counter(each["spec"]["nodeName"] for each in pods)
    assert on == {node["metadata"]["name"]: 8 for node in nodes}
    assert load.low.pod_cpu == "1000m"
    assert {each["spec"]["priorityClassName"] for each in pods} == {LOW}
    gangs = {
        node: {n.rsplit("-", 1)[0] for n in load.pod_names(LOW)[8 * k : 8 * k + 8]}
        for k, node in enumerate(on)
    }
    assert {len(each) for each in gangs.values()} == ({4} if interleave else {2})


def test_those_of_high_priority_wait_for_a_scheduler() -> None:
    pods = [json.loads(each) for each in _pods(HIGH, LOAD, GroupKind("label"))]
    assert len(pods) == LOAD.wanted == 2
    assert all("nodeName" not in each["spec"] for each in pods)
    assert {each["metadata"]["labels"]["label"] for each in pods} == {"high-00000"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"nodes": 3}, "do not fill 3 nodes evenly"), ({"preemptors": 5}, "need more room than 4")],
)
def test_a_load_that_is_not_full_or_too_large_is_refused(
    changes: dict[str, int], text: str
) -> None:
    fields = {"nodes": 4, "gangs": 4, "size": 2, "preemptors": 1, **changes}
    with pytest.raises(LoadError, match=text):
        Load(**fields)  # type: ignore[arg-type]


def test_a_gang_that_went_whole_is_as_few_as_can_be() -> None:
    found = made([*LOWS[2:], *HIGHS], TIMES)
    assert (found.bound, found.whole, found.partial) == (2, 1, 0)
    assert (found.evictions, found.gangs_hit, found.left_partial) == (2, 1, 0)
    assert (found.seconds, found.seconds_from_last) == (3.5, 2.5)


def test_pods_of_two_gangs_leave_both_in_part() -> None:
    found = made([LOWS[0], *LOWS[3:], *HIGHS], TIMES)
    assert (found.evictions, found.gangs_hit, found.left_partial) == (2, 2, 2)


@pytest.mark.parametrize("mark", [{"metadata": GONE}, {"status": TARGET}], ids=["goes", "to go"])
def test_what_is_about_to_go_counts_as_evicted(mark: dict[str, Any]) -> None:
    going = pod("low-00000-0", **mark)
    assert remaining([going, *LOWS[1:]]) == 7
    assert made([going, *LOWS[1:]], {}).left_partial == 1


def test_times_are_unknown_while_pods_wait() -> None:
    found = made([*LOWS[2:], HIGHS[0], pod("high-00000-1", None)], {"high-00000-0": 12.0})
    assert (found.bound, found.whole, found.partial) == (1, 0, 1)
    assert (found.seconds, found.seconds_from_last) == (None, None)


def result(side: str, measures: Measures, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "side": side,
        "title": side,
        "repeat": 1,
        "qps": "1000",
        "load": LOAD,
        "measures": measures,
        "overcommits": (),
        "collisions": 0,
        "attempts": 4.0,
        "cpu_seconds": {"reconciler": 0.5},
        "peak_mib": {},
    }
    return Result(**{**fields, **changes})


def test_ours_must_evict_as_few_as_can_be_and_leave_no_gang_in_part() -> None:
    good, bad = made([*LOWS[2:], *HIGHS], TIMES), made([LOWS[0], *LOWS[4:], HIGHS[0]], {})
    assert result(OURS, good).faults == []
    assert result(PLAIN, bad).faults == []
    assert result(PLAIN, good, overcommits=("n0",)).faults == ["n0"]
    assert result(OURS, bad).faults == [
        "0 of 1 gangs of high priority are whole",
        "3 pods were evicted, and 2 were to be",
        "1 gangs of low priority are left in part",
    ]


def test_the_report_has_the_minimum_beside_what_was_evicted() -> None:
    good = result(OURS, made([*LOWS[2:], *HIGHS], TIMES))
    assert report.summary(good) == (
        "3.5 s, 1 of 1 gangs whole, 2 evictions of 2, partial gangs left behind: 0, overcommits: 0"
    )
    [document] = [report.as_builtins([good], LOAD, "1000")]
    assert document["title"] == "4 nodes full of 4 gangs of 2, then 1 of higher priority, QPS 1000"
    assert document["runs"][0]["measures"]["evictions"] == 2
    rows = report.table([good], LOAD, "1000").columns[0].cells
    assert {"evictions", "evictions, at least", "partial gangs left behind"} <= {*rows}


def test_each_of_several_numbers_is_run() -> None:
    wanted = Wanted(
        nodes=[4, 8],
        shapes=parse(["4x4"]),
        qps=["stock", "1000"],
        preemptors=1,
        node_cpu="8",
        interleave=False,
    )
    assert len(benches(wanted, [plain()], None, limits=Limits(), repeat=1)) == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--arrive", "burst"], "neither with"),
        (["--gated"], "neither with"),
        (["--shape", "churn"], "does not go with churn"),
        (["--nodes", "7"], "do not fill 7 nodes evenly"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_wrong_use_is_reported_before_anything_runs(options: list[str], text: str) -> None:
    found = CliRunner().invoke(app, ["--preempt", *options], env={"COLUMNS": "300"})
    assert found.exit_code == 2
    assert text in found.output
