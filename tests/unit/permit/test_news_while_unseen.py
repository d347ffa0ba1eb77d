"""Room that is news here, where kube-scheduler too may be behind: a member has to be woken."""

import asyncio
from collections.abc import Callable

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import GangOptions
from extender.permit.timing import LAG_SECONDS, MOMENT_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, node, nodes, observe, pod, pod_group, pods
from tests.unit.server.scene import Scene, said

pytestmark = pytest.mark.looptime

GANG = key("gang")
MEMBERS = pods(3, 3, group="gang")
FULL = "gang ns/gang: 2 of the 3 pods that it still needs fit, short of cpu 3"
RESENTFUL = GangOptions(denied=300.0, reject_percentage=100)
AHEAD = pod("ahead", 1)


def started_anew(scene: Scene) -> None:
    scene.lag.restarted()


def bound_there(scene: Scene) -> None:
    observe(scene.cluster, AHEAD, ev.Planned({AHEAD.uid: "n0"}), ev.BoundAhead({AHEAD.uid: "n0"}))


@pytest.mark.parametrize("unseen", [started_anew, bound_there])
@pytest.mark.parametrize("seen_before", [0, 1])
async def test_room_that_kube_scheduler_saw_first_is_found_when_it_is_known_here(
    cluster: Cluster, unseen: Callable[[Scene], None], seen_before: int
) -> None:
    """`seen_before` members had been refused before there was any room."""
    old = pod("old", 2, on="n0")
    facts = (nodes(4, 4, 4), old, pod_group("gang", 3), *MEMBERS)
    scene = Scene(cluster, *facts, options=RESENTFUL, together=False)
    unseen(scene)
    for each in MEMBERS[:seen_before]:
        assert said(scene.filter(each.name, ["n1", "n2"], group="gang")) == FULL
    scene.woken.clear()
    for each in MEMBERS:  # kube-scheduler has seen the end of the old pod
        scene.filter(each.name, ["n0", "n1", "n2"], group="gang")
    soonest = min((seconds for group, seconds in scene.woken if group == GANG), default=None)
    assert soonest is not None, "no member is to be woken"
    assert MOMENT_SECONDS / 10 <= soonest <= LAG_SECONDS

    observe(cluster, deleted(old.uid), deleted(AHEAD.uid), node("n0", 4))
    await asyncio.sleep(soonest)
    assert scene.starts_when_woken(GANG, ["n0", "n1", "n2"])


async def test_such_a_failure_is_remembered_and_its_group_woken_each_time_later(
    cluster: Cluster,
) -> None:
    facts = (nodes(4, 4, 4), pod("old", 2, on="n0"), pod_group("gang", 3), *MEMBERS)
    scene = Scene(cluster, *facts, options=RESENTFUL, together=False)
    scene.lag.restarted()
    pauses = list[float]()
    for _ in range(4):
        scene.woken.clear()
        for each in MEMBERS:
            scene.filter(each.name, ["n0", "n1", "n2"], group="gang")
        [pause] = [seconds for group, seconds in scene.woken if group == GANG]
        pauses.append(pause)
        await asyncio.sleep(pause + 0.001)

    assert pauses == pytest.approx([MOMENT_SECONDS * 2**tries for tries in range(4)])
    failure = scene.verdicts.last_failure(GANG)
    assert failure is not None
    assert failure.reason is Reason.NOT_ENOUGH_RESOURCES


async def test_a_gang_that_never_fits_needs_no_news(cluster: Cluster) -> None:
    facts = (nodes(4, 4, 4), pod("old", 2, on="n0"), pod_group("gang", 5), *pods(5, 3))
    scene = Scene(cluster, *facts, together=False)
    scene.lag.restarted()
    scene.filter("gang-0", ["n0", "n1", "n2"], group="gang")

    assert cluster.view().refused["gang-0"].reason is Reason.NEVER_FITS
