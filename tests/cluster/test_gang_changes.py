"""Members, groups and room that change: what counts is what is there now."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.alone import namespace_of, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import HELD, PATIENT, POD_GROUPS, RESERVED, Gangs, await_held
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import long_but_for

WOKEN_SECONDS = 120
"""Far below the long window and time-outs here, and kube-scheduler's own five minutes."""
FOREIGN_GATE = "example.com/not-ours"
RESENTFUL = "resentful"
FULL = "2 of the 3 pods that it still needs fit"


resentful_gang = pair_of(
    RESENTFUL, settings={"gang": {"deniedSeconds": 300, "rejectPercentage": 100}}
)
"""It remembers failures for long."""


@pytest.fixture
def elsewhere(api: Api, gangs: Gangs) -> Iterator[Gangs]:
    """Gangs in a second namespace."""
    name = namespace_of(api)
    yield Gangs(gangs.api, name)
    api.delete("namespaces", name)
    api.delete_all("pods", name, grace_seconds=0)


def set_min_member(gangs: Gangs, group: str, count: int) -> None:
    body = {"spec": {"minMember": count}}
    gangs.api.patch(POD_GROUPS, group, gangs.namespace, body=body)


def idle(scheduler: GangScheduler) -> bool:
    return scheduler.metric(HELD) == scheduler.metric(RESERVED) == 0


# --- members ----------------------------------------------------------------------------------


def test_held_members_go_on_waiting_when_more_are_needed(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    # Before the others, so that it is known when the quorum is a higher one.
    gangs.add("g", 1, start=3, gates=[FOREIGN_GATE], scheduler_name=PATIENT)
    gangs.hold("g", timeout=600)
    await_held(api, patient_gang, 2)
    set_min_member(gangs, "g", 4)
    gangs.await_seen(PATIENT)

    api.create(gangs.anchor(cpu="0", scheduler_name=PATIENT))
    await_held(api, patient_gang, 3)  # enough for the former quorum
    assert gangs.bound("g") == set()

    taken_away = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    api.patch("pods", "g-3", gangs.namespace, body=taken_away, how="json")
    gangs.await_phases("g", Running=4, timeout=WOKEN_SECONDS)
    api.wait_for("nothing is kept", lambda: idle(patient_gang))


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
def test_a_lower_quorum_leaves_the_running_alone_and_lets_one_start_with_fewer(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 3)
    gangs.await_phases("g", Running=3)
    set_min_member(gangs, "g", 2)
    gangs.add("g", 1, start=3)
    gangs.await_phases("g", Running=4, timeout=WOKEN_SECONDS)

    gangs.delete(["g-1", "g-2", "g-3"])
    gangs.add("g", 1, start=4)  # with the one that runs it makes two
    gangs.await_phases("g", Running=2, timeout=WOKEN_SECONDS)
    assert [placement.pod for placement in gangs.placements()].count("g-0") == 1


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


@pytest.mark.usefixtures("gang")
def test_of_two_running_members_that_are_replaced_the_first_waits_for_the_second(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.create("g", 3, cpu="1")
    gangs.await_phases("g", Running=3)

    gangs.delete(["g-0", "g-1"])
    gangs.await_seen()
    gangs.add("g", 1, start=3, cpu="1")
    gangs.await_refused("g", "2 of the 3 pods that it needs exist")
    assert gangs.bound("g") == {"g-2"}
    gangs.add("g", 1, start=4, cpu="1")
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)


# --- groups -----------------------------------------------------------------------------------


def test_a_pod_group_of_a_former_name_inherits_neither_room_nor_failure(
    resentful_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.hold("g", timeout=15, scheduler_name=RESENTFUL)
    gangs.await_refused("g", "2 of 3 pods got a node before the time-out", count=2)

    api.delete(POD_GROUPS, "g", gangs.namespace)
    api.create(gangs.anchor(cpu="0", scheduler_name=RESENTFUL))
    api.wait_for("nothing is kept", lambda: idle(resentful_gang))
    assert gangs.bound("g") == set()
    gangs.create_group("g", 3)
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    api.wait_for("nothing is kept", lambda: idle(resentful_gang))


def test_nothing_is_kept_for_held_members_whose_pod_group_is_gone(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.hold("g", timeout=600)
    await_held(api, patient_gang, 2)
    assert patient_gang.metric(RESERVED) == 1  # the room of the one that is late
    api.create(gangs.pod("plain", cpu="3", scheduler_name=PATIENT))

    api.delete(POD_GROUPS, "g", gangs.namespace)
    api.wait_for("nothing is kept", lambda: idle(patient_gang))
    api.wait_for(
        "a plain pod has all the room",
        lambda: gangs.node_of("plain"),
    )
    assert gangs.bound("g") == set()


@pytest.mark.usefixtures("gang")
def test_groups_of_one_name_in_two_namespaces_do_not_count_each_others_pods(
    gangs: Gangs, elsewhere: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    both = (gangs, elsewhere)
    for each in both:
        each.create("g", 2, min_member=3)
    for each in both:
        each.await_refused("g", "2 of the 3 pods that it needs exist")

    gangs.add("g", 1, start=2)
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    assert elsewhere.bound("g") == set()
    elsewhere.add("g", 1, start=2)
    elsewhere.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    assert [len(each.placements()) for each in both] == [3, 3]


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
        lambda: all(gangs.node_of(f"plain-{number}") for number in range(8)),
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
def test_a_gang_short_of_min_resources_starts_when_a_node_is_uncordoned(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1)
    [cordoned] = nodes(1, prefix="cordoned", unschedulable=True)
    gangs.create_group("g", 3, min_resources={"cpu": "6"})
    gangs.add("g", 3, cpu="1")
    gangs.await_refused("g", "its minResources are short of cpu 2", count=3)

    api.patch("nodes", cordoned, body={"spec": {"unschedulable": None}})
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)


@pytest.mark.usefixtures("gang")
@pytest.mark.parametrize("min_resources", [None, {"cpu": "12"}], ids=["fit", "minResources"])
def test_no_pod_is_evicted_for_a_gang_that_could_not_start_all_the_same(
    min_resources: dict[str, str] | None,
    high: str,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    names = nodes(2)
    api.create(gangs.pod("victim", cpu="2", node_name=names[0]))
    gangs.create_group("g", 3, min_resources=min_resources)
    gangs.add("g", 3, cpu="3", priority_class=high)
    gangs.await_refused("g", "", count=3)

    pods = [*gangs.members("g"), api.get("pods", "victim", gangs.namespace)]
    assert [pod["status"].get("nominatedNodeName") for pod in pods] == [None] * 4
    assert "deletionTimestamp" not in pods[-1]["metadata"]

    nodes(2, prefix="new")
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)
    assert api.get("pods", "victim", gangs.namespace)["status"]["phase"] == "Running"


# --- a failure that is remembered for long ----------------------------------------------------


@pytest.mark.usefixtures("resentful_gang")
def test_a_gang_that_was_short_of_pods_starts_with_its_last_one_however_long_failures_count(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create("g", 2, min_member=3, scheduler_name=RESENTFUL)
    gangs.await_refused("g", "2 of the 3 pods that it needs exist")

    gangs.add("g", 1, start=2, scheduler_name=RESENTFUL)
    gangs.await_phases("g", Running=3, timeout=WOKEN_SECONDS)


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ("a new node", {"Running": 3}),
        ("a pod's end", {"Running": 3}),
        ("a lower quorum", {"Pending": 1, "Running": 2}),
        ("a smaller member", {"Pending": 1, "Running": 3}),
        ("lower minResources", {"Running": 3}),
    ],
)
def test_a_failure_is_forgotten_at_once_when_the_cause_may_be_gone(
    what: str,
    want: dict[str, int],
    resentful_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    [first, *_] = nodes(3 if what in {"a pod's end", "lower minResources"} else 2)
    if what == "a pod's end":
        api.create(gangs.pod("plain", cpu="2", node_name=first))
    short = {"cpu": "100"} if what == "lower minResources" else None
    gangs.create_group("g", 3, min_resources=short)
    members: dict[str, Any] = {"scheduler_name": RESENTFUL}
    gangs.add("g", 3, cpu="3", **members)
    gangs.await_refused("g", "its minResources" if short else FULL)

    match what:
        case "a new node":
            nodes(1, prefix="new")
        case "a pod's end":
            gangs.delete(["plain"])
        case "a lower quorum":
            set_min_member(gangs, "g", 2)
        case "a smaller member":
            gangs.add("g", 1, start=3, cpu="1", **members)
        case _:
            body = {"spec": {"minResources": {"cpu": "9"}}}
            api.patch(POD_GROUPS, "g", gangs.namespace, body=body)
    gangs.await_phases("g", timeout=WOKEN_SECONDS, **want)
    assert idle(resentful_gang)
