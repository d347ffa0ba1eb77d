"""The answer about a member waits for the pods of its gang that are being created."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from extender.permit.timing import MOMENT_SECONDS, REST, SPARED_SECONDS
from extender.state.cluster.store import Cluster
from tests.makers import never, nodes, observe, pod, pod_json
from tests.unit.permit.test_next_groups import Play, gang, judged
from tests.unit.server.scene import said

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient")]

NODES = ["n0", "n1"]
TOO_FEW = "pods that it needs exist"


async def play_of(cluster: Cluster) -> Play:
    return await judged(cluster, nodes(4, 4))


async def ask(
    play: Play, name: str, gone: Callable[[], Awaitable[None]] = never
) -> tuple[dict[str, Any], float]:
    """Return the answer of filter about a member, and the seconds that it took."""
    began, group = play.scene.loop.time(), name.rpartition("-")[0]
    body = {"Pod": pod_json(name, group=group), "Nodes": None, "NodeNames": NODES}
    await play.scene.verbs.arrived(msgspec.json.encode(body), gone)
    seconds = play.scene.loop.time() - began
    return msgspec.json.decode(play.scene.verbs.filter(msgspec.json.encode(body))), seconds


async def test_a_gang_begins_when_its_pods_have_come(cluster: Cluster) -> None:
    play = await play_of(cluster)
    group, members = gang("a", 4)
    observe(cluster, group, members[:1])
    first = asyncio.create_task(ask(play, "a-0"))
    for each in members[1:]:
        await asyncio.sleep(0.6 * MOMENT_SECONDS)
        assert not first.done()
        observe(cluster, each)
    answer, _ = await first
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert answer["NodeNames"]
    assert sorted(play.written("a")) == ["a-1", "a-2", "a-3"]
    assert await play.scene.bind(members[0], answer["NodeNames"][0]) == ""
    play.scene.idle()


async def test_an_answer_waits_a_moment_for_another_pod_and_not_at_once_again(
    cluster: Cluster,
) -> None:
    play = await play_of(cluster)
    observe(cluster, gang("a", 4)[0], gang("a", 4)[1][:3])
    answer, seconds = await ask(play, "a-0")
    assert TOO_FEW in said(answer)
    assert seconds == pytest.approx(MOMENT_SECONDS, abs=0.02)
    _, again = await ask(play, "a-1")
    assert again == 0
    await asyncio.sleep(REST * seconds)
    _, later = await ask(play, "a-2")

    assert later > 0


async def test_an_answer_does_not_wait_for_long(cluster: Cluster) -> None:
    play = await play_of(cluster)
    group, members = gang("a", 20)
    observe(cluster, group, members[:1])
    first = asyncio.create_task(ask(play, "a-0"))
    for each in members[1:19]:
        await asyncio.sleep(MOMENT_SECONDS / 2)
        observe(cluster, each)
    _, seconds = await first

    assert seconds == pytest.approx(SPARED_SECONDS, abs=0.02)


@pytest.mark.parametrize("group", [None, "b"])
async def test_an_answer_waits_for_none_while_kube_scheduler_has_another_pod_to_try(
    cluster: Cluster, group: str | None
) -> None:
    play = await play_of(cluster)
    observe(cluster, gang("a", 4)[0], gang("a", 4)[1][:1])
    first = asyncio.create_task(ask(play, "a-0"))
    await asyncio.sleep(MOMENT_SECONDS / 2)
    observe(cluster, pod("other", group=group))
    _, seconds = await first

    assert seconds == pytest.approx(MOMENT_SECONDS / 2, abs=0.02)


async def test_a_member_that_was_refused_before_is_answered_at_once(cluster: Cluster) -> None:
    play = await play_of(cluster)
    observe(cluster, gang("a", 4)[0], gang("a", 4)[1][:1])
    await ask(play, "a-0")
    await asyncio.sleep(60)
    _, seconds = await ask(play, "a-0")

    assert seconds == 0


async def test_nothing_is_decided_for_a_kube_scheduler_that_hangs_up(cluster: Cluster) -> None:
    play = await play_of(cluster)
    group, members = gang("a", 2)
    observe(cluster, group, members[:1])

    async def gone() -> None:
        await asyncio.sleep(0.01)

    with pytest.raises(ValueError, match="hung up"):
        await ask(play, "a-0", gone)
    observe(cluster, members[1])
    await asyncio.sleep(1)

    assert play.written("a") == []
    assert not play.ahead.is_open()
    play.scene.idle()
