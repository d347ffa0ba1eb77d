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


HALVES = [nodes(4, 4, 4), [pod(f"p{n}", 2, on=f"n{n // 2}") for n in range(6)]]
ENDS: dict[str, tuple[list[Any], Refuse, list[list[Any]], Any]] = {
    "room for as many as lack it, and not for fewer or for the same once more": (
        HALVES,
        lack_of(3),
        [[deleted("p0"), deleted("p1")], [pod("q", 2, on="n0"), deleted("q")]],
        deleted("p2"),
    ),
    "room for one of unequal pods": (
        [nodes(4), pod("p", 3, on="n0"), pod("q", 1, on="n0")],
        lack_of(1, shape(4), shape(2)),
        [[deleted("q")]],
        deleted("p"),
    ),
    "a changed node that would take it, and no other": (
        nodes(1, 1),
        lack_of(1, room=Room.EMPTY),
        [[node("n0", 1, labels={"rack": "a"})]],
        node("n0", 2),
    ),
    "a node that may be used, and no other": (
        nodes(4, ready=False),
        lack_of(1),
        [[node("n0", 4, unschedulable=True)]],
        node("n0", 4),
    ),
    "a node that went: it may never fit": (nodes(1, 1), lack_of(9), [], deleted("n1", NodeInfo)),
}


@pytest.mark.parametrize(("there", "lack", "before", "end"), ENDS.values(), ids=ENDS)
def test_what_ends_a_refusal(
    there: list[Any], lack: Refuse, before: list[list[Any]], end: Any
) -> None:
    cluster = cluster_of(there)
    view = cluster.view()
    standing = Standing(lack, versions_of(view))
    for facts in before:
        observe(cluster, *facts)
        assert standing.stands(view)
    observe(cluster, end)
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
