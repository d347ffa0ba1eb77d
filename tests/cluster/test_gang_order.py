"""Which group goes first when not all can: their order, and what keeps it fair."""

from datetime import datetime
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler

CLAIMS = "gang_extender_claims"
BESIDE = "0 of the 2 pods that it still needs fit beside gangs that go first"
KEPT = "room is kept for a gang that goes first"


def created(api: Api, group: str, namespace: str) -> datetime:
    stamp = api.get(POD_GROUPS, group, namespace)["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(stamp)


def await_whole(api: Api, gangs: Gangs, *groups: str) -> str:
    """Wait until the two pods of one of the groups have a node, and return which group it is."""
    return api.wait_for(
        f"one of {groups} is whole",
        lambda: next((group for group in groups if len(gangs.bound(group)) == 2), None),
    )


def await_claims(api: Api, gang: GangScheduler, count: int) -> None:
    api.wait_for(f"{count} groups have a claim", lambda: gang.metric(CLAIMS) == count)


def later(api: Api, gangs: Gangs, earlier: str, name: str) -> None:
    """Make a PodGroup that is younger than another one, by the API's whole seconds."""
    born = created(api, earlier, gangs.namespace)

    def is_younger() -> bool:
        gangs.create_group(name, 2)
        if created(api, name, gangs.namespace) > born:
            return True
        api.delete(POD_GROUPS, name, gangs.namespace)
        return False

    api.wait_for(f"{name} is younger than {earlier}", is_younger)


def test_groups_of_the_same_second_come_in_their_order_and_do_not_mix(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """kube-scheduler brings the pods in any order: in that of their creation, or of a cache."""
    nodes(1, "2")
    gang.scheduler.kill()
    groups = ("z", "y", "b", "x", "w", "v")

    def are_of_one_second() -> bool:
        for group in groups:
            gangs.create_group(group, 2)
        if len({created(api, group, gangs.namespace) for group in groups}) == 1:
            return True
        for group in groups:
            api.delete(POD_GROUPS, group, gangs.namespace)
        return False

    api.wait_for("all are of one second", are_of_one_second)
    for number in range(2):
        for group in groups:
            gangs.add(group, 1, start=number, cpu="1")
    gang.scheduler.start()

    assert await_whole(api, gangs, *groups) == "z"
    assert {placement.group for placement in gangs.placements()} == {"z"}
    gangs.delete(["z-0", "z-1"])
    await_whole(api, gangs, "y", "b", "x", "w", "v")


def test_a_stream_of_small_pods_does_not_starve_an_old_large_group(
    aging_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """Whenever a small one ends, the next one could take its room."""
    nodes(2, "4")
    stream = [
        gangs.pod(f"s-{number:02}", cpu="3", run_for="1s", scheduler_name="aging")
        for number in range(80)
    ]
    api.create(*stream[:4])
    api.wait_for("two of them run", lambda: len(placed(gangs, api)) >= 2)
    gangs.create("large", 2, cpu="4", scheduler_name="aging")
    api.create(*stream[4:])

    gangs.await_phases("large", Running=2, timeout=120)
    before = placed(gangs, api)
    assert len(before) < len(stream)
    waiting = sorted({pod["metadata"]["name"] for pod in stream} - before)
    gangs.delete(waiting[2:])
    gangs.delete(["large-0", "large-1"])
    api.wait_for("the rest runs", lambda: placed(gangs, api) >= {*waiting[:2]})
    await_claims(api, aging_gang, 0)


def placed(gangs: Gangs, api: Api) -> set[str]:
    """Return the names of the small pods that have, or had, a node."""
    return {
        pod["metadata"]["name"]
        for pod in api.list("pods", gangs.namespace)
        if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith("s-")
    }


def test_nodes_set_aside_are_for_the_group_and_for_higher_priority(
    aging_gang: GangScheduler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    # The claim grows with each further period: the third node is none for the large ones.
    first, second = nodes(2, "4")
    [third] = nodes(1, "3", prefix="small")
    long: Any = {"scheduler_name": "aging"}
    # An extender sets nothing aside for a scheduler that has never asked it.
    api.create(gangs.pod("hello", cpu="100m", **long))
    api.wait_for("the scheduler has asked", lambda: gangs.node_of("hello"))
    gangs.delete(["hello"])
    for number, (node, cpu) in enumerate(((first, "1"), (second, "1"), (third, "1"))):
        api.create(gangs.pod(f"long-{number}", cpu=cpu, node_name=node))
    gangs.create("large", 2, cpu="4", **long)
    await_claims(api, aging_gang, 1)

    api.create(gangs.pod("backfill", cpu="2", **long))
    api.wait_for("it is placed", lambda: gangs.node_of("backfill"))
    assert gangs.node_of("backfill") == third
    api.create(gangs.pod("more", cpu="2", **long))
    api.wait_for(
        "the next is refused",
        lambda: KEPT in gangs.message("more"),
    )
    gangs.create("small", 2, cpu="1", **long)
    gangs.await_refused("small", BESIDE)

    api.create(gangs.pod("urgent", cpu="2", priority_class=high, **long))
    api.wait_for("the more important pod is placed", lambda: gangs.node_of("urgent"))
    assert gangs.node_of("urgent") in {first, second}

    gangs.delete(["long-0", "long-1", "urgent"])
    gangs.await_phases("large", Running=2)
    assert gangs.bound("small") == set()
    gangs.delete(["large-0", "large-1"])
    gangs.await_phases("small", Running=2)
    api.wait_for("the last is placed", lambda: gangs.node_of("more"))


@pytest.mark.usefixtures("strict_gang")
def test_in_strict_order_a_small_group_waits_behind_a_large_one(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    first, _ = nodes(2, "4")
    strict: Any = {"scheduler_name": "strict"}
    api.create(gangs.pod("blocker", cpu="1", node_name=first))
    gangs.create("huge", 3, cpu="4", **strict)
    gangs.create_group("large", 2)
    later(api, gangs, "large", "small")
    gangs.add("large", 2, cpu="4", **strict)
    gangs.await_refused("large", "1 of the 2 pods that it still needs fit, short of cpu 4")
    gangs.add("small", 2, cpu="1", **strict)
    gangs.await_refused("small", "another gang is ahead of it, and the order is strict", count=2)
    assert gangs.bound("small") == set()

    gangs.delete(["blocker"])
    gangs.await_phases("large", Running=2)
    gangs.delete(["large-0", "large-1"])
    gangs.await_phases("small", Running=2)
    order = [placement.group for placement in gangs.placements()]
    assert order == ["large"] * 2 + ["small"] * 2
