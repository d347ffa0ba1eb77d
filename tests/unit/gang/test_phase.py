"""Phases and counts from a group's pods."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.wellknown import Phase
from extender.gang import phase
from extender.state.cluster.records import PodGroupStatusInfo, PodInfo
from tests.makers import pod

NOW = 5000.7
NOTHING = PodGroupStatusInfo()
KINDS: dict[str, dict[str, Any]] = {
    "new": {},
    "bound": {"on": "n"},
    "running": {"on": "n", "phase": "Running"},
    "leaving": {"on": "n", "phase": "Running", "terminating": True},
    "succeeded": {"on": "n", "phase": "Succeeded", "finished": True},
    "failed": {"on": "n", "phase": "Failed", "finished": True},
}


def group(**counts: int) -> list[PodInfo]:
    """Return so many pods of each kind."""
    return [
        pod(f"{kind}-{number}", group="g", owners=("ns/job",), **KINDS[kind])
        for kind, count in counts.items()
        for number in range(count)
    ]


def decide(
    pods: list[PodInfo],
    *,
    need: int = 3,
    done: int | None = None,
    stored: PodGroupStatusInfo = NOTHING,
    now: float = NOW,
    waiting: bool = False,
) -> PodGroupStatusInfo:
    jobs = None if done is None else phase.Jobs(done)
    return phase.decide(pods, need=need, jobs=jobs, stored=stored, now=now, waiting=waiting)


WANT = {
    "no pod yet": ({}, "Pending"),
    "too few pods": ({"new": 2}, "Pending"),
    "too few pods, and they have nodes": ({"running": 2}, "Pending"),
    "enough pods": ({"new": 3}, "PreScheduling"),
    "the first has a node": ({"new": 2, "bound": 1}, "Scheduling"),
    "the first runs": ({"new": 2, "running": 1}, "Scheduling"),
    "one is through and the others wait": ({"new": 2, "succeeded": 1}, "Scheduling"),
    "all have nodes": ({"bound": 3}, "Scheduled"),
    "all but one run": ({"bound": 1, "running": 2}, "Scheduled"),
    "one is through and the others have nodes": ({"bound": 2, "succeeded": 1}, "Scheduled"),
    "all run": ({"running": 3}, "Running"),
    "all run and there are more": ({"running": 3, "new": 2}, "Running"),
    "some are through": ({"running": 1, "succeeded": 2}, "Running"),
    "enough are through, one goes on": ({"running": 1, "succeeded": 3}, "Running"),
    "enough are through, one is being deleted": ({"leaving": 1, "succeeded": 3}, "Running"),
    "all are through": ({"succeeded": 3}, "Finished"),
    "enough are through, others failed": ({"succeeded": 3, "failed": 2}, "Finished"),
    "one failed and was not replaced": ({"running": 2, "failed": 1}, "Failed"),
    "one failed and was replaced": ({"running": 2, "failed": 1, "new": 1}, "Scheduling"),
    "one failed and others are enough": ({"running": 3, "failed": 1}, "Running"),
    "all failed": ({"failed": 3}, "Failed"),
    "one failed, the rest is through": ({"succeeded": 2, "failed": 1}, "Failed"),
    "one is being deleted": ({"running": 2, "leaving": 1}, "Pending"),
    "one is being deleted and replaced": ({"running": 2, "leaving": 1, "new": 1}, "Scheduling"),
}


@pytest.mark.parametrize(("counts", "want"), WANT.values(), ids=WANT)
def test_the_phase_of_a_group_of_three(counts: dict[str, int], want: str) -> None:
    assert decide(group(**counts)).phase == want


def test_a_pod_that_waits_with_a_node_is_the_beginning_of_scheduling() -> None:
    assert decide(group(new=3), waiting=True).phase == "Scheduling"


def test_what_jobs_have_behind_them_counts_though_the_pods_are_gone() -> None:
    assert decide(group(new=1), done=2).phase == "Scheduling"
    assert decide(group(bound=1), done=2).phase == "Scheduled"
    assert decide(group(running=1), done=2).phase == "Running"
    assert decide(group(running=1, succeeded=1), done=2).phase == "Running"
    assert decide(group(succeeded=3), done=3).phase == "Running"


def test_pods_that_are_gone_without_a_job_count_no_more() -> None:
    assert decide([], done=2).phase == "Pending"


def test_the_counts() -> None:
    pods = group(new=1, bound=2, running=3, leaving=1, succeeded=4, failed=5)
    status = decide(pods, need=9)

    found = (status.scheduled, status.running, status.succeeded, status.failed)
    assert found == (9, 3, 4, 5)


def test_the_owners_are_listed_once_each_in_order() -> None:
    owners = [("ns/b",), ("ns/a", "ns/c"), (), ("ns/b",)]
    pods = [pod(f"p-{n}", group="g", owners=each) for n, each in enumerate(owners)]

    assert decide(pods).occupied_by == "ns/a,ns/b,ns/c"


def test_the_start_is_when_there_were_enough_pods_and_stays() -> None:
    assert decide(group(new=2)).started is None
    started = decide(group(new=3))
    assert started.started == 5000.0
    assert decide(group(new=1), stored=started, now=9000).started == 5000.0
    assert decide(group(running=3), stored=started, now=9000).started == 5000.0


def test_the_start_of_pods_that_run_is_theirs_where_their_pod_group_is_made_again() -> None:
    pods = [
        replace(each, bound_at=at) for each, at in zip(group(running=3), (30, 20, 40), strict=True)
    ]
    assert decide(pods).started == 20.0
    ended = replace(pods[1], finished=True, phase="Succeeded")
    assert decide([pods[0], ended, pods[2]]).started == 30.0


def test_a_finished_group_keeps_its_counts_when_its_pods_are_deleted() -> None:
    finished = decide(group(succeeded=3, failed=1))
    fewer = decide(group(succeeded=1), stored=finished, now=9000)
    gone = decide([], stored=fewer, now=9001)

    assert finished == fewer == gone
    assert (gone.phase, gone.succeeded, gone.failed) == ("Finished", 3, 1)
    assert (gone.scheduled, gone.occupied_by) == (3, "ns/job")


def test_a_finished_group_that_gets_new_pods_begins_anew() -> None:
    finished = decide(group(succeeded=3))

    again = decide(group(new=3), stored=finished)
    assert (again.phase, again.succeeded) == ("PreScheduling", 0)


def test_a_finished_group_that_is_asked_for_more_is_not_finished() -> None:
    finished = decide(group(succeeded=3))

    assert decide([], need=4, stored=finished).phase == "Pending"


def test_a_failed_group_recovers_when_the_pod_is_replaced() -> None:
    failed = decide(group(running=2, failed=1))
    assert failed.phase == "Failed"

    assert decide(group(running=3, failed=1), stored=failed).phase == "Running"


COUNTS = st.fixed_dictionaries({kind: st.integers(0, 4) for kind in KINDS})
NEED = st.integers(1, 5)
RUNS = st.lists(COUNTS, min_size=1, max_size=5)


@given(counts=COUNTS, need=NEED)
def test_counts_add_up_and_nothing_is_finished_without_a_success(
    counts: dict[str, int], need: int
) -> None:
    status = decide(group(**counts), need=need)

    assert status.scheduled == counts["bound"] + counts["running"] + counts["succeeded"]
    assert status.running == counts["running"] <= status.scheduled
    if status.phase == Phase.FINISHED:
        assert counts["succeeded"] >= need
        assert not counts["new"] + counts["bound"] + counts["running"] + counts["leaving"]
    if status.phase in {Phase.RUNNING, Phase.SCHEDULED}:
        assert status.scheduled >= need


@given(runs=RUNS, need=NEED)
def test_deciding_again_changes_nothing(runs: list[dict[str, int]], need: int) -> None:
    stored = NOTHING
    for step, counts in enumerate(runs):
        status = decide(group(**counts), need=need, stored=stored, now=1000.0 + step)
        again = decide(group(**counts), need=need, stored=status, now=2000.0 + step)
        assert again == status
        stored = status


@given(runs=RUNS, need=NEED)
def test_but_for_the_end_and_the_start_history_does_not_matter(
    runs: list[dict[str, int]], need: int
) -> None:
    stored = NOTHING
    for counts in runs:
        stored = decide(group(**counts), need=need, stored=stored)
        fresh = decide(group(**counts), need=need)
        if stored.phase != Phase.FINISHED:
            assert replace(stored, started=fresh.started) == fresh
