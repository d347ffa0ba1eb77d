"""Which Job is created so that enough of each class wait."""

from tests.bench.room.backlog import Backlog
from tests.bench.tests.unit.room.makers import admitted, document, evicted, finished, load, workload


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
