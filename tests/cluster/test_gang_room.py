"""What counts as room for a gang: nodes one by one, and only those that its pods may use."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import RESERVED, Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler

TAINT = {"key": "example.com/maintenance", "value": "yes", "effect": "NoSchedule"}
MEMBER = {"role": "member"}
_ONE_PER_NODE = {
    "labelSelector": {"matchLabels": MEMBER},
    "topologyKey": "kubernetes.io/hostname",
}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_ONE_PER_NODE]}}
IN_ZONE_A = {"cpu": "3", "nodeSelector": {"zone": "a"}}


def test_a_gang_that_fits_the_sum_but_no_nodes_leaves_the_room_to_others(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [large] = nodes(1, "6", prefix="large")
    nodes(3, "2", prefix="small")
    gangs.create("g", 3, cpu="4")
    gangs.await_refused("g", "1 of the 3 pods that it still needs fit, short of cpu 8")
    assert gang.metric(RESERVED) == 0

    api.create(gangs.pod("plain", cpu="5"))
    api.wait_for(
        "the plain pod has the room",
        lambda: gangs.node_of("plain") == large,
    )
    assert gangs.placements() == []


@pytest.mark.parametrize(
    ("usable", "others", "member"),
    [
        ({"extended": {"example.com/gpu": 1}}, None, {"extended": {"example.com/gpu": 1}}),
        ({"pods": 1}, None, {}),
        ({"memory": "2Gi"}, None, {"memory": "1200Mi"}),
        ({}, {"unschedulable": True}, {"cpu": "3"}),
        ({}, {"taints": [TAINT]}, {"cpu": "3"}),
        ({"labels": {"zone": "a"}}, {"labels": {"zone": "b"}}, IN_ZONE_A),
    ],
    ids=["GPUs", "pod slots", "memory", "not cordoned", "not tainted", "selected"],
)
@pytest.mark.usefixtures("gang")
def test_room_is_what_the_nodes_have_of_each_resource(
    usable: dict[str, Any],
    others: dict[str, Any] | None,
    member: dict[str, Any],
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    nodes(2, prefix="usable", **usable)
    if others is not None:
        nodes(2, prefix="other", **others)
    gangs.create("g", 3, **member)
    gangs.await_refused("g", "2 of the 3 pods that it still needs fit")
    assert gangs.bound("g") == set()

    nodes(1, prefix="new", **usable)
    gangs.await_phases("g", Running=3)
    assert not any(placement.node.startswith("other") for placement in gangs.placements())


@pytest.mark.usefixtures("gang")
def test_a_launcher_and_workers_of_another_size_start_together(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(3, "4", prefix="worker")
    gangs.create_group("g", 4)
    gangs.add("g", 3, cpu="3")
    head = {"role": "head"}
    api.create(gangs.pod("g-launcher", cpu="500m", group="g", nodeSelector=head))
    gangs.await_refused("g", "3 of the 4 pods that it still needs fit")
    assert gangs.bound("g") == set()

    [found] = nodes(1, "1", prefix="head", labels=head)
    gangs.await_phases("g", Running=4)
    assert {p.node for p in gangs.placements() if p.pod == "g-launcher"} == {found}


@pytest.mark.usefixtures("gang")
def test_members_that_must_not_share_a_node_need_as_many_nodes_as_members(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(3)
    apart: dict[str, Any] = {"labels": MEMBER, "affinity": APART}
    gangs.create("four", 4, **apart)
    gangs.await_refused("four", "3 of the 4 pods that it still needs fit")
    assert gangs.bound("four") == set()
    gangs.delete([f"four-{number}" for number in range(4)])

    gangs.create("three", 3, **apart)
    gangs.await_phases("three", Running=3)
    assert len({placement.node for placement in gangs.placements()}) == 3
