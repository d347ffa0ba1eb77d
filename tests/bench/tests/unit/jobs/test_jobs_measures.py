"""What a history comes to, and that no quota is in use that is not there."""

from collections.abc import Sequence

import pytest

from tests.bench.jobs.history import Seen
from tests.bench.jobs.ledger import Ledger
from tests.bench.jobs.measures import Times, measure
from tests.bench.tests.unit.jobs.makers import (
    QUEUES,
    REQUEST,
    admitted,
    complete,
    job,
    load,
    running,
    workload,
)

WHOLE: list[Seen] = [
    job(10.0, "a"),
    workload(10.5, "a"),
    job(11.0, "b", queue=1),
    admitted(11.0, "a"),
    running(11.5, "a"),
    admitted(12.0, "b", queue=1),
    running(12.0, "b", queue=1),
    complete(13.5, "a"),
    workload(13.5, "a"),
    complete(15.0, "b", queue=1),
]


def test_times_are_from_creation_and_from_admission() -> None:
    found = measure(WHOLE, load())

    assert (found.start, found.end) == (10.0, 15.0)
    assert (found.created, found.admitted, found.complete, found.failed) == (2, 2, 2, 0)
    assert found.to_admission == Times(2, 1.0, 1.0)
    assert found.to_complete == Times(2, 3.75, 4.0)
    assert found.running == Times(2, 2.75, 3.0)
    assert (found.evictions, found.broken, found.violations) == (0, 0, ())


def test_usage_is_what_jobs_have_running_over_all_quota() -> None:
    # Two seconds of the first and three of the second, of five queues for five seconds.
    assert measure(WHOLE, load()).usage == pytest.approx((2.0 + 3.0) / (5 * 5.0))


def test_what_never_happened_has_no_time() -> None:
    waiting: list[Seen] = [job(1.0), workload(1.5)]

    found = measure(waiting, load())

    assert (found.created, found.admitted, found.complete) == (1, 0, 0)
    assert (found.to_admission, found.to_complete, found.running) == (None, None, None)
    assert (found.start, found.end, found.usage) == (1.0, 1.0, 0.0)
    assert measure([], load()).created == 0


def test_evictions_are_counted_once_each() -> None:
    history: list[Seen] = [
        job(1.0),
        admitted(2.0),
        admitted(3.0, evicted=True),
        workload(4.0, evicted=True),
        admitted(5.0),
        admitted(6.0, evicted=True),
    ]

    found = measure(history, load())

    assert (found.evictions, found.admitted) == (2, 1)
    assert found.to_admission == Times(1, 1.0, 1.0)


def test_a_failed_job_is_not_complete() -> None:
    found = measure([job(1.0), running(2.0), job(3.0, failed=True)], load())

    assert (found.complete, found.failed) == (0, 1)


def _ledger(history: Sequence[Seen]) -> Ledger:
    ledger = Ledger(load())
    for each in history:
        ledger.apply(each)
    return ledger


def _names(count: int) -> list[str]:
    return [f"job-{number}" for number in range(count)]


def test_a_queue_may_have_all_of_its_cohort() -> None:
    held: list[Seen] = [admitted(1.0, name) for name in _names(5)]
    used: list[Seen] = [running(2.0, name) for name in _names(5)]

    ledger = _ledger([*held, *used])

    assert (ledger.broken, ledger.violations) == (0, [])


def test_one_more_than_the_quota_is_held() -> None:
    ledger = _ledger([admitted(1.0, name, queue=0) for name in _names(6)])

    assert ledger.broken == 1
    assert ledger.violations == ["Workloads: team-0 holds 1200m of 1000m with job-5"]


def test_one_more_than_the_quota_is_started() -> None:
    ledger = _ledger([running(1.0, name) for name in _names(6)])

    assert ledger.violations == ["Jobs: team-0 holds 1200m of 1000m with job-5"]


def test_what_is_given_back_or_done_can_be_used_again() -> None:
    held: list[Seen] = [admitted(1.0, name) for name in _names(5)]
    used: list[Seen] = [running(2.0, name) for name in _names(5)]
    back: list[Seen] = [
        running(3.0, "job-0", used=REQUEST // 2),
        admitted(3.0, "job-0", held=REQUEST // 2),
        complete(3.5, "job-1"),
        workload(3.5, "job-1"),
    ]
    more: list[Seen] = [admitted(4.0, "job-5"), running(4.0, "job-5")]

    assert _ledger([*held, *used, *back, *more]).broken == 0
    assert _ledger([*held, *used, *back, *more, running(5.0, "job-6")]).broken == 1


def test_an_admission_that_is_not_what_was_asked_is_a_violation() -> None:
    elsewhere = admitted(1.0, held_in=QUEUES[1])
    less = admitted(1.0, granted=100, held=100)

    assert _ledger([elsewhere]).violations == [
        f"a of queue {QUEUES[0]} holds quota of '{QUEUES[1]}'"
    ]
    assert _ledger([less]).violations == ["a requests 200m and was granted 100m"]


def test_all_are_counted_and_the_first_are_named() -> None:
    ledger = _ledger([running(1.0, name) for name in _names(30)])

    assert (ledger.broken, len(ledger.violations)) == (25, 5)
