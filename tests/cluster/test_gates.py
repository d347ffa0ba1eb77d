"""Groups behind our gate until they fit: kube-scheduler never tries one that does not.

On a control plane of their own, because any other extender would take the gates away.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.alone import alone
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import GATE, Gangs, decisions
from tests.cluster.groups import Groups
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

GATED: dict[str, Any] = {"gates": [GATE]}
NO_ROOM = ("NotEnoughResources", "NeverFits", "RecentlyDenied")


control_plane, api = alone(controllers=True, kubelet=True)


@pytest.fixture(scope="module")
def gated_gang(control_plane: ControlPlane) -> Iterator[GangScheduler]:
    scheduler = GangScheduler(control_plane, settings={"gang": {"ungateWhen": "fits"}})
    yield scheduler
    scheduler.stop()


@pytest.fixture(scope="module")
def reconciler(control_plane: ControlPlane) -> Iterator[Reconciler]:
    reconciler = Reconciler(control_plane, settings={"reconcile": {"leaderElect": False}})
    reconciler.wait_leading()
    yield reconciler
    reconciler.stop()


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
def test_gated_groups_start_in_their_order(api: Api, gangs: Gangs, nodes: NodeFactory) -> None:
    [node] = nodes(1, "2")
    api.create(gangs.pod("blocker", cpu="1", node_name=node))
    for group in ("c", "a", "b"):
        gangs.create(group, 2, cpu="1", run_for="200ms", **GATED)
    gangs.delete(["blocker"])
    for group in "abc":
        gangs.await_phases(group, Succeeded=2)

    order = list(dict.fromkeys(placement.group for placement in gangs.placements()))
    assert order == ["c", "a", "b"]  # also where all were made within one second


@pytest.mark.usefixtures("gated_gang", "reconciler")
def test_a_held_back_group_says_what_it_waits_for(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [node] = nodes(1, "4")
    api.create(gangs.pod("blocker", cpu="1", node_name=node))
    gangs.create("g", 2, cpu="2", **GATED)

    text = (
        "2 pods exist, 1 of the 2 pods that it still needs fit, short of cpu 2, "
        "on 1 usable of 1 nodes"
    )
    Groups(api, gangs.namespace).await_reported("NotEnoughResources", text)


@pytest.mark.usefixtures("gated_gang")
def test_members_beyond_min_member_follow_their_gang(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(1, "4")
    gangs.create("g", 4, min_member=2, cpu="1", **GATED)

    gangs.await_phases("g", Running=4)
