"""Members, groups and room that change: what counts is what is there now."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import HELD, POD_GROUPS, RESERVED, Gangs
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import long_but_for

WOKEN_SECONDS = 120
"""Far below the long window and time-outs here, and kube-scheduler's own five minutes."""


@pytest.fixture
def important(api: Api) -> Iterator[str]:
    """A priority class above all other pods."""
    name = f"important-{uuid4().hex[:8]}"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    api.create({**kind, "metadata": {"name": name}, "value": 1000})
    yield name
    api.delete("scheduling.k8s.io/v1/priorityclasses", name)


def set_min_member(gangs: Gangs, group: str, count: int) -> None:
    body = {"spec": {"minMember": count}}
    gangs.api.patch(POD_GROUPS, group, gangs.namespace, body=body)


def idle(scheduler: GangScheduler) -> bool:
    return scheduler.metric(HELD) == scheduler.metric(RESERVED) == 0


# --- members ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("gang")
def test_a_higher_quorum_leaves_the_running_alone_and_counts_them(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 2)
    gangs.await_phases("g", Running=2)
    set_min_member(gangs, "g", 4)
    gangs.await_seen()

    gangs.add("g", 1, start=2)
    gangs.await_refused("g", "3 of the 4 pods that it needs exist")
    assert gangs.bound("g") == {"g-0", "g-1"}
    gangs.add("g", 1, start=3)
    gangs.await_phases("g", Running=4, timeout=WOKEN_SECONDS)
    assert len(gangs.placements()) == 4


@pytest.mark.usefixtures("gang")
def test_a_running_member_that_is_replaced_is_bound_at_once(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.create("g", 3, cpu="1")
    gangs.await_phases("g", Running=3)

    gangs.delete(["g-1"])
    # Another name, as of a Job: the simulated kubelet may delete the former pod by its name.
    gangs.add("g", 1, start=3, cpu="1")
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    names = [placement.pod for placement in gangs.placements()]
    assert sorted(names) == ["g-0", "g-1", "g-2", "g-3"]


# --- groups -----------------------------------------------------------------------------------


# --- room -------------------------------------------------------------------------------------


@pytest.mark.collisions(16)  # on a slow machine kube-scheduler goes on among many members
def test_of_two_gangs_that_could_each_have_nearly_all_its_room_one_starts_whole(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """A gap of a tenth is tolerated: two gangs that hold nine of ten would wait for each other."""
    nodes(18, "1")
    for group in ("a", "b"):
        gangs.create_group(group, 10, timeout=600)
    for number in range(10):
        for group in ("a", "b"):
            gangs.add(group, 1, start=number, cpu="1")

    winner = api.wait_for(
        "one gang is whole",
        lambda: next((group for group in ("a", "b") if len(gangs.bound(group)) == 10), None),
    )
    loser = "b" if winner == "a" else "a"
    gangs.await_refused(loser, "8 of the 10 pods that it still needs fit")
    api.create(*(gangs.pod(f"plain-{number}", cpu="1") for number in range(8)))
    api.wait_for(
        "all that is left is used",
        lambda: all(
            api.get("pods", f"plain-{number}", gangs.namespace)["spec"].get("nodeName")
            for number in range(8)
        ),
    )
    assert gangs.bound(loser) == set()
    assert idle(gang)

    gangs.delete([f"{winner}-{number}" for number in range(10)])
    gangs.await_phases(loser, Running=10, timeout=WOKEN_SECONDS)
    order = [placement.group for placement in gangs.placements()]
    assert order == [winner] * 10 + [loser] * 10


def not_ready(name: str) -> objects.Object:
    node = objects.node(name, "8", "32Gi")
    node["metadata"]["annotations"] = {"harness/never-ready": "true"}
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return node


@pytest.mark.usefixtures("gang")
@pytest.mark.parametrize("useless", long_but_for(["cordoned", "not ready", "tainted"], "cordoned"))
def test_short_min_resources_are_named_and_useless_nodes_do_not_count(
    useless: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    match useless:
        case "cordoned":
            [found] = nodes(1, "8", prefix="useless", memory="32Gi", unschedulable=True)
        case "tainted":
            taint = {"key": "example.com/maintenance", "effect": "NoSchedule"}
            [found] = nodes(1, "8", prefix="useless", memory="32Gi", taints=[taint])
        case _:
            found = f"useless-{gangs.namespace}"
            api.create(not_ready(found))
    try:
        gangs.create_group("g", 3, min_resources={"cpu": "10", "memory": "40Gi"})
        gangs.add("g", 3, cpu="1")
        gangs.await_refused("g", "its minResources are short of cpu 2, memory 8Gi", count=3)
        assert gangs.bound("g") == set()

        nodes(1, "8", prefix="new", memory="32Gi")
        gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    finally:
        api.delete("nodes", found)


@pytest.mark.usefixtures("gang")
@pytest.mark.parametrize("min_resources", [None, {"cpu": "12"}], ids=["fit", "minResources"])
def test_no_pod_is_evicted_for_a_gang_that_could_not_start_all_the_same(
    min_resources: dict[str, str] | None,
    important: str,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    names = nodes(2)
    api.create(gangs.pod("victim", cpu="2", node_name=names[0]))
    gangs.create_group("g", 3, min_resources=min_resources)
    gangs.add("g", 3, cpu="3", priority_class=important)
    gangs.await_refused("g", "", count=3)

    pods = [*gangs.members("g"), api.get("pods", "victim", gangs.namespace)]
    assert [pod["status"].get("nominatedNodeName") for pod in pods] == [None] * 4
    assert "deletionTimestamp" not in pods[-1]["metadata"]

    nodes(2, prefix="new")
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    assert api.get("pods", "victim", gangs.namespace)["status"]["phase"] == "Running"


# --- a failure that is remembered for long ----------------------------------------------------
