"""Gangs are bound together, and kube-scheduler does not see it: its watch of pods lags.

It believes room free that is taken, and has plain pods and other gangs for it. No node may be
overcommitted, which the books say, and all that fits runs in the end.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import httpx
import pytest

from tests.cluster.alone import Proxied, pair_behind_proxy
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.gang_scheduler import KUBE_SCHEDULER
from tests.tiers import LONG

NAME = "lags"
PODS = "/api/v1/pods"
AHEAD = 'gang_extender_bindings_total{path="ahead",result="ok"}'
BEHIND = "gang_extender_scheduler_behind"
PATIENCE = 300.0
PODS_IN_ALL = 40
pytestmark = [pytest.mark.collisions(64), pytest.mark.timeout(900)]
"""kube-scheduler tries pods that are bound, and sees it in the middle of a cycle."""


running = pair_behind_proxy(NAME, user=KUBE_SCHEDULER)


@pytest.fixture
def pair(running: Proxied, api: Api) -> Iterator[Proxied]:
    """The same, with a kube-scheduler that does not count as behind; without a lag after the test.

    While it does, nothing is bound ahead of it.
    """
    api.wait_for("it is not behind", lambda: running.gang.metric(BEHIND) == 0, PATIENCE)
    yield running
    running.proxy.set_lag(PODS, 0.0)
    running.proxy.move()


def make_nodes(nodes: NodeFactory, **options: Any) -> list[str]:
    """Return the names of a large node, and of small ones with as much CPU as it has in all.

    Only the large one has room for members of the gang `large`, and for few other pods beside
    them. kube-scheduler would put more there if it did not see them.
    """
    large = nodes(1, "32", prefix="large", **options)
    return large + nodes(8, "4", prefix="small", **options)


def create_all(pair: Proxied, api: Api, gangs: Gangs, names: Sequence[str]) -> int:
    """Create all that the nodes have room for, unseen by kube-scheduler; return how many pods.

    Of each gang the first member comes before plain pods, and the others after them. The extender
    has planned both gangs, so that no plain pod has the room of one. Gangs of one are equal to the
    members of the small one, and may begin in their turn.
    """
    sizes = {"large": (6, "5"), "small": (8, "1")}
    pair.proxy.stand_still(PODS)
    for name, (size, cpu) in sizes.items():
        gangs.create_group(name, size)
        gangs.add(name, 1, cpu=cpu, scheduler_name=NAME)
    plain = (f"plain-{number}" for number in range(18))
    api.create(*(gangs.pod(each, cpu="1", scheduler_name=NAME) for each in plain))
    for number in range(8):
        gangs.create(f"one-{number}", 1, cpu="1", scheduler_name=NAME)
    for name, (size, cpu) in sizes.items():
        gangs.add(name, size - 1, start=1, cpu=cpu, scheduler_name=NAME)
    for name in sizes:
        planned = partial(is_planned, pair, gangs, name, names)
        api.wait_for(f"{name} is planned", planned, PATIENCE)
    api.wait_for("the watch has them all", lambda: pair.proxy.withheld >= PODS_IN_ALL, PATIENCE)
    return PODS_IN_ALL


def is_planned(pair: Proxied, gangs: Gangs, group: str, names: Sequence[str]) -> bool:
    """Have the first member of a gang filtered, as kube-scheduler would, which may end thereafter.

    Return whether the extender has found room for the gang.
    """
    pod = gangs.api.get("pods", f"{group}-0", gangs.namespace)
    sent = names[:1] if group == "large" else names
    body = {"Pod": pod, "Nodes": None, "NodeNames": list(sent)}
    answer = httpx.post(f"{pair.gang.url}/filter", json=body, trust_env=False, timeout=60)
    return bool(answer.json()["NodeNames"])


def await_running(api: Api, gangs: Gangs, count: int) -> None:
    """Wait until all pods run."""

    def run() -> bool:
        pods = api.list("pods", gangs.namespace)
        return [pod["status"]["phase"] for pod in pods].count("Running") == count

    api.wait_for(f"all {count} pods run", run, PATIENCE)


def await_events(api: Api, gangs: Gangs) -> None:
    """Wait until each pod has an Event `Scheduled`.

    A kube-scheduler that lags may ask for a pod after the extender has written one.
    """

    def each_has_one() -> bool:
        found = api.list("events.k8s.io/v1/events", gangs.namespace)
        scheduled = {each["regarding"]["uid"] for each in found if each["reason"] == "Scheduled"}
        return {pod["metadata"]["uid"] for pod in api.list("pods", gangs.namespace)} <= scheduled

    api.wait_for("each pod has its Event", each_has_one, PATIENCE)


def test_a_kube_scheduler_that_sees_no_binding_overcommits_no_node(
    pair: Proxied, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """It sees all pods before the first is bound, and nothing more until it has tried them all."""
    count = create_all(pair, api, gangs, make_nodes(nodes))
    tried, ahead = pair.gang.attempts(), pair.gang.metric(AHEAD)
    pair.proxy.stand_still(PODS)
    tries = f"{count} pods were tried"
    api.wait_for(tries, lambda: pair.gang.attempts() >= tried + count, PATIENCE)
    assert pair.gang.metric(AHEAD) > ahead

    pair.proxy.move()
    await_running(api, gangs, count)
    await_events(api, gangs)


@LONG
@pytest.mark.parametrize("seconds", [0.5, 2.0, 5.0])
def test_a_kube_scheduler_that_is_behind_overcommits_no_node(
    seconds: float, pair: Proxied, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    count = create_all(pair, api, gangs, make_nodes(nodes))
    pair.proxy.set_lag(PODS, seconds)
    pair.proxy.move()

    await_running(api, gangs, count)
    await_events(api, gangs)
