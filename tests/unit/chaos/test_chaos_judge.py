"""The judge of the chaos tests sees what should never have been."""

from typing import Any

from tests.chaos import report
from tests.chaos.judge import Judge
from tests.chaos.scenarios import Outcome
from tests.harness import objects

Event = tuple[str, str, dict[str, Any]]


def pod(name: str, node: str | None = None, *, phase: str = "Pending", cpu: str = "1") -> Event:
    found = objects.pod(name, cpu, group=name.rpartition("-")[0], node_name=node)
    found["metadata"]["uid"] = name
    found["status"] = {"phase": phase}
    return "MODIFIED", "Pod", found


def workload(name: str, cpu: int, queue: str = "quota") -> Event:
    usage = {"name": "main", "count": 1, "resourceUsage": {"cpu": str(cpu)}}
    admission = {"podSetAssignments": [usage]}
    found = {
        "kind": "Workload",
        "metadata": {"name": name, "uid": name},
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": 1}]},
        "status": {"admission": admission},
    }
    return "MODIFIED", "Workload", found


def judge(*events: Event, capacity: int = 2000, quota: int = 2000) -> Judge:
    return Judge(capacity, quota, {"gang": 2}).replay(events)


def test_a_gang_of_which_all_were_placed_is_whole() -> None:
    found = judge(pod("gang-0", "a"), pod("gang-1", "a"))
    assert (found.faults, found.partial(), found.unplaced()) == ([], [], [])
    assert found.busiest == 2000


def test_a_gang_of_which_one_was_placed_is_partial() -> None:
    found = judge(pod("gang-0", "a"), pod("gang-1"))
    assert found.partial() == ["gang: 1 of 2 were placed"]


def test_a_gang_of_which_none_was_placed_never_started() -> None:
    assert judge(pod("gang-0"), pod("gang-1")).unplaced() == ["gang"]


def test_a_node_that_holds_more_than_it_has_is_a_fault() -> None:
    [fault] = judge(*(pod(f"gang-{number}", "a") for number in range(3))).faults
    assert fault == "node a has 3000m of 2000m taken with pod gang-2"


def test_pods_that_have_ended_or_gone_take_nothing() -> None:
    gone = ("DELETED", *pod("gang-1", "a")[1:])
    ended = pod("gang-0", "a", phase="Succeeded")
    events = pod("gang-0", "a"), ended, pod("gang-1", "a"), gone, pod("gang-2", "a")
    assert judge(*events, capacity=1000).faults == []


def test_a_pod_on_two_nodes_is_a_fault() -> None:
    [fault] = judge(pod("gang-0", "a"), pod("gang-0", "b")).faults
    assert fault == "pod gang-0 was placed on a and then on b"


def test_quota_that_was_exceeded_for_a_moment_is_a_fault() -> None:
    found = judge(workload("first", 1), workload("second", 2))
    assert found.faults == ["queue quota: 3000m of 2000m are held with second"]
    assert found.held == {"quota": 3000}


def test_quota_is_counted_for_each_queue() -> None:
    found = judge(workload("first", 2), workload("second", 2, queue="room"))
    assert found.faults == []


def test_the_report_adds_up_and_says_what_was_lost() -> None:
    fine = Outcome("kill -9", gangs=3, jobs=4)
    fine.kills["etcd"] = 2
    bad = Outcome("etcd compacted", gangs=1, jobs=1, lost=["partial gang: g"])
    bad.faults["compaction"] = 1
    lines = [line for each in (fine, bad) for line in report.of_one(each)]
    assert report.in_all([fine, bad]) == "in all: 2 kills, 1 faults, 4 gangs, 5 Jobs; lost: 1"
    assert "  lost: nothing" in lines
    assert "    partial gang: g" in lines
