"""Filter's answer about a member is held back for a moment while its gang is being created."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace

import pytest

from extender.permit.ahead.pauses import ArrivalEnd
from extender.permit.timing import (
    ARRIVAL_LOOK_SECONDS,
    ARRIVAL_REST,
    ARRIVAL_SECONDS,
    GAP_SECONDS,
    STUCK_SECONDS,
)
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import key, never, node, pod, pod_group, pods
from tests.unit.server.scene import Scene

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient")]

GANG = key("gang")
SIZE = 20
MEMBERS = pods(SIZE)
FIRST = MEMBERS[0]
PLAIN = pod("plain")
OTHER = pod("other-0", group="other")
STEP = GAP_SECONDS / 2


class Play:
    """A gang whose pods come, and calls of filter that may be held back."""

    def __init__(self, cluster: Cluster, *, together: bool = True) -> None:
        groups = [pod_group(min_member=SIZE), pod_group("other", 2)]
        known = [node("n0", 99, slots=99), *groups]
        self.scene = Scene(cluster, known, together=together)
        self.scene.plans.schedulers.add("default-scheduler")
        self.cluster = cluster

    def come(self, *which: PodInfo) -> None:
        """Have pods be created, or change."""
        for each in which:
            self.cluster.apply(ev.ObjectApplied(each))

    async def come_slowly(self, *which: PodInfo, step: float = STEP) -> None:
        """Have pods be created one after the other."""
        for each in which:
            await asyncio.sleep(step)
            self.come(each)

    async def ask(
        self, subject: PodInfo, gone: Callable[[], Awaitable[None]] = never
    ) -> tuple[list[str], float]:
        """Return what filter answers, and after how many seconds."""
        return await self.scene.ask_filter_timed(subject, gone)

    def ended(self) -> dict[ArrivalEnd, float]:
        """Return how many pauses had which end."""
        page, name = self.scene.metrics.registry, "gang_extender_arrival_pause_duration_seconds"
        found = {
            end: page.get_sample_value(f"{name}_count", {"end": end.value}) for end in ArrivalEnd
        }
        return {end: count for end, count in found.items() if count}


@pytest.fixture
async def play(cluster: Cluster) -> Play:
    return Play(cluster)


async def test_a_member_waits_for_the_others_and_starts_with_them(play: Play) -> None:
    few = 4
    play.come(*MEMBERS[:-few])
    coming = asyncio.ensure_future(play.come_slowly(*MEMBERS[-few:]))
    nodes, seconds = await play.ask(FIRST)
    await coming

    assert nodes == ["n0"]
    assert seconds == pytest.approx(few * STEP)
    assert play.ended() == {ArrivalEnd.COMPLETE: 1}
    assert len(play.scene.view.tally(GANG).planned) == SIZE


async def test_a_gang_that_does_not_grow_is_not_waited_for(play: Play) -> None:
    play.come(*MEMBERS[:5])
    nodes, seconds = await play.ask(FIRST)

    assert nodes == []
    assert seconds == pytest.approx(GAP_SECONDS, abs=ARRIVAL_LOOK_SECONDS)
    assert play.ended() == {ArrivalEnd.SLOW: 1}


async def test_a_gang_that_has_not_grown_for_long_is_not_waited_for(play: Play) -> None:
    play.come(*MEMBERS[:5])
    await asyncio.sleep(GAP_SECONDS)

    assert await play.ask(FIRST) == ([], 0.0)
    assert play.ended() == {}


CHANGES = {
    "a pod that changes": pod("gang-0", group="gang", labels={"new": "label"}),
    "a pod behind a gate": pod("gang-9", group="gang", gates=("a.b/c",)),
    "a pod for another scheduler": pod("gang-9", group="gang", scheduler="absent"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_is_no_new_pod_of_this_scheduler_is_no_growth(
    play: Play, change: PodInfo
) -> None:
    play.come(*MEMBERS[:5])
    await asyncio.sleep(GAP_SECONDS)
    play.come(change)

    assert await play.ask(FIRST) == ([], 0.0)


async def test_a_gang_that_loses_a_pod_does_not_grow(play: Play) -> None:
    play.come(*MEMBERS)
    await asyncio.sleep(GAP_SECONDS)
    play.cluster.apply(ev.PodDeleted(MEMBERS[-1].uid))

    assert await play.ask(FIRST) == ([], 0.0)


async def test_a_pause_has_an_end_however_long_pods_come(play: Play) -> None:
    play.come(*MEMBERS[:5])
    coming = asyncio.ensure_future(play.come_slowly(*MEMBERS[5:-1]))
    assert STEP * len(MEMBERS[5:-1]) > ARRIVAL_SECONDS
    nodes, seconds = await play.ask(FIRST)

    assert nodes == []
    assert seconds == pytest.approx(ARRIVAL_SECONDS)
    assert play.ended() == {ArrivalEnd.TIME: 1}
    await coming


async def test_after_a_pause_in_vain_none_follows_for_a_while(play: Play) -> None:
    play.come(*MEMBERS[:5])
    _, seconds = await play.ask(FIRST)
    play.come(MEMBERS[5])
    assert await play.ask(FIRST) == ([], 0.0)

    await asyncio.sleep(ARRIVAL_REST * seconds)
    play.come(MEMBERS[6])
    assert (await play.ask(FIRST))[1] > 0


async def test_pauses_take_half_of_the_time_at_most(play: Play) -> None:
    """Gangs that are created one after the other, each at its leisure."""
    groups = [f"gang{number}" for number in range(20)]
    began, held = play.scene.loop.time(), 0.0
    for group in groups:
        play.cluster.apply(ev.ObjectApplied(pod_group(group, 3)))
        members = pods(3, 60, group=group)  # the node takes one
        play.come(members[0])
        coming = asyncio.ensure_future(play.come_slowly(*members[1:], step=GAP_SECONDS * 0.9))
        held += (await play.ask(members[0]))[1]
        await coming
        for member in members:
            await play.ask(member)
    seconds = play.scene.loop.time() - began

    assert set(play.ended()) == {ArrivalEnd.COMPLETE}
    assert 0.3 * seconds < held <= 0.51 * seconds


async def test_another_pod_ends_a_pause(play: Play) -> None:
    play.come(*MEMBERS[:5])
    coming = asyncio.ensure_future(play.come_slowly(PLAIN))
    nodes, seconds = await play.ask(FIRST)
    await coming

    assert nodes == []
    assert seconds == pytest.approx(STEP, abs=ARRIVAL_LOOK_SECONDS)
    assert play.ended() == {ArrivalEnd.OTHERS: 1}


@pytest.mark.parametrize("another", [PLAIN, OTHER, replace(PLAIN, scheduler="another profile")])
async def test_while_another_pod_is_to_be_judged_no_answer_is_held(
    play: Play, another: PodInfo
) -> None:
    play.come(another, *MEMBERS[:5])

    assert await play.ask(FIRST) == ([], 0.0)
    assert play.ended() == {}


@pytest.mark.parametrize(
    "never", [{"scheduler": "absent"}, {"gates": ("a.b/c",)}, {"terminating": True}]
)
async def test_members_that_are_not_to_be_judged_hide_no_other_pod(
    play: Play, never: dict[str, object]
) -> None:
    play.come(*MEMBERS[:5])
    held = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(0)
    play.come(*(replace(each, **never) for each in MEMBERS[5:10]), PLAIN)  # type: ignore[arg-type]

    assert (await held)[1] <= ARRIVAL_LOOK_SECONDS


@pytest.mark.parametrize("together", [True, False])
async def test_a_gang_that_has_room_and_is_to_be_tried_ends_a_pause(
    cluster: Cluster, *, together: bool
) -> None:
    """Its members count as judged, though kube-scheduler has not come to them."""
    play = Play(cluster, together=together)
    play.come(OTHER, pod("other-1", group="other"))
    assert await play.ask(OTHER) == (["n0"], 0.0)
    play.come(*MEMBERS[:5])

    assert await play.ask(FIRST) == ([], 0.0)


async def test_while_a_gang_is_planned_no_answer_is_held(play: Play) -> None:
    def working() -> Generator[None, None, bool]:
        yield
        return True

    play.scene.plans.planner.go_on(key("other"), working())
    play.come(*MEMBERS[:5])

    assert await play.ask(FIRST) == ([], 0.0)


async def test_pods_that_were_judged_do_not_end_a_pause(play: Play) -> None:
    play.come(OTHER)
    await asyncio.sleep(GAP_SECONDS)
    await play.ask(OTHER)
    play.come(pod("full", unschedulable="no room"), *MEMBERS[:-1])
    coming = asyncio.ensure_future(play.come_slowly(MEMBERS[-1]))
    nodes, seconds = await play.ask(FIRST)
    await coming

    assert nodes == ["n0"]
    assert seconds == pytest.approx(STEP)


async def test_a_pod_that_nothing_judges_is_in_the_way_for_so_long(play: Play) -> None:
    play.come(pod("theirs", scheduler="absent"), *MEMBERS[:5])
    assert await play.ask(FIRST) == ([], 0.0)
    await asyncio.sleep(STUCK_SECONDS - 1)
    play.come(MEMBERS[5])
    assert await play.ask(FIRST) == ([], 0.0)
    await asyncio.sleep(1)
    play.come(*MEMBERS[6:-1])
    coming = asyncio.ensure_future(play.come_slowly(MEMBERS[-1]))

    assert (await play.ask(MEMBERS[6]))[0] == ["n0"]
    await coming


async def test_members_that_were_refused_before_do_not_end_a_pause(play: Play) -> None:
    play.come(*MEMBERS[:5])
    await asyncio.sleep(GAP_SECONDS)
    for member in MEMBERS[:3]:
        await play.ask(member)
    play.come(*MEMBERS[5:-1])
    coming = asyncio.ensure_future(play.come_slowly(MEMBERS[-1]))

    assert (await play.ask(MEMBERS[3]))[0] == ["n0"]
    await coming


async def test_other_pods_are_answered_at_once(play: Play) -> None:
    play.come(*MEMBERS[:5])
    held = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(0)

    assert await play.ask(PLAIN) == (["n0"], 0.0)
    assert await play.ask(MEMBERS[1]) == ([], 0.0)
    assert not held.done()
    await held


async def test_a_caller_that_hangs_up_gets_no_decision(play: Play) -> None:
    async def gone() -> None:
        await asyncio.sleep(STEP)

    play.come(*MEMBERS[:5])
    with pytest.raises(ValueError, match="hung up"):
        await play.ask(FIRST, gone)
    assert play.ended() == {ArrivalEnd.HUNG_UP: 1}
    assert FIRST.uid not in play.scene.view.refused
    assert not play.scene.ahead._writer.is_there()


async def test_a_bind_request_that_hangs_up_ends_a_pause(play: Play) -> None:
    play.come(*MEMBERS[:5])
    held = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(0)
    assert play.scene.ahead._writer.is_there(), "the call that is held is one"
    play.scene.ahead.hung_up()

    with pytest.raises(ValueError, match="hung up"):
        await held


async def test_the_end_of_the_process_ends_a_pause(play: Play) -> None:
    play.come(*MEMBERS[:5])
    held = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(0)
    play.scene.ahead.stop()

    assert (await held)[1] == 0.0
    assert play.ended() == {ArrivalEnd.STOPPED: 1}
    play.come(MEMBERS[5])
    assert await play.ask(MEMBERS[5]) == ([], 0.0)


async def test_a_gang_whose_pod_group_goes_is_not_complete(play: Play) -> None:
    play.come(*MEMBERS[:5])
    held = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(0)
    play.cluster.apply(ev.PodGroupDeleted(pod_group().api_group, GANG))

    assert (await held)[1] == 0.0
    assert play.ended() == {ArrivalEnd.CHANGED: 1}


async def test_the_gang_that_waits_is_known_meanwhile(play: Play) -> None:
    """It does not begin in its turn: kube-scheduler has a member in its cycle."""
    play.come(*MEMBERS[:5])
    held = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(0)
    assert play.scene.ahead._arrivals.held_back == GANG

    await held
    assert play.scene.ahead._arrivals.held_back is None


async def test_a_member_of_a_group_without_a_pod_group_does_not_wait(play: Play) -> None:
    stray = pod("stray-0", group="nowhere")
    play.come(stray)

    assert (await play.ask(stray))[1] == 0.0


async def test_a_bind_request_that_hangs_up_ends_no_pause_where_nothing_is_bound_ahead(
    cluster: Cluster,
) -> None:
    play = Play(cluster, together=False)
    play.come(*MEMBERS[:5])
    asking = asyncio.ensure_future(play.ask(FIRST))
    await asyncio.sleep(STEP)
    play.scene.ahead.hung_up()

    assert (await asking)[0] == []
    assert play.ended() == {ArrivalEnd.SLOW: 1}
