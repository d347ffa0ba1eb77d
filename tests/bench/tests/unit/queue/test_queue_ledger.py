"""No Workload holds what is not there: the ledger sees it at the very event."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.bench.queue.history import Seen
from tests.bench.queue.ledger import Ledger
from tests.bench.tests.unit.queue.makers import QUEUES, admitted, finished, load, seen

LARGE: dict[str, Any] = {"kind": "large", "held": 4000}


def _ledger(history: Sequence[Seen], **queues: object) -> Ledger:
    ledger = Ledger(load(**queues))
    for each in history:
        ledger.apply(each)
    return ledger


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([admitted(1, "a", **LARGE), admitted(1, "b", **LARGE, queue=1)], id="all"),
        pytest.param(
            [admitted(1, "a", **LARGE), admitted(2, "b"), admitted(2, "c")],
            id="what may be borrowed",
        ),
        pytest.param(
            [
                admitted(1, "a", **LARGE),
                finished(2, "a", kind="large"),
                admitted(3, "b", **LARGE),
                seen(4, "b", kind="large", evicted=True),
                admitted(5, "c", **LARGE),
            ],
            id="one after the other",
        ),
        pytest.param([admitted(1, "a")] * 9, id="the same one again"),
    ],
)
def test_usage_within_the_quota_breaks_nothing(history: Sequence[Seen]) -> None:
    ledger = _ledger(history)

    assert (ledger.broken, ledger.violations) == (0, [])


def test_more_than_a_queue_may_borrow() -> None:
    history = [admitted(1, "a", **LARGE), admitted(2, "b", **LARGE)]

    assert _ledger(history).violations == [f"{QUEUES[0]} holds 8000m of at most 6000m with b"]


def test_more_than_the_cohort_has() -> None:
    history = [
        admitted(1, "a", **LARGE),
        admitted(2, "b", **LARGE, queue=1),
        admitted(3, "c"),
    ]

    ledger = _ledger(history)

    assert ledger.violations == ["team-0 holds 9000m of 8000m with c"]
    assert ledger.broken == 1


def test_without_a_borrowing_limit_only_the_cohort_counts() -> None:
    history = [admitted(1, "a", **LARGE), admitted(2, "b", **LARGE), admitted(3, "c")]

    ledger = _ledger(history, borrowingLimit=None)

    assert ledger.violations == ["team-0 holds 9000m of 8000m with c"]


def test_an_eviction_frees_nothing_while_the_quota_is_held() -> None:
    history = [
        admitted(1, "a", **LARGE),
        admitted(2, "a", **LARGE, evicted=True),
        admitted(3, "b", **LARGE),
    ]

    assert _ledger(history).broken == 1


def test_cohorts_do_not_share() -> None:
    two = load()
    two = two.model_copy(
        update={"cohorts": [two.cohorts[0].model_copy(update={"count": 2})]}, deep=True
    )
    ledger = Ledger(two)
    other: dict[str, Any] = {"queue": "team-1-queue-0", "held_in": "team-1-queue-0"}

    for name in ("a", "b"):
        ledger.apply(admitted(1, name, **LARGE, queue=name == "b"))
    ledger.apply(Seen(time=2, name="c", kind="large", held=4000, **other))

    assert ledger.broken == 0


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param(
            admitted(1, "a", kind="large"),
            "a requests 4000m and holds 1000m",
            id="less than it asked for",
        ),
        pytest.param(
            admitted(1, "a", held_in=QUEUES[1]),
            f"a of queue {QUEUES[0]} holds quota of '{QUEUES[1]}'",
            id="another queue's",
        ),
        pytest.param(
            admitted(1, "a", held_in="nowhere"),
            f"a of queue {QUEUES[0]} holds quota of 'nowhere'",
            id="of no queue",
        ),
    ],
)
def test_an_admission_that_is_not_what_was_asked_is_a_violation(event: Seen, want: str) -> None:
    assert _ledger([event]).violations == [want]


def test_all_are_counted_and_the_first_are_named() -> None:
    ledger = _ledger([admitted(1, f"w-{number}") for number in range(30)])

    assert ledger.broken == 24
    assert len(ledger.violations) == 5
    assert ledger.violations[0] == f"{QUEUES[0]} holds 7000m of at most 6000m with w-6"
