"""When an admission began, had its pods, had them on nodes, and ended."""

import pytest

from tests.bench.room.admissions import Admission, admissions
from tests.bench.room.history import Seen
from tests.bench.tests.unit.room.makers import (
    admitted,
    bound,
    evicted,
    finished,
    load,
    pod,
    workload,
)


def test_an_admission_from_its_begin_to_its_end() -> None:
    history: list[Seen] = [
        workload(0.0),
        admitted(1.0),
        pod(1.1, 0),
        pod(1.2, 1),
        bound(1.3, 1),
        bound(1.5, 0),
        bound(4.5, 0, ended=True),
        bound(4.6, 1, ended=True),
        finished(5.0),
    ]

    (found,) = admissions(history, load())

    assert found == Admission(
        job="wide-0", began=1.0, all_exist=1.2, all_bound=1.5, ended=5.0, finished=True
    )
    assert found.kind == "wide"


def test_pods_may_be_seen_before_the_admission() -> None:
    (found,) = admissions([bound(0.9, 0), bound(0.9, 1), admitted(1.0)], load())

    assert (found.all_exist, found.all_bound) == (1.0, 1.0)


def test_one_that_was_sent_back_begins_anew() -> None:
    history: list[Seen] = [
        admitted(1.0),
        bound(1.1, 0),
        pod(1.1, 1),
        evicted(6.0),
        bound(6.1, 0, gone=True),
        pod(6.1, 1, gone=True),
        workload(6.2, evicted="PodsReadyTimeout"),
        admitted(8.0),
        bound(8.1, 2),
    ]

    first, second = admissions(history, load())

    assert (first.ended, first.evicted, first.all_bound) == (6.0, "PodsReadyTimeout", None)
    assert not first.finished
    assert (second.began, second.ended, second.evicted) == (8.0, None, "")
    assert second.all_exist is None  # of its own pods there is one


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"all_bound": 3.0}, False, id="in time"),
        pytest.param({"all_bound": 3.1}, True, id="late"),
        pytest.param({"ended": 3.1, "evicted": "Preempted"}, True, id="never, until its end"),
        pytest.param({"ended": 2.0, "evicted": "Preempted"}, False, id="gone before"),
        pytest.param({"ended": 2.0, "evicted": "PodsReadyTimeout"}, True, id="sent back for it"),
        pytest.param({}, True, id="still waits"),
        pytest.param({"all_exist": 9.0}, False, id="waits since a moment"),
        pytest.param({"all_exist": None}, False, id="has not all its pods"),
    ],
)
def test_which_workloads_waited_for_room(changes: dict[str, object], want: bool) -> None:
    fields: dict[str, object] = {"job": "wide-0", "began": 0.5, "all_exist": 1.0}
    found = Admission(**{**fields, **changes})  # type: ignore[arg-type]

    assert found.waited(2.0, end=10.0) is want
