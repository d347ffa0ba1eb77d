"""Another writer of `suspend` is noticed, and the queue stands back for a while."""

from extender.controllers.job_facts import WRITES, JobMemory
from extender.controllers.timing import LATE, STAND_BACK, WATCH_LAG


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
