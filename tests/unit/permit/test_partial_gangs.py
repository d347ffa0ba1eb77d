"""Room for the missing members of gangs that have begun. Time is virtual."""

import asyncio
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import AnyNode, GangOptions, OneNode, Refuse
from extender.permit.plans import UnaskedPlans
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import key, nodes, observe, pod, pod_group, pods, until
from tests.unit.server.scene import Scene

pytestmark = pytest.mark.looptime

GANG = key("gang")
A, B, C = pods(3, 4)
PLAIN = pod("plain", 4)
BOUND = pod("gang-0", 4, group="gang", on="n0")
FACTS = [*nodes(4, 4, 4), pod_group()]


def begin(cluster: Cluster, *facts: Any) -> tuple[Scene, UnaskedPlans]:
    scene = Scene(cluster, FACTS, *facts, options=GangOptions())
    return scene, UnaskedPlans(cluster, scene.plans)


async def test_after_a_start_room_is_kept_before_the_first_answer(cluster: Cluster) -> None:
    scene, begun = begin(cluster, BOUND, B, C, PLAIN)

    for _ in begun.recover():
        pass

    assert scene.view.tally(GANG).planned == {B.uid, C.uid}
    assert not isinstance(scene.pod_filter.decide(PLAIN, None, ("n1", "n2")), AnyNode | OneNode)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param((A, B, C), id="it has not begun"),
        pytest.param((BOUND, B), id="it lacks pods"),
        pytest.param((BOUND, pod("gang-9", 4, group="gang", on="n1"), pod_group(min_member=2), C)),
        pytest.param((BOUND, B, pod("gang-2", 4, group="gang", scheduler="other"))),
        pytest.param((BOUND, B, C, pod("x", 4, on="n1")), id="it lacks room"),
    ],
)
async def test_for_others_none_is_kept(cluster: Cluster, facts: Any) -> None:
    scene, begun = begin(cluster, *facts)

    for _ in begun.recover():
        pass

    assert scene.view.planned == []


@pytest.mark.parametrize("first", [BOUND, ev.PodBinding(A, "n0")], ids=["bound", "being bound"])
async def test_a_member_that_comes_late_is_planned_at_once(cluster: Cluster, first: Any) -> None:
    scene, begun = begin(cluster, A, first, B)
    scene.plans.schedulers.add(A.scheduler)
    work = asyncio.create_task(begun.run())

    observe(cluster, C)
    await asyncio.sleep(1)
    assert len(scene.view.tally(GANG).planned) == 2

    work.cancel()


async def test_a_member_that_comes_before_the_first_call_is_planned_at_once(
    cluster: Cluster,
) -> None:
    scene, begun = begin(cluster, BOUND, B)
    for _ in begun.recover():
        pass
    assert scene.plans.schedulers == set()
    work = asyncio.create_task(begun.run())

    observe(cluster, C)
    await asyncio.sleep(1)
    work.cancel()

    assert scene.view.tally(GANG).planned == {B.uid, C.uid}


async def test_what_there_was_no_time_for_is_planned_after_the_first_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.permit.plans.LATE_SECONDS", 0.0)
    scene, begun = begin(cluster, BOUND, B, C)
    for _ in begun.recover():
        pass
    assert scene.view.planned == []
    work = asyncio.create_task(begun.run())

    await asyncio.sleep(1)
    work.cancel()

    assert scene.view.tally(GANG).planned == {B.uid, C.uid}


async def test_a_gang_that_has_just_failed_is_left_alone(cluster: Cluster) -> None:
    scene, begun = begin(cluster, BOUND, B, C)
    scene.waiting._refuse(GANG, Refuse(Reason.TOO_MANY_HELD, "too many", deny=True))

    for _ in begun.recover():
        pass

    assert scene.view.planned == []


async def test_a_group_that_causes_an_error_is_no_end_of_the_work(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, begun = begin(cluster, A, BOUND, B)
    scene.plans.schedulers.add(A.scheduler)
    work, before = asyncio.create_task(begun.run()), FAULTS.counts.get("unasked-plans", 0)

    def fails(*_: object, **__: object) -> float:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(scene.plans, "plan_ahead", fails)
        observe(cluster, C)
        await until(lambda: FAULTS.counts.get("unasked-plans", 0) > before)
    observe(cluster, pod("gang-3", 4, group="gang"))
    await asyncio.sleep(1)
    assert len(scene.view.tally(GANG).planned) == 2

    work.cancel()
