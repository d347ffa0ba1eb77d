"""Room that comes while a long plan that came to nothing rests is not taken for old."""

import asyncio

import pytest

from extender.gang.verdicts import GangOptions
from extender.permit import plans
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, nodes, observe, pod, pod_group, pods
from tests.unit.server.scene import Scene, said

pytestmark = pytest.mark.looptime

GANG = key("gang")
MEMBERS = pods(3, 3, group="gang")
RESENTFUL = GangOptions(denied=300.0, reject_percentage=100)
FULL = "gang ns/gang: 2 of the 3 pods that it still needs fit, short of cpu 3"


@pytest.mark.parametrize("tried", [1, 2, 3], ids="{} tried in the rest".format)
async def test_room_that_comes_during_a_rest_is_found_after_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tried: int
) -> None:
    """What kube-scheduler sees of the room is over by then: the end of the rest has to wake one."""
    scene = Scene(
        cluster,
        *(nodes(4, 4, 4), pod("plain", 2, on="n0"), pod_group("gang", 3), *MEMBERS),
        options=RESENTFUL,
        together=False,
    )
    monkeypatch.setattr(plans, "PLAN_SECONDS", 0.0)  # the machine is slow
    scene.filter(MEMBERS[0].name, ["n1", "n2"], group="gang")
    assert scene.plans.planner.is_busy(GANG)
    scene.plans.planner._spent[GANG] = 0.5
    scene.plans.planner.work()
    monkeypatch.undo()
    rest = scene.verdicts.rest_left(GANG)
    assert rest > 0
    for each in MEMBERS:
        assert said(scene.filter(each.name, ["n1", "n2"], group="gang")) == FULL

    observe(cluster, deleted("plain"))
    for each in MEMBERS[:tried]:
        assert said(scene.filter(each.name, ["n0", "n1", "n2"], group="gang")) == FULL
    assert any(group == GANG and abs(after - rest) < 0.001 for group, after in scene.woken)
    await asyncio.sleep(rest)

    assert scene.starts_when_woken(GANG, ["n0", "n1", "n2"])
