"""Memory of recent failures."""

from extender.api.wellknown import Reason
from extender.gang.recent import Denied
from extender.gang.verdicts import Refuse
from tests.makers import ManualClock

FIRST = Refuse(Reason.NOT_ENOUGH_RESOURCES, "first", deny=True)
SECOND = Refuse(Reason.SCHEDULE_TIMEOUT, "second", deny=True)


def denied(window: float = 3.0) -> tuple[Denied, ManualClock]:
    clock = ManualClock()
    return Denied(window, clock), clock


def test_a_failure_counts_for_the_window() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, capacity_version=1)
    clock.now += 2.9
    assert recent.get("g", capacity_version=1) == FIRST
    clock.now += 0.1
    assert recent.get("g", capacity_version=1) is None


def test_a_group_that_did_not_fail_is_not_denied() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, capacity_version=1)
    assert recent.get("h", capacity_version=1) is None


def test_a_later_failure_neither_extends_nor_replaces_the_first() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, capacity_version=1)
    clock.now += 2
    recent.add("g", SECOND, capacity_version=1)
    assert recent.get("g", capacity_version=1) == FIRST
    clock.now += 1
    assert recent.get("g", capacity_version=1) is None


def test_a_failure_after_the_window_starts_another() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, capacity_version=1)
    clock.now += 3
    recent.add("g", SECOND, capacity_version=1)
    clock.now += 2
    assert recent.get("g", capacity_version=1) == SECOND


def test_room_that_may_have_appeared_ends_the_window() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, capacity_version=1)
    assert recent.get("g", capacity_version=2) is None
    recent.add("g", SECOND, capacity_version=2)
    assert recent.get("g", capacity_version=2) == SECOND


def test_a_success_ends_the_window() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, capacity_version=1)
    recent.discard("g")
    recent.discard("g")
    assert recent.get("g", capacity_version=1) is None


def test_a_window_of_zero_remembers_nothing() -> None:
    recent, _ = denied(0.0)
    recent.add("g", FIRST, capacity_version=1)
    recent.discard("g")
    assert recent.get("g", capacity_version=1) is None
    assert recent.window == 0.0
