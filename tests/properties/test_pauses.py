"""However slow the API server is and whatever comes: pauses are short, few, and for members."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.kube.pods import PodRef
from extender.permit.timing import PAUSE_REST_SECONDS, PAUSE_SECONDS, WORTH
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.effort import examples
from tests.makers import never, node, pod, pod_group, pods
from tests.recount import check_tables
from tests.unit.permit.test_together import EQUAL
from tests.unit.server.scene import Scene

SECONDS: Final = (0.0, 0.002, 0.02, 0.09, 0.3, 1.5, 100.0)
"""How long a Binding may take."""
ROUNDING: Final = 1e-6


class Play:
    """Gangs and plain pods that a serial kube-scheduler brings, in an order that is drawn."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.slow = draw.choice(SECONDS)
        groups = {f"gang{n}": draw.randint(1, 60) for n in range(draw.randint(1, 4))}
        self.queue = [
            each for name, size in groups.items() for each in pods(size, group=name, pattern=EQUAL)
        ]
        self.queue += [pod(f"plain-{n}") for n in range(draw.randint(0, 20))]
        if draw.random() < 0.5:
            draw.shuffle(self.queue)
        self.facts = [
            node("n0", 999, slots=999),
            *(pod_group(name, size) for name, size in groups.items()),
            *self.queue,
        ]
        self.pauses: list[float] = []
        """Their seconds."""
        self.made = 0

    async def run(self) -> None:
        """Bring all pods, and have everything come to its end."""
        cluster = Cluster()
        scene = Scene(cluster, *self.facts, together=True, patient=True)
        scene.binder.before = self._written
        requests, began = list[asyncio.Task[str]](), scene.loop.time()
        for each in self.queue:
            if scene.view.bound_node(each) is not None and self.draw.random() < 0.7:
                continue  # kube-scheduler has seen it
            if await self._filter(scene, each):
                requests.append(asyncio.ensure_future(scene.bind(each, "n0", self._caller())))
            await asyncio.sleep(self.draw.choice((0.0, 0.001, 0.01)))
            if self.draw.random() < 0.05:
                self.slow = self.draw.choice(SECONDS)
        self._check(scene.loop.time() - began)
        await self._end(scene, requests)
        check_tables(cluster)

    async def _filter(self, scene: Scene, each: PodInfo) -> list[str]:
        began, nodes = scene.loop.time(), list[str]()
        with suppress(ValueError):  # it has hung up
            nodes = await scene.ask_filter(each, self._caller())
        seconds = scene.loop.time() - began
        assert seconds <= (PAUSE_SECONDS + ROUNDING if each.group else 0.0)
        self.pauses += [seconds] if seconds else []
        return nodes

    def _caller(self) -> Callable[[], Awaitable[None]]:
        """Return a caller, which hangs up now and then."""
        after = self.draw.choice((0.0, 0.03, 0.2))

        async def gone() -> None:
            await asyncio.sleep(after)

        return gone if self.draw.random() < 0.02 else never

    async def _written(self, _: PodRef) -> None:
        await asyncio.sleep(self.slow)
        self.made += 1

    def _check(self, seconds: float) -> None:
        """Assert that what was held for less than it is worth is a small part of the time."""
        whole = sum(each > PAUSE_SECONDS - ROUNDING for each in self.pauses)
        rests = seconds / (PAUSE_SECONDS + PAUSE_REST_SECONDS)
        assert whole <= self.made / WORTH + rests + 1

    async def _end(self, scene: Scene, requests: list["asyncio.Task[str]"]) -> None:
        """Stop the process, and assert that nothing waits for anything in the end."""
        scene.waiting.refuse_all()
        scene.ahead.stop()
        assert not scene.ahead.may_pause
        await asyncio.sleep(300)
        assert all(each.done() for each in requests)
        assert scene.binds.unfinished == 0
        scene.works[0].cancel()


def played(seed: int) -> Play:
    """Return a play that has come to its end."""
    play = Play(seed)
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
        runner.run(play.run())
    return play


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_pauses_are_short_and_few_and_for_members_alone(seed: int) -> None:
    played(seed)


def test_many_answers_are_held_in_these_plays() -> None:
    held = [play.pauses for play in map(played, range(20))]

    assert sum(map(bool, held)) >= 10
    assert any(each > PAUSE_SECONDS - ROUNDING for pauses in held for each in pauses)
