"""The benchmark of preemption: its load, what is counted, and what counts as a fault."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.bench.load import GroupKind, nodes_of
from tests.bench.preempt import HIGH, LOW, Load, Measures, Result, _pods, measure
from tests.bench.sides import OURS, PLAIN

LOAD = Load(nodes=4, gangs=4, size=2, preemptors=1)


def pod(name: str, node: str | None = "node-00000", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"name": name}, "spec": {}, "status": {}}
    if node is not None:
        found["spec"]["nodeName"] = node
    for key, value in more.items():
        found[key] |= value
    return found


def made(pods: list[dict[str, Any]], times: dict[str, float]) -> Measures:
    return measure(pods, LOAD, times=times, began=10.0)


LOWS = [pod(name) for name in LOAD.pod_names(LOW)]
HIGHS = [pod(name) for name in LOAD.pod_names(HIGH)]
TIMES = {"high-00000-0": 12.0, "high-00000-1": 13.5, "low-00000-0": 99.0}
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TARGET = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_the_gangs_of_low_priority_fill_each_node_to_the_last_pod() -> None:
    load = Load(nodes=3, gangs=4, size=6, preemptors=2, node_cpu="8")
    pods = [json.loads(each) for each in _pods(LOW, load, GroupKind())]
    nodes = [json.loads(each) for each in nodes_of(load.low)]
    on = Counter(each["spec"]["nodeName"] for each in pods)
    assert on == {node["metadata"]["name"]: 8 for node in nodes}
    assert load.low.pod_cpu == "1000m"
    assert {each["spec"]["priorityClassName"] for each in pods} == {LOW}


def test_a_gang_that_went_whole_is_as_few_as_can_be() -> None:
    found = made([*LOWS[2:], *HIGHS], TIMES)
    assert (found.bound, found.whole, found.partial) == (2, 1, 0)
    assert (found.evictions, found.gangs_hit, found.left_partial) == (2, 1, 0)
    assert found.seconds == 3.5


def test_pods_of_two_gangs_leave_both_in_part() -> None:
    found = made([LOWS[0], *LOWS[3:], *HIGHS], TIMES)
    assert (found.evictions, found.gangs_hit, found.left_partial) == (2, 2, 2)


@pytest.mark.parametrize("mark", [{"metadata": GONE}, {"status": TARGET}], ids=["goes", "to go"])
def test_what_is_about_to_go_counts_as_evicted(mark: dict[str, Any]) -> None:
    going = pod("low-00000-0", **mark)
    assert made([going, *LOWS[1:]], {}).left_partial == 1


def test_times_are_unknown_while_pods_wait() -> None:
    found = made([*LOWS[2:], HIGHS[0], pod("high-00000-1", None)], {"high-00000-0": 12.0})
    assert (found.bound, found.whole, found.partial) == (1, 0, 1)
    assert found.seconds is None


def result(side: str, measures: Measures, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "side": side,
        "title": side,
        "repeat": 1,
        "load": LOAD,
        "measures": measures,
        "overcommits": (),
        "collisions": 0,
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
