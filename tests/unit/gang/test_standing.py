"""A refusal stands until enough nodes gained what it lacks."""

from dataclasses import dataclass
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import Lack, Refuse, Room, Standing, versions_of
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, Shape
from tests.makers import cluster_of, deleted, key, node, nodes, observe, pod, shape


@dataclass
class Numbers:
    """The numbers that a verdict is remembered with."""

    capacity_version: int = 1
    nodes_version: int = 1


NOW: Any = Numbers()
LATER: Any = Numbers(capacity_version=2)
FEWER_NODES: Any = Numbers(nodes_version=2)
OTHER_NODES: Any = Numbers(capacity_version=3, nodes_version=2)
FIRST = Refuse(Reason.NOT_ENOUGH_RESOURCES, "first", deny=True)
NEVER = Refuse(Reason.NEVER_FITS, "never", deny=True)


def test_what_nothing_has_changed_for_stays_so() -> None:
    standing = Standing(FIRST, versions_of(NOW))
    assert standing.stands(NOW)
    assert not standing.stands(LATER)


def test_a_node_that_went_is_a_change_too() -> None:
    assert not Standing(FIRST, versions_of(NOW)).stands(FEWER_NODES)


def test_only_other_nodes_help_one_that_never_fits() -> None:
    standing = Standing(NEVER, versions_of(NOW))
    assert standing.stands(LATER)
    assert not standing.stands(OTHER_NODES)


def lack_of(missing: int, *shapes: Shape, room: Room = Room.FREE) -> Refuse:
    lack = Lack(key("gang"), 0, shapes or (shape(2),), missing, room)
    reason = Reason.NEVER_FITS if room is Room.EMPTY else Reason.NOT_ENOUGH_RESOURCES
    return Refuse(reason, "short", deny=True, lack=lack)


def test_room_for_fewer_than_lack_it_is_no_reason_for_another_look() -> None:
    cluster = cluster_of(nodes(4, 4, 4), [pod(f"p{n}", 2, on=f"n{n // 2}") for n in range(6)])
    view = cluster.view()
    standing = Standing(lack_of(3), versions_of(view))
    observe(cluster, deleted("p0"), deleted("p1"))
    assert standing.stands(view)
    observe(cluster, pod("q", 2, on="n0"), deleted("q"))  # the same room once more
    assert standing.stands(view)
    observe(cluster, deleted("p2"))
    assert not standing.stands(view)


def test_one_of_unequal_pods_is_reason_enough() -> None:
    cluster = cluster_of(nodes(4), pod("p", 3, on="n0"), pod("q", 1, on="n0"))
    view = cluster.view()
    standing = Standing(lack_of(1, shape(4), shape(2)), versions_of(view))
    observe(cluster, deleted("q"))
    assert standing.stands(view)
    observe(cluster, deleted("p"))
    assert not standing.stands(view)


def test_a_relabelled_node_ends_only_what_it_would_take() -> None:
    cluster = cluster_of(nodes(1, 1))
    view = cluster.view()
    standing = Standing(lack_of(1, room=Room.EMPTY), versions_of(view))
    observe(cluster, node("n0", 1, labels={"rack": "a"}))
    assert standing.stands(view)
    observe(cluster, node("n0", 2))
    assert not standing.stands(view)


def test_a_node_that_may_not_be_used_makes_up_for_nothing() -> None:
    cluster = cluster_of(nodes(4, ready=False))
    view = cluster.view()
    standing = Standing(lack_of(1), versions_of(view))
    observe(cluster, node("n0", 4, unschedulable=True))
    assert standing.stands(view)
    observe(cluster, node("n0", 4))
    assert not standing.stands(view)


def test_with_a_node_that_went_it_may_never_fit() -> None:
    cluster = cluster_of(nodes(1, 1))
    view = cluster.view()
    standing = Standing(lack_of(9), versions_of(view))
    observe(cluster, deleted("n1", NodeInfo))
    assert not standing.stands(view)


def test_many_nodes_that_gained_are_reason_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at in slices then, and not in one answer."""
    monkeypatch.setattr("extender.gang.verdicts.MOST_LOOKS", 128)
    cluster = cluster_of(nodes(*[1] * 200))
    view = cluster.view()
    standing = Standing(lack_of(9, room=Room.EMPTY), versions_of(view))
    unequal = Standing(lack_of(9, *(shape(n) for n in range(2, 30))), versions_of(view))
    for n in range(100):
        cluster.apply(ev.ObjectApplied(node(f"n{n}", 1, labels={"a": "b"})))
    assert standing.stands(view)
    assert not unequal.stands(view)
    for n in range(200):
        cluster.apply(ev.ObjectApplied(node(f"n{n}", 1, labels={"a": "c"})))
    assert not standing.stands(view)
