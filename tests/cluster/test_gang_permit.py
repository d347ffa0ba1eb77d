"""Members that wait for the rest of their gang: let go together, or sent away together."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import (
    GATE,
    HELD,
    PATIENT,
    POD_GROUPS,
    RESERVED,
    Gangs,
    await_held,
    decisions,
)
from tests.harness.client import Api, Object
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import LONG, long_but_for


@pytest.fixture
def plain(gangs: Gangs) -> Object:
    """A pod outside any gang that needs the room of more than one member."""
    return gangs.pod("plain", cpu="2", scheduler_name=PATIENT)


def test_members_are_held_until_the_last_one_has_a_node(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.hold("g")
    await_held(api, patient_gang, 2)
    api.create(gangs.pod("plain", cpu="500m", scheduler_name=PATIENT))
    api.wait_for("others are bound meanwhile", lambda: gangs.node_of("plain"))
    assert patient_gang.metric(HELD) == 2
    assert gangs.bound("g") == set()

    api.create(gangs.anchor(scheduler_name=PATIENT))
    gangs.await_phases("g", Running=3)
    assert patient_gang.metric(HELD) == 0
    assert patient_gang.metric(RESERVED) == 0


def test_held_members_are_sent_away_together_after_the_time_out_and_others_get_the_room(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory, plain: Object
) -> None:
    nodes(1, "3")
    timed_out = decisions(patient_gang, "bind", "ScheduleTimeout")
    gangs.hold("g", timeout=15)
    await_held(api, patient_gang, 2)
    api.create(plain)
    api.wait_for("no room yet", lambda: gangs.message("plain"))
    assert patient_gang.metric(HELD) == 2

    seen: set[float] = set()

    def sent_away() -> bool:
        seen.add(patient_gang.metric(HELD))
        return 0 in seen

    api.wait_for("no bind is held", sent_away)
    assert seen == {2, 0}
    assert decisions(patient_gang, "bind", "ScheduleTimeout") == timed_out + 2
    api.wait_for("the plain pod has the room", lambda: gangs.node_of("plain"))
    text = gangs.sentence("g", "2 of 3 pods got a node before the time-out")
    api.wait_for("an Event says so", lambda: any(text in failure for failure in gangs.failures()))
    assert gangs.placements() == []


def test_held_members_are_sent_away_at_once_when_one_of_them_is_deleted(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory, plain: Object
) -> None:
    nodes(1, "3")
    gangs.hold("g")
    await_held(api, patient_gang, 2)
    api.create(plain)
    api.wait_for("no room yet", lambda: gangs.message("plain"))

    gangs.delete(["g-0"])
    await_held(api, patient_gang, 0)
    gangs.await_refused("g", "2 of the 3 pods that it needs are left")
    api.wait_for("the plain pod has the room", lambda: gangs.node_of("plain"))
    assert gangs.bound("g") == set()

    gangs.delete(["plain"])
    gangs.add("g", 1, cpu="1", scheduler_name=PATIENT)
    await_held(api, patient_gang, 2)
    api.create(gangs.anchor(cpu="0", scheduler_name=PATIENT))
    gangs.await_phases("g", Running=3)


def test_a_gang_that_can_do_without_the_deleted_member_goes_on_waiting(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    gangs.create_group("g", 4)
    gangs.add("g", 3, scheduler_name=PATIENT, gates=[GATE])
    late = [gangs.late(f"g-{n}", group="g", scheduler_name=PATIENT, gates=[GATE]) for n in (4, 5)]
    api.create(*late)  # five: three can be held
    await_held(api, patient_gang, 3)

    gangs.delete(["g-2"])  # four are left
    await_held(api, patient_gang, 2)
    api.create(gangs.anchor(scheduler_name=PATIENT))
    gangs.await_phases("g", Running=4)


def test_held_members_are_sent_away_with_their_pod_group_and_start_anew_with_the_next(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes()
    before = decisions(patient_gang, "bind", "PodGroupDeleted")
    gangs.hold("g")
    await_held(api, patient_gang, 2)

    api.delete(POD_GROUPS, "g", gangs.namespace)
    await_held(api, patient_gang, 0)
    assert decisions(patient_gang, "bind", "PodGroupDeleted") == before + 2
    gangs.await_refused("g", "")
    assert gangs.bound("g") == set()

    gangs.create_group("g", 3)
    await_held(api, patient_gang, 2)
    api.create(gangs.anchor(scheduler_name=PATIENT))
    gangs.await_phases("g", Running=3)


@pytest.mark.parametrize("comes", long_but_for(["first", "last"], "last"))
def test_a_member_without_a_node_sends_the_others_away_at_once_if_the_gap_is_large(
    comes: str, gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.create_group("g", 3, timeout=600)
    late = gangs.late("g-2", group="g", cpu="1")
    if comes == "first":
        api.create(late)
        api.wait_for("it has no node", lambda: gangs.message("g-2"))
    gangs.add("g", 2, cpu="1")
    if comes == "last":
        api.create(late)
    gangs.await_refused("g", "no node for one of its pods")
    await_held(api, gang, 0)

    api.create(gangs.pod("plain", cpu="2"))
    api.wait_for("the plain pod has the room", lambda: gangs.node_of("plain"))
    assert gangs.bound("g") == set()


def test_a_gang_with_a_member_without_a_node_gives_its_room_back_whenever_it_tries_again(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.hold("g", scheduler_name=None)
    gangs.await_refused("g", "no node for one of its pods")
    refused = decisions(gang, "bind", "MemberUnschedulable")

    def sent_away_again() -> bool:
        return decisions(gang, "bind", "MemberUnschedulable") >= refused + 2

    api.wait_for("the two were held and sent away once more", sent_away_again)
    await_held(api, gang, 0)
    api.create(gangs.pod("plain", cpu="2"))
    api.wait_for("the plain pod has the room", lambda: gangs.node_of("plain"))
    assert gangs.bound("g") == set()


@LONG
def test_a_thousand_members_are_held_and_let_go_as_one(
    gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(20, "4", pods=110)
    gangs.create_group("g", 1000, timeout=600)
    small: dict[str, Any] = {"cpu": "1m", "memory": "1Mi", "gates": [GATE]}
    api.create(gangs.late("g-last", group="g", **small))
    gangs.add("g", 999, **small)
    await_held(api, gang, 999, timeout=120)
    assert gangs.bound("g") == set()
    before = _written(gang)

    api.create(gangs.anchor(cpu="1m"))
    api.wait_for("all are bound", lambda: len(gangs.bound("g")) == 1000, timeout=120)
    await_held(api, gang, 0)
    # Each pod once, and the anchor. The API server may count more: a Binding whose answer is late
    # is tried again.
    api.wait_for("all are counted", lambda: _written(gang) >= before + 1001)
    assert _written(gang) == before + 1001


def _written(gang: GangScheduler) -> float:
    """Return how many Bindings the extender has written."""
    name = "gang_extender_bindings_total"
    return sum(gang.metric(f'{name}{{path="{path}",result="ok"}}') for path in ("asked", "ahead"))
