"""The extender's watch of pods is late: no victim is chosen on what has long been otherwise."""

import pytest

from tests.cluster.alone import Proxied, pair_behind_proxy
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api

NAME = "late"
PODS = "/api/v1/pods"
SECONDS = 120.0
LAG = 8.0
"""Longer than it takes until kube-scheduler and the extender count as disagreeing."""


pair = pair_behind_proxy(NAME)


@pytest.mark.usefixtures("reconciler")
def test_nothing_is_evicted_for_a_gang_that_has_room_by_now(
    pair: Proxied, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
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
