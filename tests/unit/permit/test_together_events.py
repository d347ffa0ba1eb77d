"""Each member that is bound together with others has one Event `Scheduled`, whatever is lost."""

import asyncio
from dataclasses import replace

import pytest

from extender.permit.timing import AHEAD_SECONDS, LATE_SECONDS
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import nodes, observe, pod_group, until
from tests.unit.permit.test_together import FOUR, GANG, A, D, Play
from tests.unit.server.scene import Scene

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient")]


async def begun(cluster: Cluster) -> Play:
    """Return the play when all four Bindings are on their way."""
    play = Play(Scene(cluster, [*nodes(2, 2), *FOUR, pod_group(min_member=4)]))
    play.may.clear()
    play.start(A)
    await until(lambda: len(play.scene.binder.calls) == 4)
    return play


def shown(play: Play, *members: PodInfo) -> None:
    """Have the watch show members on their nodes."""
    there = dict(play.scene.binder.calls)
    observe(play.scene.cluster, *(replace(m, node=there[m.name], pattern=None) for m in members))


async def announced(play: Play) -> list[str]:
    """Return the pods that have Events of ours when all is over."""
    for _ in range(3):
        play.scene.ahead._announcer.look()
        await asyncio.sleep(LATE_SECONDS)
    play.scene.ahead._announcer.look()
    return sorted(event.about.name for event in play.scene.events)


async def test_members_that_were_bound_without_an_answer_have_their_events(
    cluster: Cluster,
) -> None:
    """The API server made the Bindings, and its answers were lost or came too late."""
    play = await begun(cluster)
    await asyncio.sleep(AHEAD_SECONDS + 0.1)
    assert len(play.scene.view.tally(GANG).planned) == 3
    shown(play, *FOUR)

    assert await announced(play) == ["gang-1", "gang-2", "gang-3"]


async def test_it_is_the_same_where_the_watch_was_quicker(cluster: Cluster) -> None:
    play = await begun(cluster)
    shown(play, *FOUR)
    await asyncio.sleep(AHEAD_SECONDS + 0.1)

    assert await announced(play) == ["gang-1", "gang-2", "gang-3"]


async def test_members_that_were_not_bound_have_none(cluster: Cluster) -> None:
    play = await begun(cluster)
    await asyncio.sleep(AHEAD_SECONDS + 0.1)

    assert await announced(play) == []


async def test_a_member_whose_request_was_answered_before_its_write_ended_has_one_from_there(
    cluster: Cluster,
) -> None:
    """The watch has shown it bound: kube-scheduler is answered at once, and writes the Event."""
    play = await begun(cluster)
    shown(play, D)
    assert await play.scene.bind(D, "n1") == ""
    play.may.set()

    assert await announced(play) == ["gang-1", "gang-2"]
