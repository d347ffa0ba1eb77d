"""Jobs on nodes that are partly used: which are created, their admissions, what it comes to."""

from pathlib import Path
from typing import Any

import pytest

from extender.config import Queue
from tests.bench.room import load as loads
from tests.bench.room.backlog import Backlog
from tests.bench.room.bench import MODES, QUOTA, ROOM, UNKEPT, Result
from tests.bench.room.load import Load
from tests.bench.room.measures import (
    Admission,
    PodSeen,
    Seen,
    WorkloadSeen,
    admissions,
    measure,
    usage,
)


def document(**changes: Any) -> dict[str, Any]:
    """Return two empty nodes and two half full ones: 12 CPU free; wide gangs of 2, small Jobs."""
    wide = {"className": "wide", "pods": 2, "cpu": 4, "runtimeMs": 3000, "waiting": 1}
    small = {"className": "small", "pods": 1, "cpu": 1, "runtimeMs": 1000, "waiting": 2}
    return {
        "nodes": [
            {"className": "empty", "count": 2, "cpu": 4},
            {"className": "half", "count": 2, "cpu": 4, "used": 2},
        ],
        "quota": 16,
        "classes": [wide, small],
        "podsReadyTimeoutSeconds": 5,
        "backoffBaseSeconds": 1,
        "agingSeconds": 3,
        "windowSeconds": 10,
        "waitedSeconds": 2,
        "mostJobs": 100,
        **changes,
    }


def load(**changes: Any) -> Load:
    return Load.model_validate(document(**changes))


def workload(time: float, job: str = "wide-0", **changes: Any) -> WorkloadSeen:
    """Return a Workload that waits."""
    return WorkloadSeen(time=time, job=job, **changes)


def admitted(time: float, job: str = "wide-0") -> WorkloadSeen:
    return workload(time, job, admitted=True)


def evicted(time: float, job: str = "wide-0", reason: str = "PodsReadyTimeout") -> WorkloadSeen:
    """Return one that is evicted, and still admitted."""
    return workload(time, job, admitted=True, evicted=reason)


def finished(time: float, job: str = "wide-0") -> WorkloadSeen:
    return workload(time, job, admitted=True, finished=True)


def pod(time: float, number: int = 0, job: str = "wide-0", **changes: Any) -> PodSeen:
    """Return a pod that has no node."""
    return PodSeen(time=time, job=job, uid=f"{job}/{number}", **changes)


def bound(time: float, number: int = 0, job: str = "wide-0", **changes: Any) -> PodSeen:
    return pod(time, number, job, bound=True, **changes)


@pytest.mark.parametrize("file", [loads.FRAGMENTED, loads.IN_TURN, loads.TWO_QUEUES, loads.SMALL])
def test_the_loads_that_are_there_have_more_quota_than_room_for_the_wide(file: Path) -> None:
    found = loads.read(file)
    wide = found.kind("wide")

    places = sum(each.count * (each.free // wide.cpu) for each in found.nodes)
    assert found.quota_of(wide) // wide.request > places // wide.pods


def _missing(backlog: Backlog) -> list[tuple[str, int]]:
    return [(kind.class_name, number) for kind, number in backlog.missing()]


def test_classes_are_made_in_turn_until_enough_wait() -> None:
    backlog = Backlog(load())

    assert _missing(backlog) == [("wide", 0), ("small", 1), ("small", 2)]
    assert _missing(backlog) == []


def test_an_admitted_workload_is_followed_by_another() -> None:
    backlog = Backlog(load())
    _missing(backlog)

    backlog.take(admitted(1.0, "small-1"))

    assert _missing(backlog) == [("small", 3)]
    backlog.take(finished(2.0, "small-1"))
    assert _missing(backlog) == []


def test_an_evicted_workload_waits_again() -> None:
    backlog = Backlog(load())
    _missing(backlog)
    backlog.take(admitted(1.0, "wide-0"))
    assert _missing(backlog) == [("wide", 3)]

    backlog.take(evicted(2.0, "wide-0"))
    backlog.take(workload(3.0, "wide-0", evicted="PodsReadyTimeout"))
    backlog.take(admitted(4.0, "wide-3"))

    assert _missing(backlog) == []


def test_there_is_an_end_to_it() -> None:
    backlog = Backlog(load(mostJobs=2))

    assert _missing(backlog) == [("wide", 0), ("small", 1)]
    assert backlog.made == 2


def test_a_class_that_is_passed_soon_is_all_that_waits() -> None:
    wide, small = ({**each, "waiting": None} for each in document()["classes"])
    backlog = Backlog(load(waiting=3, classes=[wide, {**small, "inTurn": 2}]))
    assert _missing(backlog) == [("wide", 0), ("small", 1), ("small", 2)]

    backlog.take(admitted(1.0, "small-1"))
    assert _missing(backlog) == [("wide", 3)]

    backlog.take(admitted(1.0, "small-2"))
    backlog.take(admitted(1.0, "wide-0"))
    assert _missing(backlog) == [("small", 4), ("small", 5)]


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


SMALL = "small-1"


def test_usage_is_distinguished_from_pods_that_wait_for_others() -> None:
    history = [
        bound(0.0, 0),  # one of two: 4 CPU of 12 wait for the other
        bound(4.0, 1),
        bound(6.0, 0, ended=True),  # the other one goes on
        bound(7.0, 1, ended=True),
        bound(8.0, 0, SMALL),
        bound(9.0, 0, SMALL, gone=True),
    ]

    found = usage(history, load(), start=0.0, end=10.0)

    assert found.idle == pytest.approx(4 * 4 / 120)
    assert found.used == pytest.approx((4 * 4 + 8 * 2 + 4 * 1 + 1 * 1) / 120)


def test_usage_is_that_of_the_window() -> None:
    history = [bound(0.0, 0), bound(1.0, 1), bound(99.0, 0, gone=True), bound(99.0, 1, gone=True)]

    found = usage(history, load(), start=2.0, end=4.0)

    assert found.used == pytest.approx(8 / 12)
    assert found.idle == 0.0


def test_measures_of_a_window() -> None:
    history: list[Seen] = [
        workload(95.0),
        workload(95.0, waits="WaitingForRoom"),
        workload(96.0, "wide-9", waits="WaitingForRoom"),
        workload(97.0, "wide-9", waits="WaitingForQuota"),
        admitted(100.0),
        admitted(100.0, SMALL),
        bound(100.5, 0),
        bound(101.5, 1),
        pod(101.0, 0, SMALL),
        bound(101.0, 0, SMALL),
        finished(102.0, SMALL),
        finished(105.0),
        admitted(106.0, "wide-2"),
        bound(106.0, 0, "wide-2"),
        pod(106.0, 1, "wide-2"),
        evicted(109.0, "wide-2"),
        admitted(111.0, "small-3"),
        finished(112.0, "small-3"),
    ]

    found = measure(history, load())

    assert found is not None
    assert (found.start, found.end) == (100.0, 110.0)
    every = found.every
    assert (every.admitted, every.waited, every.timeouts, every.finished) == (3, 1, 1, 2)
    wide, small = found.classes["wide"], found.classes["small"]
    assert (wide.admitted, wide.waited, wide.timeouts, wide.finished) == (2, 1, 1, 1)
    assert (small.admitted, small.waited, small.timeouts, small.finished) == (1, 0, 0, 1)
    assert (found.without_room, every.median_seconds) == (2, 1.25)
    # 8 CPU for 3 s and 1 CPU for 1 s, of 12 CPU for 10 s.
    assert found.useful == pytest.approx(25 / 120)


def test_without_an_admission_there_is_nothing_to_measure() -> None:
    assert measure([workload(1.0)], load()) is None


def test_only_workloads_admitted_by_room_must_not_wait_for_it() -> None:
    waited = measure([admitted(1.0), evicted(9.0)], load())
    assert waited is not None

    def faults(side: str) -> list[str]:
        return Result(
            side=side, title=side, repeat=1, measures=waited, cpu_seconds={}, peak_mib={}
        ).faults

    assert faults(ROOM) == faults(UNKEPT) == ["1 of 1 admissions waited for room"]
    assert faults(QUOTA) == []


def test_the_configuration_of_each_mode_is_one_that_the_reconciler_takes() -> None:
    found = {each.key: Queue.model_validate(each.settings(load())["queue"]) for each in MODES}

    assert {
        key: (each.require_room, each.pod_groups, each.aging_seconds) for key, each in found.items()
    } == {ROOM: (True, "Auto", 3), UNKEPT: (True, "Auto", 0), QUOTA: (False, "Off", 0)}
    policies = [each.wait_for_pods_ready.policy() for each in found.values()]
    assert all(each.enabled and each.timeout == 5 for each in policies)
    assert all(each.backoff_base == 1 for each in policies)
