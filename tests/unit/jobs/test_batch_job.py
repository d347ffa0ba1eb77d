"""A batch Job: what it asks for, what is done, what is ready, how it starts and stops."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.jobs.job import Step
from extender.jobs.templates import Placement, PlacementError
from tests.unit.jobs.scene import UID, body_of, job, sent

LEAST = {"kueue.x-k8s.io/job-min-parallelism": "2"}
SYNCED = {**LEAST, "kueue.x-k8s.io/job-completions-equal-parallelism": "true"}


@pytest.mark.parametrize(
    ("parallelism", "completions", "want"), [(2, 5, 2), (5, 2, 2), (3, 3, 3), (0, 3, 0)]
)
def test_a_job_begins_with_no_more_pods_than_it_needs(
    parallelism: int, completions: int, want: int
) -> None:
    (pod_set,) = job("work", parallelism, completions).pod_sets()
    assert (pod_set.name, pod_set.count, pod_set.min_count) == ("main", want, None)


def test_a_work_queue_begins_with_all_it_may() -> None:
    queue = job("work", 3)
    del body_of(queue)["spec"]["completions"]
    assert [each.count for each in queue.pod_sets()] == [3]


def test_a_work_queue_has_no_new_pods_once_one_has_succeeded() -> None:
    """The others do what is left; however they end, none takes their place."""
    status = {"active": 3, "ready": 2, "failed": 1}
    work = job("work", 4, status=status)
    del body_of(work)["spec"]["completions"]
    assert work.reclaimable_pods() == {}
    status["succeeded"] = 1
    work.object["status"] = status
    assert work.reclaimable_pods() == {"main": 1}
    assert not work.pods_ready()
    work.object["status"] = {**status, "active": 2}
    assert work.reclaimable_pods() == {"main": 2}
    assert work.pods_ready()
    fresh = {"uncountedTerminatedPods": {"succeeded": ["u"]}}
    work.object["status"] = {"active": 2, "ready": 2, **fresh}
    assert work.pods_ready()


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 8))
def test_what_is_reclaimed_is_what_will_not_run_again(p: int, c: int, done: int) -> None:
    """Quota left is that of the pods that still run, however P and C are to each other."""
    work = job("work", p, c, status={"succeeded": done})
    left = min(min(p, c), max(0, c - done))
    assert work.reclaimable_pods().get("main", 0) == min(p, c) - left


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, {}),
        ({"completedIndexes": "0"}, {}),
        ({"completedIndexes": "0,2-3"}, {"main": 1}),
        ({"completedIndexes": "0-1", "failedIndexes": "1-2"}, {"main": 1}),
        ({"completedIndexes": "0-2", "failedIndexes": "4"}, {"main": 2}),
        ({"completedIndexes": "0,7-9", "failedIndexes": "x,1-"}, {}),
        ({"succeeded": 3}, {}),
    ],
)
def test_an_indexed_job_is_done_with_indexes(status: dict[str, Any], want: dict[str, int]) -> None:
    assert job("work", 3, 5, indexed=True, status=status).reclaimable_pods() == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, False),
        ({"ready": 1}, False),
        ({"ready": 2}, True),
        ({"succeeded": 2, "ready": 0}, False),
        ({"succeeded": 3, "ready": 1}, True),
        ({"succeeded": 2, "ready": 1, "uncountedTerminatedPods": {"succeeded": ["u"]}}, True),
        ({"succeeded": 4}, True),
    ],
)
def test_the_pods_that_should_run_now_have_to_be_ready(status: dict[str, Any], want: bool) -> None:
    assert job("work", 2, 4, status=status).pods_ready() is want


def test_an_index_that_failed_for_good_is_not_waited_for() -> None:
    status = {"completedIndexes": "0", "failedIndexes": "1", "ready": 1}
    assert job("work", 3, indexed=True, status=status).pods_ready()
    del status["failedIndexes"]
    assert not job("work", 3, indexed=True, status=status).pods_ready()


@pytest.mark.parametrize(
    ("annotations", "status", "want"),
    [
        (LEAST, {}, 2),
        ({"kueue.x-k8s.io/job-min-parallelism": "4"}, {}, None),
        ({"kueue.x-k8s.io/job-min-parallelism": "0"}, {}, None),
        ({"kueue.x-k8s.io/job-min-parallelism": "few"}, {}, None),
        ({"kueue.x-k8s.io/job-min-parallelism": "1" * 5000}, {}, None),
        (SYNCED, {}, 2),
        (SYNCED, {"completedIndexes": "3"}, None),
    ],
)
def test_a_job_says_with_how_few_pods_it_can_do(
    annotations: dict[str, str], status: dict[str, Any], want: int | None
) -> None:
    work = job("work", 4, indexed=True, own_annotations=annotations, status=status)
    assert work.pod_sets()[0].min_count == want


@pytest.mark.parametrize(
    ("annotations", "given_to", "want"),
    [
        (LEAST, 2, {"parallelism": 2, "completions": 4}),
        (SYNCED, 2, {"parallelism": 2, "completions": 2}),
        (LEAST, 4, {"parallelism": 4, "completions": 4}),
        ({}, 2, {"parallelism": 4, "completions": 4}),
    ],
)
def test_less_quota_means_fewer_pods_until_it_is_stopped(
    annotations: dict[str, str], given_to: int, want: dict[str, int]
) -> None:
    work = job("work", 4, indexed=True, own_annotations=annotations)
    before = work.pod_sets()
    started = sent(work, *work.start_steps([Placement("main", given_to)]))
    assert {name: started["spec"][name] for name in want} == want

    running = type(work)(started)
    half = type(work)(sent(running, *running.stop_steps(before)))
    stopped = sent(half, *half.stop_steps(before))
    assert stopped["spec"] == job("work", 4, indexed=True).object["spec"]


def test_what_is_left_is_not_less_quota() -> None:
    """Two of four are done: two pods of quota are all that it needs."""
    work = job("work", 4, own_annotations=LEAST, status={"succeeded": 2})
    started = sent(work, *work.start_steps([Placement("main", 2)]))
    assert started["spec"]["parallelism"] == 4


def test_a_start_is_one_write_to_this_very_object() -> None:
    work = job()
    body_of(work)["metadata"]["resourceVersion"] = "7"
    (step,) = work.start_steps([Placement("main", 2, {"a": "b"})])
    assert step == Step(
        {
            "metadata": {"uid": UID},
            "spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"a": "b"}}}},
        }
    )
    (step,) = work.start_steps([Placement("main", 2, tolerations=({"key": "k"},))])
    assert step.patch["metadata"] == {"uid": UID, "resourceVersion": "7"}


def test_a_job_that_ran_before_forgets_when_it_started() -> None:
    work = job(status={"startTime": "2026-01-01T00:00:00Z"})
    body_of(work)["metadata"]["resourceVersion"] = "7"
    placement = Placement("main", 2, {"a": "b"}, ({"key": "k"},))
    forget, start = work.start_steps([placement])
    assert (forget.subresource, forget.patch["status"]) == ("status", {"startTime": None})
    assert start.patch["metadata"] == {"uid": UID}
    (start,) = work.start_steps([Placement("main", 2)])
    assert start.patch["spec"] == {"suspend": False}


def test_a_place_is_needed_for_each_pod_set() -> None:
    with pytest.raises(PlacementError, match="main"):
        job().start_steps([])


@pytest.mark.parametrize(
    ("status", "want"),
    [({}, False), ({"active": 0, "terminating": 1}, False), ({"active": 1}, True)],
)
def test_quota_is_in_use_while_pods_run(status: dict[str, Any], want: bool) -> None:
    assert job(status=status).is_active() is want
