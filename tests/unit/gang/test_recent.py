"""Memory of recent failures."""

from dataclasses import dataclass
from typing import Any

from extender.api.wellknown import Reason
from extender.gang.recent import Denied, HadNoRoom, Permitted
from extender.gang.verdicts import Refuse
from tests.makers import ManualClock, key, pod_group


@dataclass
class Versions:
    """The numbers that a verdict is remembered with."""

    capacity_version: int = 1
    nodes_version: int = 1


NOW: Any = Versions()
LATER: Any = Versions(capacity_version=2)
FEWER_NODES: Any = Versions(nodes_version=2)
OTHER_NODES: Any = Versions(capacity_version=3, nodes_version=2)
FIRST = Refuse(Reason.NOT_ENOUGH_RESOURCES, "first", deny=True)
SECOND = Refuse(Reason.SCHEDULE_TIMEOUT, "second", deny=True)


def denied(window: float = 3.0) -> tuple[Denied, ManualClock]:
    clock = ManualClock()
    return Denied(window, clock), clock


def test_a_failure_counts_for_the_window() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, snapshot=NOW)
    clock.now += 2.9
    assert recent.get("g", snapshot=NOW) == FIRST
    clock.now += 0.1
    assert recent.get("g", snapshot=NOW) is None


def test_a_group_that_did_not_fail_is_not_denied() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, snapshot=NOW)
    assert recent.get("h", snapshot=NOW) is None


def test_a_later_failure_neither_extends_nor_replaces_the_first() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, snapshot=NOW)
    clock.now += 2
    recent.add("g", SECOND, snapshot=NOW)
    assert recent.get("g", snapshot=NOW) == FIRST
    clock.now += 1
    assert recent.get("g", snapshot=NOW) is None


def test_a_failure_after_the_window_starts_another() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, snapshot=NOW)
    clock.now += 3
    recent.add("g", SECOND, snapshot=NOW)
    clock.now += 2
    assert recent.get("g", snapshot=NOW) == SECOND


def test_room_that_may_have_appeared_ends_the_window() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, snapshot=NOW)
    assert recent.get("g", snapshot=LATER) is None
    recent.add("g", SECOND, snapshot=LATER)
    assert recent.get("g", snapshot=LATER) == SECOND


def test_a_success_ends_the_window() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, snapshot=NOW)
    recent.discard("g")
    recent.discard("g")
    assert recent.get("g", snapshot=NOW) is None


def test_a_window_of_zero_remembers_nothing() -> None:
    recent, _ = denied(0.0)
    recent.add("g", FIRST, snapshot=NOW)
    recent.discard("g")
    assert recent.get("g", snapshot=NOW) is None
    assert recent.window == 0.0


NEVER = Refuse(Reason.NEVER_FITS, "never", deny=True)


def test_what_nothing_has_changed_for_stays_so() -> None:
    recent = HadNoRoom()
    recent.add("g", FIRST, snapshot=NOW)
    assert recent.get("g", snapshot=NOW) == FIRST
    assert recent.get("h", snapshot=NOW) is None
    assert recent.get("g", snapshot=LATER) is None
    assert recent.get("g", snapshot=NOW) is None


def test_a_node_that_went_is_a_change_too() -> None:
    recent = HadNoRoom()
    recent.add("g", FIRST, snapshot=NOW)
    assert recent.get("g", snapshot=FEWER_NODES) is None


def test_only_other_nodes_help_one_that_never_fits() -> None:
    recent = HadNoRoom()
    recent.add("g", NEVER, snapshot=NOW)
    assert recent.get("g", snapshot=LATER) == NEVER
    assert recent.get("g", snapshot=OTHER_NODES) is None


def test_a_group_that_is_another_one_is_looked_at() -> None:
    recent = HadNoRoom()
    recent.add("g", NEVER, snapshot=NOW)
    recent.discard("g")
    recent.discard("g")
    assert recent.get("g", snapshot=NOW) is None


def permitted() -> tuple[Permitted, ManualClock]:
    clock = ManualClock()
    return Permitted(clock), clock


def test_a_group_is_permitted_for_its_own_time() -> None:
    recent, clock = permitted()
    recent.add(pod_group("quick"), 5.0)
    recent.add(pod_group("slow"), 50.0)
    clock.now += 4.9
    assert recent.has(pod_group("quick"))
    clock.now += 0.2
    assert not recent.has(pod_group("quick"))
    assert recent.has(pod_group("slow"))
    assert not recent.has(pod_group("other"))


def test_a_pod_group_that_asks_for_something_else_is_not_permitted() -> None:
    recent, _ = permitted()
    recent.add(pod_group(), 5.0)
    assert not recent.has(pod_group(min_resources={"cpu": 1}))
    assert not recent.has(pod_group(uid="made anew"))


def test_a_failure_ends_the_permission() -> None:
    recent, _ = permitted()
    recent.add(pod_group(), 5.0)
    recent.discard(key("gang"))
    recent.discard(key("gang"))
    assert not recent.has(pod_group())
