"""Groups behind our gate until they fit: kube-scheduler never tries one that does not.

On a control plane of their own, because any other extender would take the gates away.
"""

from typing import Any

import pytest

from tests.cluster.alone import alone, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import GATE, Gangs, decisions
from tests.harness.gang_scheduler import GangScheduler

GATED: dict[str, Any] = {"gates": [GATE]}
NO_ROOM = ("NotEnoughResources", "NeverFits", "RecentlyDenied")


control_plane, api = alone(controllers=True, kubelet=True)


gated_gang = pair_of("gang", settings={"gang": {"ungateWhen": "fits"}})


def gates(gangs: Gangs, group: str) -> list[int]:
    """Return how many gates each pod of a group has."""
    return [len(pod["spec"].get("schedulingGates", ())) for pod in gangs.members(group)]


def test_a_group_is_ungated_when_there_is_room_and_not_tried_before(
    gated_gang: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    before = decisions(gated_gang, "filter", *NO_ROOM)
    gangs.create("large", 3, cpu="2", **GATED)
    gangs.create("small", 2, cpu="1", **GATED)

    gangs.await_phases("small", Running=2)
    assert gates(gangs, "large") == [1, 1, 1]

    nodes(1, "2", prefix="new")
    assert gates(gangs, "large") == [1, 1, 1]
    gangs.delete(["small-0", "small-1"])
    gangs.await_phases("large", Running=3)
    # None was tried in vain, but where kube-scheduler saw a gate go before the extender did.
    assert decisions(gated_gang, "filter", *NO_ROOM) == before


@pytest.mark.usefixtures("gated_gang")
def test_members_beyond_min_member_follow_their_gang(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(1, "4")
    gangs.create("g", 4, min_member=2, cpu="1", **GATED)

    gangs.await_phases("g", Running=4)
