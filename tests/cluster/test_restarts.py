"""Whatever is killed while a gang starts: it starts as a whole, and no pod is bound twice."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import (
    PATIENT,
    Gangs,
    Placement,
    await_bind_requests,
    await_held,
    bind_requests,
)
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import long_but_for

NAMES = ["g-0", "g-1", "g-2"]
SIZE = 200
LONG = 240.0
"""Seconds: clients that could not reach the API server pause for up to half a minute, and a member
whose Binding was given up may have lost its room after a minute."""
pytestmark = pytest.mark.collisions(SIZE)
"""Of a pod whose bind call got no answer kube-scheduler writes that it has no node."""


@pytest.fixture(autouse=True)
def alive_again(patient_gang: GangScheduler) -> Iterator[None]:
    """The processes are shared with other tests: whatever has ended runs again afterwards.

    A test starts what it kills, so that whatever has ended all the same is a failure.
    """
    yield
    ended = patient_gang.revive()
    assert not ended, "\n".join(ended)


def started_once(placements: list[Placement]) -> bool:
    return sorted(placement.pod for placement in placements) == NAMES


@pytest.mark.parametrize("victim", long_but_for(["extender", "scheduler"], "scheduler"))
def test_a_gang_completes_after_a_process_was_killed_while_its_members_were_held(
    victim: str, patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    before = bind_requests(api)
    gangs.hold("g")
    await_held(api, patient_gang, 2)

    component = getattr(patient_gang, victim)
    component.kill()
    if victim == "scheduler":
        await_held(api, patient_gang, 0)  # its connections are gone, and no request waits
    component.start()
    await_held(api, patient_gang, 2, timeout=120)
    assert gangs.bound("g") == set()

    api.create(gangs.anchor(scheduler_name=PATIENT))
    gangs.await_phases("g", Running=3, timeout=120)
    assert started_once(gangs.placements())
    await_bind_requests(api, before + 4)  # the anchor's is the fourth


@pytest.mark.parametrize("victim", long_but_for(["extender", "scheduler"], "extender"))
def test_a_gang_completes_after_a_process_was_killed_while_it_was_being_bound(
    victim: str, patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(3, pods=110)
    names = gangs.create("g", SIZE, cpu="1m", memory="1Mi", scheduler_name=PATIENT)
    api.wait_for("the first are bound", lambda: gangs.bound("g"))
    component = getattr(patient_gang, victim)
    component.kill()
    left = len(names) - len(gangs.bound("g"))
    print(f"{left} were left when the {victim} was killed")
    component.start()

    gangs.await_phases("g", Running=len(names), timeout=LONG)
    assert sorted(placement.pod for placement in gangs.placements()) == sorted(names)


def test_gangs_complete_after_the_api_server_was_killed(
    control_plane: ControlPlane,
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    nodes(3)
    gangs.hold("g")
    await_held(api, patient_gang, 2)
    gangs.create("short", 2, min_member=3, scheduler_name=PATIENT)
    gangs.await_refused("short", "2 of the 3 pods that it needs exist")

    control_plane.apiserver.kill()
    control_plane.apiserver.start()
    control_plane.wait_ready()

    assert gangs.bound("g") == gangs.bound("short") == set()
    gangs.create("new", 3, scheduler_name=PATIENT)
    gangs.await_phases("new", Running=3, timeout=120)
    gangs.add("short", 1, start=2, scheduler_name=PATIENT)
    gangs.await_phases("short", Running=3, timeout=120)
    api.create(gangs.anchor(scheduler_name=PATIENT))
    gangs.await_phases("g", Running=3, timeout=120)


def test_a_gang_completes_that_reaches_its_quorum_while_the_api_server_is_down(
    control_plane: ControlPlane,
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    nodes(1, "4")
    names = gangs.create("g", 100, cpu="1m", memory="1Mi", scheduler_name=PATIENT)
    api.wait_for("the first are bound", lambda: gangs.bound("g"))
    control_plane.apiserver.kill()
    control_plane.apiserver.start()
    control_plane.wait_ready()

    gangs.await_phases("g", Running=len(names), timeout=LONG)


@pytest.mark.parametrize("late", long_but_for(["member", "PodGroup"], "member"))
def test_members_that_were_refused_before_the_extender_was_killed_are_woken_by_what_was_missing(
    late: str, patient_gang: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    """What was refused is only remembered in memory; the pods' conditions still say it."""
    nodes(2)
    if late == "member":
        gangs.create_group("g", 3)
    gangs.add("g", 2 if late == "member" else 3, cpu="1", scheduler_name=PATIENT)
    gangs.await_refused("g", "", count=2)
    patient_gang.extender.kill()
    patient_gang.extender.start()
    patient_gang.wait_ready()

    if late == "member":
        gangs.add("g", 1, start=2, cpu="1", scheduler_name=PATIENT)
    else:
        gangs.create_group("g", 3)
    gangs.await_phases("g", Running=3)
    assert started_once(gangs.placements())
