"""Gangs whose Bindings the API server refuses, as an admission policy has it."""

import pytest

from tests.cluster import faults
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import HELD, POD_GROUPS, RESERVED, Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import long_but_for

pytestmark = pytest.mark.usefixtures("gang")


def await_says(api: Api, gangs: Gangs, group: str) -> None:
    """Wait until a PodGroup has what the policy says."""

    def says() -> bool:
        status = api.get(POD_GROUPS, group, gangs.namespace).get("status", {})
        said = {each["type"]: each for each in status.get("conditions", ())}.get("Permitted", {})
        return said.get("reason") == "BindingRefused" and "not now" in said["message"]

    api.wait_for(f"{group} says that its Bindings are refused", says, 120)


@pytest.mark.parametrize("reason", long_but_for(["Invalid", "Forbidden"], "Invalid"))
def test_a_gang_whose_bindings_are_all_refused_lets_others_go_first_and_starts_in_the_end(
    reason: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    with faults.refused(api, gangs.namespace, "bad", reason):
        gangs.create("bad", 3, cpu="1")
        await_says(api, gangs, "bad")
        gangs.create("g", 3, cpu="1")
        gangs.await_phases("g", Running=3)
    gangs.delete(["g-0", "g-1", "g-2"])
    gangs.await_phases("bad", Running=3, timeout=180)


def test_a_gang_of_which_one_binding_is_refused_says_so_and_gives_its_room_back_in_the_end(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    # Longer than kube-scheduler's longest pause, so that each try begins the wait anew.
    gangs.create_group("g", 3, timeout=12)
    with faults.refused(api, gangs.namespace, "g-1", "Invalid"):
        gangs.add("g", 3, cpu="1")
        api.wait_for("the others are bound", lambda: gangs.bound("g") == {"g-0", "g-2"})
        await_says(api, gangs, "g")
        gangs.create("young", 1, cpu="500m")
        api.create(gangs.pod("plain", cpu="500m"))
        gangs.await_phases("young", Running=1, timeout=120)
        api.wait_for("a plain pod has room too", lambda: gangs.node_of("plain"), 120)
    api.wait_for("nothing is kept", lambda: gang.metric(HELD) == gang.metric(RESERVED) == 0)
    gangs.delete(["young-0", "plain"])
    gangs.await_phases("g", Running=3, timeout=180)


def test_a_running_gang_whose_new_member_is_refused_says_so(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.create("g", 3, cpu="1")
    gangs.await_phases("g", Running=3)
    # Its name is new: KWOK ends pods by name, and could end the one that came in its place.
    with faults.refused(api, gangs.namespace, "g-3", "Invalid"):
        gangs.delete(["g-1"])
        gangs.add("g", 1, start=3, cpu="1")
        await_says(api, gangs, "g")
    gangs.await_phases("g", Running=3, timeout=180)
