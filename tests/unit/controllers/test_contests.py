"""Another writer of `suspend` is noticed, and the queue stands back for a while."""

from extender.controllers.job import (
    DAMPED_SECONDS,
    STAND_BACK_SECONDS,
    WITHIN_SECONDS,
    WRITES,
    Contests,
)

KEY = ("jobset.x-k8s.io/jobset", "ns/job")


def wrote(times: int, *, every: float = 0.0, suspend: bool = True) -> tuple[Contests, float]:
    """Return contests after equal writes, and the time of the last one."""
    contests, now = Contests(), 1000.0
    for number in range(times):
        now = 1000.0 + number * every
        contests.wrote(KEY, now, suspend=suspend)
    return contests, now


def test_a_job_that_is_stopped_once_may_be_stopped_again() -> None:
    contests, now = wrote(WRITES - 1)
    assert contests.pause(KEY, now, suspend=True, is_foreign=False) == 0


def test_equal_writes_in_a_row_are_slowed_down() -> None:
    contests, now = wrote(WRITES)
    assert contests.pause(KEY, now, suspend=True, is_foreign=False) == DAMPED_SECONDS
    assert contests.pause(KEY, now + DAMPED_SECONDS, suspend=True, is_foreign=False) == 0
    assert contests.pause(KEY, now, suspend=False, is_foreign=False) == 0


def test_one_write_is_enough_where_another_controller_has_the_job() -> None:
    contests, now = wrote(1)
    assert contests.pause(KEY, now, suspend=True, is_foreign=True) == STAND_BACK_SECONDS


def test_writes_that_are_far_apart_are_no_contest() -> None:
    contests, now = wrote(WRITES, every=WITHIN_SECONDS)
    assert contests.pause(KEY, now, suspend=True, is_foreign=False) == 0


def test_a_start_in_between_ends_it() -> None:
    contests, now = wrote(WRITES)
    contests.wrote(KEY, now, suspend=False)
    contests.wrote(KEY, now, suspend=True)
    assert contests.pause(KEY, now, suspend=True, is_foreign=False) == 0


def test_a_job_that_is_gone_is_forgotten() -> None:
    contests, now = wrote(WRITES)
    contests.forget(KEY)
    assert contests.pause(KEY, now, suspend=True, is_foreign=False) == 0
