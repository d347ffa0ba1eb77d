"""Filter's answer about a member is held back for a moment while Bindings are written ahead."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from extender.kube.errors import ForbiddenError
from extender.kube.pods import PodRef
from extender.permit.ahead import write
from extender.permit.ahead.pauses import PauseEnd
from extender.permit.timing import FEW_LEFT, PAUSE_REST_SECONDS, PAUSE_SECONDS, WORTH
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import key, never, node, pod, pod_group, pods, until
from tests.unit.permit.test_together import EQUAL, Play
from tests.unit.server.scene import Scene

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient")]

GANG = key("gang")
WRITERS = 16
SIZE = 4 * WRITERS
MEMBERS = pods(SIZE, pattern=EQUAL)
NEXT = MEMBERS[1]
"""Which kube-scheduler brings next; of those that are bound together it is the last one."""
OTHER = pod("other-0", group="other", pattern=EQUAL)
PLAIN = pod("plain")


class Pausing(Play):
    """A gang, and calls of filter that may be held back."""

    async def ask(
        self, subject: PodInfo, gone: Callable[[], Awaitable[None]] = never
    ) -> tuple[list[str], float]:
        """Return what filter answers, and after how many seconds."""
        return await self.scene.ask_filter_timed(subject, gone)

    def slow(self, seconds: float, *, after: int = 0, before: float = 0.0) -> None:
        """Have each Binding take so long, but for some of those ahead, which are sent first."""
        first = iter(range(after))

        async def wait(ref: PodRef) -> None:
            is_first = ref.name != MEMBERS[0].name and next(first, None) is not None
            await asyncio.sleep(before if is_first else seconds)

        self.scene.binder.before = wait

    async def go(self, seconds: float) -> None:
        """Have one member be asked for, and each Binding take so long."""
        self.slow(seconds)
        self.start(MEMBERS[0])
        await until(lambda: len(self.scene.binder.calls) == 1 + WRITERS)

    def pauses(self, end: PauseEnd) -> float:
        """Return how many pauses had that end."""
        page = self.scene.metrics.registry
        name = "gang_extender_pause_duration_seconds_count"
        return page.get_sample_value(name, {"end": end.value}) or 0.0


@pytest.fixture
async def play(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Pausing:
    monkeypatch.setattr(write, "PARALLEL", WRITERS)
    facts = [
        node("n0", 2 * SIZE, slots=2 * SIZE),
        *(MEMBERS, pod_group(min_member=SIZE)),
        *(OTHER, pod_group("other", 1), PLAIN),
    ]
    return Pausing(Scene(cluster, facts, together=True, patient=True))


async def test_a_member_waits_while_the_others_are_bound_and_keeps_its_room(
    play: Pausing,
) -> None:
    """It is not bound with them: kube-scheduler would see it on its node in its own cycle."""
    await play.go(0.01)
    held = asyncio.ensure_future(play.ask(NEXT))
    await asyncio.sleep(0)
    assert play.scene.view.planned_node(NEXT.uid) == "n0"
    nodes, seconds = await held

    assert nodes == ["n0"]
    assert seconds == pytest.approx(0.03)
    assert play.pauses(PauseEnd.WRITTEN) == 1
    assert await play.scene.bind(NEXT, "n0") == ""
    assert play.ahead == SIZE - 2
    assert len(play.scene.binder.calls) == SIZE


async def test_a_member_of_another_gang_waits_until_few_bindings_are_left(play: Pausing) -> None:
    """Its gang can begin while these are being written."""
    await play.go(0.01)
    assert (await play.ask(OTHER))[1] == pytest.approx(0.03)
    assert 0 < play.scene.ahead.going_out <= FEW_LEFT


async def test_a_member_whose_binding_is_being_written_is_answered_at_once(
    play: Pausing,
) -> None:
    """The answer is there before kube-scheduler sees the pod on its node."""
    await play.go(0.01)
    (uid, *_) = play.scene.ahead.writing

    assert await play.ask(play.scene.view.pods[uid]) == (["n0"], 0.0)
    assert play.scene.ahead.going_out > FEW_LEFT


async def test_a_member_waits_while_its_gang_begins(play: Pausing) -> None:
    """No Binding is on its way yet."""
    play.slow(0.01)
    play.start(MEMBERS[0])
    await until(lambda: play.scene.view.tally(GANG).binding)
    assert not play.scene.ahead.writing

    assert (await play.ask(NEXT))[1] == pytest.approx(0.03)
    assert not play.scene.view.tally(GANG).binding & {NEXT.uid}
    await asyncio.sleep(1)
    assert play.ahead == SIZE - 2


async def test_other_pods_do_not_wait(play: Pausing) -> None:
    await play.go(0.01)
    held = asyncio.ensure_future(play.ask(NEXT))
    await asyncio.sleep(0)
    assert await play.ask(PLAIN) == (["n0"], 0.0)
    assert not held.done()
    await held
    assert play.pauses(PauseEnd.WRITTEN) == 1


async def test_nothing_waits_when_all_is_written(play: Pausing) -> None:
    await play.go(0.01)
    await asyncio.sleep(1)

    assert await play.ask(OTHER) == (["n0"], 0.0)
    assert play.pauses(PauseEnd.WRITTEN) == 0


async def test_one_answer_is_held_back_at_a_time(play: Pausing) -> None:
    await play.go(0.01)
    held = asyncio.ensure_future(play.ask(NEXT))
    await asyncio.sleep(0)

    assert await play.ask(OTHER) == (["n0"], 0.0)
    assert not held.done()
    assert (await held)[1] > 0


async def test_a_pause_ends_with_time_and_the_member_is_taken_back_then(play: Pausing) -> None:
    await play.go(60)
    nodes, seconds = await play.ask(NEXT)

    assert (nodes, seconds) == (["n0"], PAUSE_SECONDS)
    assert play.scene.view.planned_node(NEXT.uid) == "n0"
    assert play.pauses(PauseEnd.TIME) == 1


async def test_pauses_follow_each_other_while_bindings_go_out(play: Pausing) -> None:
    await play.go(PAUSE_SECONDS * 0.9)

    assert [(await play.ask(NEXT))[1] for _ in range(2)] == [PAUSE_SECONDS] * 2


async def test_where_the_api_server_is_slow_pauses_are_few(play: Pausing) -> None:
    await play.go(PAUSE_REST_SECONDS * 0.9)
    began, seconds = play.scene.loop.time(), list[float]()
    for member in MEMBERS[1:]:
        seconds.append((await play.ask(member))[1])
        if play.scene.loop.time() - began > 2 * (PAUSE_SECONDS + PAUSE_REST_SECONDS):
            break
        await asyncio.sleep(0.05)

    assert sum(seconds) <= 3 * PAUSE_SECONDS + 1e-6
    assert play.pauses(PauseEnd.TIME) == len([each for each in seconds if each]) >= 2


async def test_a_pause_with_fewer_bindings_than_make_it_worth_it_is_the_last_one(
    play: Pausing,
) -> None:
    play.slow(60, after=WORTH - 1, before=0.05)
    play.start(MEMBERS[0])
    await until(lambda: len(play.scene.binder.calls) == 1 + WRITERS)
    assert (await play.ask(NEXT))[1] == PAUSE_SECONDS
    assert (await play.ask(MEMBERS[2]))[1] == 0.0


async def test_bindings_that_fail_do_not_make_a_pause_worth_it(play: Pausing) -> None:
    for member in MEMBERS:
        play.scene.binder.script[member.name] = [ForbiddenError("a policy", status=403)]
    await play.go(PAUSE_SECONDS * 0.9)

    assert (await play.ask(NEXT))[1] == PAUSE_SECONDS
    assert (await play.ask(MEMBERS[2]))[1] == 0.0


async def test_a_caller_that_hangs_up_in_a_pause_ends_what_is_written_ahead(play: Pausing) -> None:
    """kube-scheduler ends so, and nothing is decided for it any more."""
    await play.go(2)

    async def gone() -> None:
        await asyncio.sleep(0.05)

    before = play.scene.loop.time()
    with pytest.raises(ValueError, match="hung up"):
        await play.ask(NEXT, gone)
    assert play.scene.loop.time() - before == pytest.approx(0.05)
    await asyncio.sleep(0.01)
    calls = len(play.scene.binder.calls)
    assert not play.scene.view.tally(GANG).binding - {MEMBERS[0].uid}
    await asyncio.sleep(10)
    assert len(play.scene.binder.calls) == calls
    assert play.pauses(PauseEnd.HUNG_UP) == 1


async def test_a_bind_request_that_hangs_up_ends_a_pause(play: Pausing) -> None:
    """The call that was held is of the same kube-scheduler: it does not show that one is there."""
    await play.go(2)

    async def gone() -> None:
        await asyncio.sleep(0.05)

    later = asyncio.ensure_future(play.scene.bind(MEMBERS[-1], "n0", gone))
    with pytest.raises(ValueError, match="hung up"):
        await play.ask(NEXT)
    assert play.pauses(PauseEnd.HUNG_UP) == 1
    await later
    calls = len(play.scene.binder.calls)
    await asyncio.sleep(10)
    assert len(play.scene.binder.calls) == calls


async def test_the_end_of_the_process_ends_a_pause(play: Pausing) -> None:
    await play.go(2)
    held = asyncio.ensure_future(play.ask(NEXT))
    await asyncio.sleep(0.05)
    play.scene.waiting.refuse_all()
    play.scene.ahead.stop()

    assert (await held)[1] == pytest.approx(0.05)
    assert play.pauses(PauseEnd.STOPPED) == 1
    assert (await play.ask(OTHER))[1] == 0.0


async def test_a_held_call_shows_that_kube_scheduler_is_there(play: Pausing) -> None:
    """The first call after a hang-up does, before it is answered."""
    await play.go(0.09)
    play.scene.ahead.hung_up()
    await play.ask(NEXT)

    assert play.ahead == WRITERS


async def test_without_the_setting_nothing_is_held(cluster: Cluster) -> None:
    scene = Scene(cluster, [node("n0", 9), MEMBERS, pod_group(min_member=2)])

    assert await scene.filtering.pause(b"is not read", never) == 0.0
    assert await scene.ask_filter(NEXT) == ["n0"]
