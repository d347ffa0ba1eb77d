"""A gang on few nodes or on many, and where its other members are drawn to."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import ZONE_LABEL
from extender.fit import placement as placing
from extender.fit.candidates import PodShape, RoomLeft
from extender.gang.filter import follow_plan
from extender.gang.fit import Fit, Offer
from extender.gang.gates import cannot_start
from extender.gang.score import score
from extender.gang.status import pending_of
from extender.gang.verdicts import GangOptions, OneNode, Refuse
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from extender.state.cluster.store import Cluster
from tests.at_once import make_plan
from tests.makers import (
    cluster_of,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
    shape,
)

GANG = key("gang")
RACK = "example.com/rack"


def asking(placement: str, min_member: int, **more: Any) -> PodGroupInfo:
    return pod_group(min_member=min_member, placement=placement, **more)


def used(cluster: Cluster, sent: tuple[str, ...] = (), *, complete: bool = False) -> dict[str, int]:
    """Return how many members of the plan are on each node."""
    view = cluster.view()
    group = view.pod_group(GANG)
    assert group is not None
    waiting = next(each for each in view.members(GANG) if each.node is None)
    found = make_plan(waiting, group, view=view, offer=Offer(sent, complete))
    assert isinstance(found, Fit), found
    return dict(Counter(found.placements.values()))


def in_zones(**cpus: int) -> list[NodeInfo]:
    """Return nodes with so much CPU each; the first letter of a name is the zone."""
    return [node(name, cpu, labels={ZONE_LABEL: name[0]}) for name, cpu in cpus.items()]


def test_without_a_placement_nodes_with_least_left_come_first() -> None:
    there = nodes(1, 1, 1, 1, 4)
    assert len(used(cluster_of(there, pod_group(min_member=4), pods(4)))) == 4


def test_packed_on_one_node_where_one_takes_all_the_smallest_one() -> None:
    there = nodes(1, 1, 1, 1, 8, 5, 6)
    assert used(cluster_of(there, asking("pack", 4), pods(4))) == {"n5": 4}


def test_large_rooms_stay_whole_where_smaller_ones_are_as_few() -> None:
    there = nodes(8, 6, 6, 5, 4)
    assert used(cluster_of(there, asking("pack", 10), pods(10))) == {"n1": 6, "n4": 4}


def test_of_equal_rooms_the_busier_node_is_used() -> None:
    there = [node("a", 8), node("b", 4), node("c", 8)]
    runs = pod("runs", 4, on="c")
    assert used(cluster_of(there, runs, asking("pack", 4), pods(4))) == {"c": 4}


def test_what_pods_ask_nothing_of_makes_no_node_idle() -> None:
    there = [node("a", 8, gpu=8), node("b", 6)]
    busy = [pod("runs-a", 4, on="a"), pod("runs-b", 2, on="b")]
    group = asking("pack", 4)
    assert used(cluster_of(there, busy, group, pods(4, shape(1, gpu=0)))) == {"a": 4}


KINDS = 12


@pytest.mark.parametrize("placement", ["pack", "spread"])
def test_very_many_kinds_of_pods_compare_fewer_nodes_each(
    placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compared stays bounded; siblings are still shunned, or sought, as far as it goes."""
    monkeypatch.setattr(placing, "LOOKS", 10 * KINDS)
    monkeypatch.setattr(placing, "PIECE", 8)
    looks, slots = Counter[str](), RoomLeft.slots

    def counted(left: RoomLeft, there: NodeInfo, asked: PodShape) -> int:
        looks[there.name] += 1
        return slots(left, there, asked)

    monkeypatch.setattr(RoomLeft, "slots", counted)
    members = [
        pod(f"gang-{kind}-{n}", shape(1, memory=f"{kind + 1}Mi"), group="gang")
        for kind in range(KINDS)
        for n in range(3)
    ]
    there = [NodeInfo(f"n{n:02}", {**requests(8, memory="1Gi"), "pods": 110}) for n in range(60)]
    busy = [pod(f"busy-{n}", 7, on=f"n{n:02}") for n in range(20)]
    found = used(cluster_of(there, busy, asking(placement, len(members)), members))
    assert looks.total() <= 2 * 10 * KINDS
    assert max(found.values()) == (8 if placement == "pack" else 1)
    assert len(found) == (5 if placement == "pack" else len(members))


def test_packed_where_its_siblings_are() -> None:
    lost = [pod("old", 1, group="gang", on="n1"), pod("leaves", group="gang", on="n2")]
    leaves = pod("leaves", group="gang", on="n2", terminating=True)
    there = nodes(8, 3, 20)
    cluster = cluster_of(there, asking("pack", 5), lost, pods(4))
    observe(cluster, leaves)
    assert used(cluster) == {"n1": 2, "n0": 2}


def test_spread_one_on_a_node_and_evenly_over_zones() -> None:
    there = in_zones(a1=9, a2=9, a3=9, a4=9, b1=2, b2=2)
    assert used(cluster_of(there, asking("spread", 4), pods(4))) == {
        "a1": 1,
        "a2": 1,
        "b1": 1,
        "b2": 1,
    }


def test_spread_to_where_most_is_left() -> None:
    there = nodes(4, 8, 8, 4)
    runs = pod("runs", 7, on="n1")
    assert used(cluster_of(there, runs, asking("spread", 3), pods(3))) == {
        "n0": 1,
        "n2": 1,
        "n3": 1,
    }


def test_spread_counts_the_siblings_that_are_there() -> None:
    there = nodes(8, 8, 8)
    old = [pod(f"old-{n}", group="gang", on="n0") for n in range(2)]
    assert used(cluster_of(there, asking("spread", 6), old, pods(4))) == {"n1": 2, "n2": 2}


def test_members_of_other_sizes_are_siblings_too() -> None:
    there = nodes(20, 8, 8, 8)
    busy = [pod(f"busy-{number}", 3, on=f"n{number}") for number in (1, 2, 3)]
    members = [pod("launcher", 2, group="gang"), *pods(3, 1)]
    found = used(cluster_of(there, busy, asking("spread", 4), members))
    assert found == dict.fromkeys(("n0", "n1", "n2", "n3"), 1)
    assert len(used(cluster_of(there, busy, asking("pack", 4), members))) == 1


def test_topology_comes_first_and_placement_inside_it() -> None:
    there = [
        *(node(f"a{n}", 1, labels={RACK: "a"}) for n in range(9)),
        *(node(f"b{n}", 4, labels={RACK: "b"}) for n in range(3)),
    ]
    racks = {"required_topology": RACK}
    assert used(cluster_of(there, asking("spread", 8, **racks), pods(8))).keys() <= {
        f"a{n}" for n in range(9)
    }
    assert used(cluster_of(there, asking("pack", 8, **racks), pods(8, 1))) != {}
    wide = cluster_of(there, asking("spread", 3, **racks), pods(3, 2))
    assert used(wide) == {"b0": 1, "b1": 1, "b2": 1}
    assert used(cluster_of(there, asking("pack", 2, **racks), pods(2, 2))) == {"b0": 2}


def test_pods_that_share_no_node_are_packed_on_as_many_as_they_need() -> None:
    there, alone = nodes(8, 8, 8), shape(1, one_per_node=True)
    assert used(cluster_of(there, asking("pack", 3), pods(3, alone))) == {
        "n0": 1,
        "n1": 1,
        "n2": 1,
    }


def test_what_was_sent_is_enough_to_pack_and_a_sample_of_a_hundred_to_spread() -> None:
    there = [node(f"n{number}", 4) for number in range(150)]
    large = node("large", 50)
    sent = tuple(f"n{number}" for number in range(120))
    packed = used(cluster_of(there, large, asking("pack", 8), pods(8)), sent)
    assert len(packed) == 2
    assert packed.keys() <= {*sent}
    spread = used(cluster_of(there, large, asking("spread", 110), pods(110)), sent)
    assert spread.keys() <= {*sent}
    wide = used(cluster_of(there, large, asking("spread", 140), pods(140)), sent)
    assert max(wide.values()) == 1


@pytest.mark.parametrize(("count", "among"), [(60, False), (120, True)])
def test_fewer_nodes_than_kube_scheduler_has_to_choose_from_are_not_enough_to_spread(
    count: int, *, among: bool
) -> None:
    there = [node(f"n{number}", 4) for number in range(150)]
    sent = tuple(each.name for each in there[:count])
    busy = [pod(f"busy-{name}", 2, on=name) for name in sent]
    found = used(cluster_of(there, busy, asking("spread", 20), pods(20)), sent)
    assert (found.keys() <= {*sent}) is among


def test_a_planned_member_exchanges_its_node_before_it_moves() -> None:
    members = pods(2)
    cluster = cluster_of(nodes(4, 4, 4), asking("pack", 2), members)
    observe(cluster, planned(gang_0="n0", gang_1="n1"))
    view = cluster.view()
    found = follow_plan(members[0], GANG, ("n2", "n1"), view=view)
    assert found == OneNode("n1", {"gang-0": "n1", "gang-1": "n0"})
    observe(cluster, pod_group(min_member=2))
    found = follow_plan(members[0], GANG, ("n2", "n1"), view=view)
    assert found == OneNode("n2", {"gang-0": "n2"})


@pytest.mark.parametrize(("placement", "want"), [("pack", "n3"), ("spread", "n2")])
def test_a_planned_member_moves_to_the_node_with_the_most_points(placement: str, want: str) -> None:
    members = pods(2)
    runs = pod("runs", 2, on="n3")
    cluster = cluster_of(nodes(4, 4, 4, 4), asking(placement, 2), members, runs)
    observe(cluster, planned(gang_0="n0", gang_1="n1"))
    found = follow_plan(members[0], GANG, ("n3", "n2"), view=cluster.view())
    assert found == OneNode(want, {"gang-0": want})


def test_a_planned_member_that_moves_is_no_sibling_of_itself() -> None:
    """It goes next to the one next in rank, and its own node draws it nowhere."""
    first, tried, third = (
        replace(each, index=number, controller="job") for number, each in enumerate(pods(3))
    )
    facts = (in_zones(a1=4, a2=4, b1=4, b2=4), asking("pack", 3), [first, tried, third])
    cluster = cluster_of(*facts, pod("far", group="gang", on="a2", index=9, controller="job"))
    observe(cluster, planned(gang_0="b1", gang_1="a1", gang_2="b1"))
    observe(cluster, replace(first, node="b1"), replace(third, node="b1"))
    found = follow_plan(tried, GANG, ("a2", "b1", "b2"), view=cluster.view())
    assert found == OneNode("b1", {"gang-1": "b1"})
    points = score(tried, ("a1", "b1"), view=cluster.view())
    assert points["a1"] < points["b1"]


@pytest.mark.parametrize("said", ["packed", "", "PACK", "50%"])
def test_another_word_is_refused(said: str) -> None:
    cluster = cluster_of(nodes(4), asking(said, 2), pods(2))
    view = cluster.view()
    refusal = cannot_start(GANG, view=view)
    assert refusal is not None
    assert refusal.reason is Reason.INVALID_PLACEMENT
    assert refusal.message == (
        "gang ns/gang: its annotation scheduling.x-k8s.io/placement is neither 'pack' nor "
        "'spread': correct or remove it"
    )
    group = view.pod_group(GANG)
    assert group is not None
    found = make_plan(pods(2)[0], group, view=view)
    assert isinstance(found, Refuse)
    assert found.reason is Reason.INVALID_PLACEMENT
    assert pending_of(GANG, view=view, options=GangOptions()).reason is refusal.reason


EXTRA = pod("extra", 1, group="gang", index=3, controller="job")
OLD = [
    pod("old-0", 1, group="gang", on="a1", index=0, controller="job"),
    pod("old-2", 1, group="gang", on="b1", index=2, controller="job"),
    pod("old-1", 1, group="gang", on="b1", index=1, controller="job"),
]
BUSY = [pod("busy-a2", 6, on="a2"), pod("busy-c2", 6, on="c2")]
WANT_POINTS: dict[str, tuple[str | None, Mapping[str, int]]] = {
    "near the next in rank, then a sibling, then its zone": (
        None,
        {"a1": 8, "a2": 4, "b1": 10, "b2": 4, "c1": 0, "c2": 0},
    ),
    "near, and busy": ("pack", {"a1": 7, "a2": 5, "b1": 9, "b2": 3, "c1": 0, "c2": 2}),
    "far, in another zone, and idle": (
        "spread",
        {"a1": 4, "a2": 8, "b1": 1, "b2": 8, "c1": 10, "c2": 9},
    ),
}


@pytest.mark.parametrize(("placement", "want"), WANT_POINTS.values(), ids=WANT_POINTS)
def test_points_of_a_member_that_may_choose(placement: str | None, want: Mapping[str, int]) -> None:
    there = in_zones(a1=8, a2=8, b1=8, b2=8, c1=8, c2=8)
    group = pod_group(min_member=3, placement=placement)
    view = cluster_of(there, group, BUSY, OLD, EXTRA).view()
    assert score(EXTRA, tuple(want), view=view) == want


def test_pods_without_a_group_get_no_points() -> None:
    view = cluster_of(nodes(4, 4), asking("pack", 1), pod("old", group="gang", on="n0")).view()
    assert score(pod("plain"), ("n0", "n1"), view=view) == {}


def test_a_node_that_is_not_known_has_no_points_for_what_is_in_use() -> None:
    view = cluster_of(nodes(4), asking("pack", 1), pod("old", group="gang", on="n0")).view()
    found = score(pod("extra", shape(0), group="gang"), ("n0", "gone"), view=view)
    assert found == {"n0": 8, "gone": 0}


def test_a_member_that_was_outbid_moves_before_it_gives_a_sibling_its_lost_room() -> None:
    members = pods(2)
    better = pod("better", 4, priority=9)
    cluster = cluster_of(nodes(4, 4, 4), asking("pack", 2), members, better)
    observe(cluster, planned(gang_0="n0", gang_1="n1"), planned(better="n0"))
    found = follow_plan(members[0], GANG, ("n0", "n1", "n2"), view=cluster.view())
    assert found == OneNode("n1", {"gang-0": "n1"})
