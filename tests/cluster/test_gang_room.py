"""What counts as room for a gang: nodes one by one, and only those that its pods may use."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import RESERVED, Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler

TAINT = {"key": "example.com/maintenance", "value": "yes", "effect": "NoSchedule"}
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
        lambda: api.get("pods", "plain", gangs.namespace)["spec"].get("nodeName") == large,
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
