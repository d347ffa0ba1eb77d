"""The room that victims leave, and pods of a scheduler that asks no extender."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.alone import pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.groups import Groups
from tests.cluster.test_preemption import VICTIMS
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler

OURS, STOCK = "taken-gangs", "taken-stock"
SECONDS = 120.0
COUNT = 3


ours = pair_of(OURS)


@pytest.fixture(scope="module")
def stock(control_plane: ControlPlane) -> Iterator[Component]:
    """A kube-scheduler as it comes, for pods that name it."""
    with control_plane.scheduler(
        {"profiles": [{"schedulerName": STOCK}]}, name="taken-by"
    ) as scheduler:
        yield scheduler


@pytest.mark.overcommits("two schedulers bind to the same nodes, and the kubelet refuses")
@pytest.mark.usefixtures("ours", "stock")
def test_a_gang_whose_room_another_scheduler_takes_does_not_go_on_evicting(
    reconciler: Reconciler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    groups = Groups(api, gangs.namespace)
    nodes(COUNT)
    serving: dict[str, Any] = objects.deployment(
        "low", COUNT, namespace=gangs.namespace, cpu="3", pod_spec={"schedulerName": STOCK}
    )
    api.create(serving)

    def running() -> bool:
        pods = api.list("pods", gangs.namespace)
        return [pod["status"]["phase"] for pod in pods] == ["Running"] * COUNT

    api.wait_for("the Deployment runs", running, SECONDS)
    before = reconciler.metric(VICTIMS.format("evicted"))
    gangs.create("high", COUNT, cpu="3", priority_class=high, scheduler_name=OURS)
    said = ("", "", "")

    def is_over() -> bool:
        nonlocal said
        said = groups.reported("high", "Preempting")
        return said[0] == "False"

    api.wait_for("the preemption is over", is_over, SECONDS)
    assert reconciler.metric(VICTIMS.format("evicted")) == before + COUNT
    if said[1] != "Started":
        assert said[1] == "RoomTaken", said
        assert STOCK in said[2]
