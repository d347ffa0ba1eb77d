"""What becomes of jobs in virtual time, by the decisions of both processes."""

from dataclasses import replace
from typing import Any

import pytest

from extender.state.queue.records import CheckRule, ClusterQueueInfo
from gang_tools.simulate.engine import Simulation
from gang_tools.simulate.from_scenario import world_of
from gang_tools.simulate.report import play, play_all
from gang_tools.simulate.scenario import Scenario
from gang_tools.simulate.world import SimJob
from tests.recount import check_tables

JOBS = dict[str, SimJob]


def scenario(*jobs: dict[str, Any], nodes: int = 2, cpu: int = 4, **more: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "nodes": [{"name": "node", "count": nodes, "allocatable": {"cpu": cpu}}],
            "jobs": [{"runFor": 100, "requests": {"cpu": 1}, **job} for job in jobs],
            "step": 0,
            **more,
        }
    )


def played(*jobs: dict[str, Any], alone: bool = False, **more: Any) -> tuple[Simulation, JOBS]:
    found = play(world_of(scenario(*jobs, **more)), alone=alone)
    check_tables(found.cluster)
    return found, {job.name: job for job in found.world.jobs}


GANGS = (
    {"name": "a", "pods": 4, "requests": {"cpu": 3}, "gang": {}},
    {"name": "b", "pods": 4, "requests": {"cpu": 3}, "gang": {}},
)


def test_a_pod_that_is_bound_and_preempted_in_one_moment_runs_once_more() -> None:
    low = {"requests": {"cpu": 2}, "arrivals": {"at": [10]}}
    gang = {"name": "gang", "pods": 2, "priority": 5, "gang": {}, "arrivals": {"at": [10]}}
    found, jobs = played(
        {**low, "name": "first", "arrivals": {"at": [0]}},
        {**gang, "requests": {"cpu": 4}},
        {**low, "name": "low"},
    )
    assert jobs["low-0"].preempted == 1
    assert (jobs["gang-0"].started, jobs["low-0"].ended) == (10, 210)
    assert found.finished == 3


def test_two_gangs_that_would_block_each_other_run_one_after_the_other() -> None:
    found, jobs = played(*GANGS, nodes=6)
    assert [jobs[name].started for name in ("a-0", "b-0")] == [0, 100]
    assert (found.half_placed, found.finished) == (0, 2)


def test_with_kube_scheduler_alone_they_block_each_other_for_ever() -> None:
    found, jobs = played(*GANGS, nodes=6, alone=True)
    assert [len(job.bound) for job in jobs.values()] == [3, 3]
    assert all(job.started is None for job in jobs.values())
    assert (found.half_placed, found.finished) == (2, 0)


def test_a_gang_starts_with_its_least_number_and_the_others_follow() -> None:
    _, jobs = played(
        {"name": "short", "pods": 6, "runFor": 10},
        {"name": "gang", "pods": 4, "gang": {"minMember": 2}, "arrivals": {"at": [1]}},
    )
    assert jobs["gang-0"].started == 1
    assert jobs["gang-0"].ended == pytest.approx(110)  # two came at 10, when the others had ended


def test_pods_come_by_priority_and_then_by_time() -> None:
    _, jobs = played(
        {"name": "first", "pods": 8, "runFor": 10},
        {"name": "low", "requests": {"cpu": 4}, "arrivals": {"at": [1]}},
        {"name": "high", "priority": 5, "requests": {"cpu": 4}, "arrivals": {"at": [2]}},
        {"name": "late", "requests": {"cpu": 4}, "arrivals": {"at": [3]}},
        nodes=2,
    )
    assert [jobs[f"{name}-0"].started for name in ("high", "low", "late")] == [10, 10, 110]


def test_a_pod_goes_to_the_node_that_has_most_left() -> None:
    found, _ = played({"name": "pod", "count": 2}, until=1)
    assert sorted(pod.node or "" for pod in found.view.pods.values()) == ["node-0", "node-1"]


QUEUE = {"name": "queue", "quota": {"cpu": 4}}


def test_a_queue_admits_by_quota_in_the_order_of_priority() -> None:
    _, jobs = played(
        {"name": "first", "queue": "queue", "pods": 4, "runFor": 10},
        {"name": "low", "queue": "queue", "pods": 4, "arrivals": {"at": [1]}},
        {"name": "high", "queue": "queue", "pods": 4, "priority": 5, "arrivals": {"at": [2]}},
        queues=[QUEUE],
    )
    assert [jobs[f"{name}-0"].admitted for name in ("first", "high", "low")] == [0, 10, 110]


def test_a_job_of_higher_priority_preempts_in_its_queue() -> None:
    found, jobs = played(
        {"name": "low", "queue": "queue", "pods": 4},
        {"name": "high", "queue": "queue", "pods": 4, "priority": 5, "arrivals": {"at": [10]}},
        queues=[{**QUEUE, "preemption": {"withinClusterQueue": "LowerPriority"}}],
    )
    assert (jobs["high-0"].started, jobs["low-0"].preempted, found.preemptions) == (10, 1, 1)
    # It begins anew when the other has ended, with all of its time before it.
    assert jobs["low-0"].ended == pytest.approx(210)


def test_quota_is_reclaimed_from_another_queue_of_the_cohort() -> None:
    team = {"quota": {"cpu": 4}, "cohort": "all", "preemption": {"reclaimWithinCohort": "Any"}}
    found, jobs = played(
        {"name": "lent", "queue": "a", "pods": 8},
        {"name": "own", "queue": "b", "pods": 4, "arrivals": {"at": [10]}},
        queues=[{"name": "a", **team}, {"name": "b", **team}],
    )
    assert jobs["own-0"].started == 10
    assert (jobs["lent-0"].preempted, found.finished) == (1, 2)


def test_with_room_a_job_waits_for_nodes_and_its_pods_start_together() -> None:
    wide = {"name": "wide", "queue": "queue", "pods": 2, "requests": {"cpu": 3}}
    found, jobs = played(
        {"name": "pods", "pods": 2, "requests": {"cpu": 2}, "runFor": 50},
        {**wide, "arrivals": {"at": [1]}},
        queues=[{"name": "queue", "quota": {"cpu": 100}, "requireRoom": True}],
    )
    assert (jobs["wide-0"].admitted, jobs["wide-0"].started) == (50, 50)
    assert found.admission.waits == {}
    assert found.half_placed == 0


def test_without_room_a_job_that_is_not_ready_in_time_goes_back_to_its_queue() -> None:
    found, jobs = played(
        {"name": "pods", "pods": 2, "requests": {"cpu": 4}, "runFor": 5000},
        {"name": "job", "queue": "queue", "arrivals": {"at": [1]}},
        queues=[QUEUE],
        settings={"queue": {"waitForPodsReady": {"timeout": "10m"}}},
    )
    assert found.evictions > 0
    assert jobs["job-0"].started is not None
    assert jobs["job-0"].started >= 5000
    assert found.finished == 2


def test_a_gang_of_higher_priority_preempts_a_whole_gang() -> None:
    found, jobs = played(
        {"name": "low", "pods": 4, "requests": {"cpu": 2}, "gang": {}},
        {"name": "high", "pods": 2, "requests": {"cpu": 3}, "gang": {}, "priority": 5,
         "arrivals": {"at": [10]}},
    )  # fmt: skip
    assert (jobs["high-0"].started, jobs["low-0"].preempted) == (10, 1)
    assert jobs["low-0"].ended == pytest.approx(210)
    assert (found.half_placed, found.finished) == (0, 2)


def test_strict_order_lets_no_group_pass() -> None:
    jobs = (
        {"name": "pods", "pods": 2, "requests": {"cpu": 2}, "runFor": 50},
        {"name": "wide", "pods": 2, "requests": {"cpu": 3}, "gang": {}, "arrivals": {"at": [1]}},
        {"name": "small", "pods": 2, "gang": {}, "arrivals": {"at": [2]}},
    )
    _, free = played(*jobs)
    _, strict = played(*jobs, settings={"gang": {"strictOrder": True}})
    assert (free["small-0"].started, strict["small-0"].started) == (2, 50)


def test_a_job_that_fits_nowhere_waits_and_says_why() -> None:
    found, jobs = played(
        {"name": "huge", "pods": 2, "requests": {"cpu": 5}, "gang": {}},
        {"name": "small", "runFor": 5},
    )
    assert jobs["huge-0"].started is None
    assert "even with all nodes empty" in found.why_waiting(jobs["huge-0"])
    assert found.clock.now < 3600


def test_it_ends_at_its_time() -> None:
    found, jobs = played({"name": "job", "arrivals": {"every": 10, "count": 100}}, until=45)
    assert found.clock.now == 45
    assert len(jobs) == 5


def test_equal_scenarios_come_to_equal_ends() -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "a", "queue": "queue", "pods": 3, "runFor": {"uniform": [5, 50]},
         "arrivals": {"poissonPerHour": 300, "count": 40}, "gang": {}},
        {"name": "b", "runFor": {"lognormal": {"median": 20}},
         "arrivals": {"poissonPerHour": 300, "count": 40}},
    ]  # fmt: skip
    first, again = (play_all(world_of(scenario(*jobs, queues=[QUEUE]))) for _ in range(2))
    assert first == again
    assert first.gang_extender.finished == 80
    assert first.gang_extender.partial_gangs == 0


def test_what_is_counted_is_what_was_used() -> None:
    found, _ = played(
        {"name": "job", "queue": "queue", "pods": 2, "runFor": 50},
        {"name": "rest", "requests": {"cpu": 4}, "runFor": 100},
        queues=[QUEUE],
    )
    assert found.books.mean(100)["cpu"] == 5000
    assert found.books.held_area["queue"]["default", "cpu"] == 2000 * 50
    assert found.books.held_most["queue"]["default", "cpu"] == 2000


def test_members_beyond_the_least_number_get_one_node_each() -> None:
    gangs = {"name": "a", "pods": 3, "requests": {"cpu": 2}, "count": 3, "gang": {"minMember": 2}}
    _, jobs = played({**gangs, "runFor": 10}, nodes=4, cpu=2)

    assert all(job.ended is not None for job in jobs.values())
    assert all(not job.pods for job in jobs.values())


def test_admission_checks_are_taken_for_passed() -> None:
    world = world_of(scenario({"name": "job", "queue": "queue"}, queues=[QUEUE]))
    records = [
        replace(each, admission_checks=(CheckRule("budget"),))
        if isinstance(each, ClusterQueueInfo)
        else each
        for each in world.records
    ]
    found = play(replace(world, records=records))
    assert found.finished == 1
