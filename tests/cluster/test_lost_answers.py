"""Bindings whose answers are lost: no gang is left half started, and none is bound twice."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import (
    HELD,
    RESERVED,
    Gangs,
    await_held,
    bind_requests,
)
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import Fault, FaultyProxy
from tests.harness.gang_scheduler import GangScheduler

FAILED = 'gang_extender_binding_duration_seconds_count{result="error"}'
LOSSY = "lossy"


def idle(scheduler: GangScheduler) -> bool:
    return scheduler.metric(HELD) == scheduler.metric(RESERVED) == 0


# --- refusal against release ------------------------------------------------------------------


# --- bindings that fail -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(control_plane, seed=1) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def lossy_gang(control_plane: ControlPlane, proxy: FaultyProxy) -> Iterator[GangScheduler]:
    """A pair for pods with schedulerName `lossy`, whose extender may lose answers."""
    scheduler = GangScheduler(
        control_plane,
        name=LOSSY,
        settings={"gang": {"rejectPercentage": 100}, "kube": {"timeoutSeconds": 5}},
        scheduler={"profiles": [{"schedulerName": LOSSY}]},
        api_port=proxy.port,
    )
    yield scheduler
    scheduler.stop()


def tries(scheduler: GangScheduler, gangs: Gangs, outcome: str) -> int:
    """Return how often the log says that a binding of g-1 was not written."""
    lines = scheduler.extender.log_path.read_text().splitlines()
    return sum(outcome in line and f"{gangs.namespace}/" in line for line in lines)


def test_bindings_whose_answers_are_lost_are_looked_up_and_made_once(
    lossy_gang: GangScheduler, proxy: FaultyProxy, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [node] = nodes(1, "3")
    gangs.create_group("g", 3, timeout=600)
    gangs.add("g", 2, cpu="1", scheduler_name=LOSSY)
    api.create(gangs.late("g-2", group="g", cpu="1", scheduler_name=LOSSY))
    await_held(api, lossy_gang, 2)
    asked = bind_requests(api)

    proxy.lose("/binding", 3)
    api.create(gangs.anchor(cpu="0", node_name=node))
    gangs.await_phases("g", Running=3)
    api.wait_for("the pods were looked up", lambda: idle(lossy_gang))
    assert (bind_requests(api), proxy.faults[Fault.LOST]) == (asked + 3, 3)
    assert tries(lossy_gang, gangs, "binding not written yet") == 0
    assert len(gangs.placements()) == 3
    assert lossy_gang.metric(FAILED) == 0
