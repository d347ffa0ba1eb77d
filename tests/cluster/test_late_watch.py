"""The extender's watch of pods is late: no victim is chosen on what has long been otherwise."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.test_preemption import priority_class
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import GangScheduler

NAME = "late"
PODS = "/api/v1/pods"
SECONDS = 120.0
LAG = 8.0
"""Longer than it takes until kube-scheduler and the extender count as disagreeing."""


@dataclass(frozen=True)
class Late:
    """A pair, and the proxy between its extender and the API server."""

    gang: GangScheduler
    proxy: FaultyProxy


@pytest.fixture(scope="module")
def pair(control_plane: ControlPlane) -> Iterator[Late]:
    """The pair of this module, for pods with schedulerName `late`."""
    with FaultyProxy(control_plane, seed=1) as proxy:
        gang = GangScheduler(control_plane, name=NAME, api_port=proxy.port)
        yield Late(gang, proxy)
        gang.stop()


@pytest.fixture(scope="module")
def high(api: Api) -> Iterator[str]:
    """A priority class above that of other pods."""
    yield from priority_class(api)


@pytest.mark.usefixtures("reconciler")
def test_nothing_is_evicted_for_a_gang_that_has_room_by_now(
    pair: Late, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(4)
    names = [f"plain-{number}" for number in range(4)]
    for name in names:
        api.create(gangs.pod(name, cpu="3", scheduler_name=NAME))

    def running(names: list[str]) -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in api.list("pods", gangs.namespace)}
        there = [pods[name] for name in names if name in pods]
        return len(there) == len(names) and all(
            pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            for pod in there
        )

    api.wait_for("all run", lambda: running(names))
    gangs.await_seen(NAME)
    pair.proxy.set_lag(PODS, LAG)
    try:
        gangs.delete(names[:2])
        gangs.create("high", 2, cpu="3", priority_class=high, scheduler_name=NAME)
        gangs.await_phases("high", Running=2, timeout=SECONDS)
    finally:
        pair.proxy.set_lag(PODS, 0.0)
    assert running(names[2:])
