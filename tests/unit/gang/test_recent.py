"""Memory of recent failures."""

from dataclasses import dataclass
from typing import Any

from extender.api.wellknown import Reason
from extender.gang.lack import Lack
from extender.gang.recent import Denied, HadNoRoom, Permitted, versions_of
from extender.gang.room import Room
from extender.gang.verdicts import Refuse
from extender.state import events as ev
from extender.state.pods import Shape
from tests.makers import ManualClock, cluster_of, key, node, nodes, pod, pod_group, shape, tell


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
    recent.add("g", FIRST, versions=versions_of(NOW))
    clock.now += 2.9
    assert recent.get("g", snapshot=NOW) == FIRST
    clock.now += 0.1
    assert recent.get("g", snapshot=NOW) is None


def test_a_group_that_did_not_fail_is_not_denied() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, versions=versions_of(NOW))
    assert recent.get("h", snapshot=NOW) is None


def test_a_later_failure_neither_extends_nor_replaces_the_first() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, versions=versions_of(NOW))
    clock.now += 2
    recent.add("g", SECOND, versions=versions_of(NOW))
    assert recent.get("g", snapshot=NOW) == FIRST
    clock.now += 1
    assert recent.get("g", snapshot=NOW) is None


def test_a_failure_after_the_window_starts_another() -> None:
    recent, clock = denied()
    recent.add("g", FIRST, versions=versions_of(NOW))
    clock.now += 3
    recent.add("g", SECOND, versions=versions_of(NOW))
    clock.now += 2
    assert recent.get("g", snapshot=NOW) == SECOND


def test_room_that_may_have_appeared_ends_the_window() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, versions=versions_of(NOW))
    assert recent.get("g", snapshot=LATER) is None
    recent.add("g", SECOND, versions=versions_of(LATER))
    assert recent.get("g", snapshot=LATER) == SECOND


def test_a_success_ends_the_window() -> None:
    recent, _ = denied()
    recent.add("g", FIRST, versions=versions_of(NOW))
    recent.discard("g")
    recent.discard("g")
    assert recent.get("g", snapshot=NOW) is None


def test_a_window_of_zero_remembers_nothing() -> None:
    recent, _ = denied(0.0)
    recent.add("g", FIRST, versions=versions_of(NOW))
    recent.discard("g")
    assert recent.get("g", snapshot=NOW) is None
    assert recent.window == 0.0


NEVER = Refuse(Reason.NEVER_FITS, "never", deny=True)


def test_what_nothing_has_changed_for_stays_so() -> None:
    recent = HadNoRoom()
    recent.add("g", FIRST, versions=versions_of(NOW))
    assert recent.get("g", snapshot=NOW) == FIRST
    assert recent.get("h", snapshot=NOW) is None
    assert recent.get("g", snapshot=LATER) is None
    assert recent.get("g", snapshot=NOW) is None


def test_a_node_that_went_is_a_change_too() -> None:
    recent = HadNoRoom()
    recent.add("g", FIRST, versions=versions_of(NOW))
    assert recent.get("g", snapshot=FEWER_NODES) is None


def test_only_other_nodes_help_one_that_never_fits() -> None:
    recent = HadNoRoom()
    recent.add("g", NEVER, versions=versions_of(NOW))
    assert recent.get("g", snapshot=LATER) == NEVER
    assert recent.get("g", snapshot=OTHER_NODES) is None


def test_a_group_that_is_another_one_is_looked_at() -> None:
    recent = HadNoRoom()
    recent.add("g", NEVER, versions=versions_of(NOW))
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


def lack_of(missing: int, *shapes: Shape, room: Room = Room.FREE) -> Refuse:
    lack = Lack(key("gang"), 0, shapes or (shape(2),), missing, room)
    reason = Reason.NEVER_FITS if room is Room.EMPTY else Reason.NOT_ENOUGH_RESOURCES
    return Refuse(reason, "short", deny=True, lack=lack)


def test_room_for_fewer_than_lack_it_is_no_reason_for_another_look() -> None:
    cluster = cluster_of(nodes(4, 4, 4), [pod(f"p{n}", 2, on=f"n{n // 2}") for n in range(6)])
    recent, snapshot = HadNoRoom(), cluster.snapshot()
    recent.add("g", lack_of(3), versions=versions_of(snapshot))
    tell(cluster, ev.PodDeleted("p0"), ev.PodDeleted("p1"))
    assert recent.get("g", snapshot=snapshot)
    tell(cluster, pod("q", 2, on="n0"), ev.PodDeleted("q"))  # the same room once more
    assert recent.get("g", snapshot=snapshot)
    tell(cluster, ev.PodDeleted("p2"))
    assert recent.get("g", snapshot=snapshot) is None


def test_one_of_unequal_pods_is_reason_enough() -> None:
    cluster = cluster_of(nodes(4), pod("p", 3, on="n0"), pod("q", 1, on="n0"))
    recent, snapshot = HadNoRoom(), cluster.snapshot()
    recent.add("g", lack_of(1, shape(4), shape(2)), versions=versions_of(snapshot))
    tell(cluster, ev.PodDeleted("q"))
    assert recent.get("g", snapshot=snapshot)
    tell(cluster, ev.PodDeleted("p"))
    assert recent.get("g", snapshot=snapshot) is None


def test_a_relabelled_node_ends_only_what_it_would_take() -> None:
    cluster = cluster_of(nodes(1, 1))
    recent, snapshot = HadNoRoom(), cluster.snapshot()
    recent.add("g", lack_of(1, room=Room.EMPTY), versions=versions_of(snapshot))
    tell(cluster, node("n0", 1, labels={"rack": "a"}))
    assert recent.get("g", snapshot=snapshot)
    tell(cluster, node("n0", 2))
    assert recent.get("g", snapshot=snapshot) is None


def test_a_node_that_may_not_be_used_makes_up_for_nothing() -> None:
    cluster = cluster_of(nodes(4, ready=False))
    recent, snapshot = HadNoRoom(), cluster.snapshot()
    recent.add("g", lack_of(1), versions=versions_of(snapshot))
    tell(cluster, node("n0", 4, unschedulable=True))
    assert recent.get("g", snapshot=snapshot)
    tell(cluster, node("n0", 4))
    assert recent.get("g", snapshot=snapshot) is None


def test_with_a_node_that_went_it_may_never_fit() -> None:
    cluster = cluster_of(nodes(1, 1))
    recent, snapshot = HadNoRoom(), cluster.snapshot()
    recent.add("g", lack_of(9), versions=versions_of(snapshot))
    tell(cluster, ev.NodeDeleted("n1"))
    assert recent.get("g", snapshot=snapshot) is None


def test_many_nodes_that_gained_are_reason_enough() -> None:
    """They are looked at in slices then, and not in one answer."""
    cluster = cluster_of(nodes(*[1] * 200))
    recent, snapshot = HadNoRoom(), cluster.snapshot()
    recent.add("g", lack_of(9, room=Room.EMPTY), versions=versions_of(snapshot))
    recent.add("h", lack_of(9, *(shape(n) for n in range(2, 30))), versions=versions_of(snapshot))
    for n in range(100):
        cluster.apply(ev.NodeApplied(node(f"n{n}", 1, labels={"a": "b"})))
    assert recent.get("g", snapshot=snapshot)
    assert recent.get("h", snapshot=snapshot) is None
    for n in range(200):
        cluster.apply(ev.NodeApplied(node(f"n{n}", 1, labels={"a": "c"})))
    assert recent.get("g", snapshot=snapshot) is None
