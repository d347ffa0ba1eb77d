"""Tests of the memory of a job: other writers of `suspend`, waits, and pods that succeeded."""

from dataclasses import replace
from math import inf

from extender.controllers.job_facts import WRITES, JobMemory
from extender.controllers.timing import LATE, LOOK_AGAIN, STAND_BACK, WATCH_LAG
from tests.queue_makers import workload
from tests.unit.jobs.scene import job


def wrote(times: int, *, every: float = 0.0, suspend: bool = True) -> tuple[JobMemory, float]:
    """Return the memory of a job after equal writes, and the time of the last one."""
    memory, now = JobMemory(), 1000.0
    for number in range(times):
        now = 1000.0 + number * every
        memory.wrote_suspend(now, suspend=suspend)
    return memory, now


def test_a_job_that_is_stopped_once_may_be_stopped_again() -> None:
    memory, now = wrote(WRITES - 1)
    assert memory.contest(now, suspend=True, is_foreign=False) == 0


def test_equal_writes_in_a_row_are_slowed_down() -> None:
    memory, now = wrote(WRITES)
    assert memory.contest(now, suspend=True, is_foreign=False) == WATCH_LAG
    assert memory.contest(now + WATCH_LAG, suspend=True, is_foreign=False) == 0
    assert memory.contest(now, suspend=False, is_foreign=False) == 0


def test_one_write_is_enough_where_another_controller_has_the_job() -> None:
    memory, now = wrote(1)
    assert memory.contest(now, suspend=True, is_foreign=True) == STAND_BACK


def test_writes_that_are_far_apart_are_no_contest() -> None:
    memory, now = wrote(WRITES, every=LATE)
    assert memory.contest(now, suspend=True, is_foreign=False) == 0


def test_a_start_in_between_ends_it() -> None:
    memory, now = wrote(WRITES)
    memory.wrote_suspend(now, suspend=False)
    memory.wrote_suspend(now, suspend=True)
    assert memory.contest(now, suspend=True, is_foreign=False) == 0


GROUP = replace(workload("g"), reclaimable={"small": 2})


def test_a_pod_that_is_deleted_counts_beside_those_that_succeed_later() -> None:
    found = JobMemory()
    assert found.succeeded(workload("g"), [("a", "small")]) == {"small": 1}
    assert found.succeeded(workload("g"), []) == {"small": 1}
    assert found.succeeded(workload("g"), [("b", "small"), ("c", "big")]) == {"small": 2, "big": 1}


def test_a_new_process_takes_what_is_stored() -> None:
    assert JobMemory().succeeded(GROUP, [("b", "small")]) == {"small": 2}
    found = JobMemory()
    assert found.succeeded(GROUP, []) == {"small": 2}
    assert found.succeeded(GROUP, [("c", "small")]) == {"small": 3}


def test_another_workload_begins_anew() -> None:
    found = JobMemory()
    found.succeeded(GROUP, [("a", "small")])
    other = replace(workload("g"), meta=replace(GROUP.meta, uid="another"))
    assert found.succeeded(other, []) == {}


def test_a_wait_that_is_over_just_after_a_decision_is_looked_at_again() -> None:
    """A timer of the event loop may be a part of a millisecond early."""
    found, held = JobMemory(), job()
    assert not found.is_overdue(held, 0.0, has_stopped=False)
    assert found.wait_left(1.0) == LATE - 1
    assert not found.is_overdue(held, LATE - 0.0005, has_stopped=False)
    assert found.wait_left(LATE + 0.0005) == LOOK_AGAIN
    for _ in range(2):
        assert found.is_overdue(held, LATE + LOOK_AGAIN, has_stopped=False)
        assert found.wait_left(LATE + LOOK_AGAIN) is None
    assert not found.is_overdue(held, LATE + 2, has_stopped=True)


def test_the_time_since_a_stop_is_that_since_its_last_write() -> None:
    memory, now = wrote(2, every=5.0)
    assert memory.since_stop(now + 3) == 3
    memory.wrote_suspend(now + 4, suspend=False)
    assert memory.since_stop(now + 5) == JobMemory().since_stop(now) == inf
