"""A long cycle lets everything else of the process have its turn."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.queueing.cycle import Admit, Cycle, Outcome
from extender.queueing.pending import PendingQueues
from extender.runtime.clock import SLICE_SECONDS
from extender.state.queue import events as ev
from tests.makers import ManualClock
from tests.queue_makers import admission, cluster_queue, condition, local_queue, workload
from tests.unit.controllers.test_admission import Scene

pytestmark = pytest.mark.looptime


class WorkingClock(ManualClock):
    """Each look at the clock takes a quarter of a slice: what is between two looks is work."""

    @override
    def monotonic(self) -> float:
        self.now += SLICE_SECONDS / 4
        return self.now


class Watched:
    """Counts pieces of cycles or other work, and calls a function in each turn meanwhile."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        each_turn: Callable[[], None],
        owner: type = Cycle,
        work: str = "pieces",
    ) -> None:
        self.turns = 0
        self.pieces: list[int] = []
        """How many pieces were done in each turn."""
        self._each_turn, self._on = each_turn, False
        original = getattr(owner, work)

        def pieces(*args: Any) -> Iterator[Any]:
            self._on = True
            self._tick()
            for piece in original(*args):
                self.pieces[-1] += 1
                yield piece
            self._on = False

        monkeypatch.setattr(owner, work, pieces)

    def _tick(self) -> None:
        if self._on:
            self.turns += 1
            self.pieces.append(0)
            self._each_turn()
            asyncio.get_running_loop().call_soon(self._tick)


def long_scene() -> Scene:
    """Return a scene with more heads than a slice has time for, and eight CPU for all of them."""
    scene = Scene(clock=WorkingClock())
    for number in range(8):
        name = f"q{number}"
        scene.put(cluster_queue(name, 1, "all"), local_queue(name))
        scene.put(workload(f"w{number}", 1, name), workload(f"v{number}", 2, name))
    return scene


async def test_no_slice_has_more_than_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, scene = Watched(monkeypatch, lambda: None), long_scene()

    async with scene.running():
        await asyncio.sleep(1)

    assert sum(watched.pieces) > 24
    assert max(watched.pieces) <= 4


async def test_quota_that_is_taken_between_two_slices_is_not_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = long_scene()
    other = workload("other", 8, "q0")
    conditions = (condition("QuotaReserved"), condition("Admitted"))
    other = replace(other, admission=admission(other, "q0"), conditions=conditions)

    def take_all() -> None:
        if watched.turns == 2:
            scene.queues.apply(ev.Applied(other))

    watched = Watched(monkeypatch, take_all)
    async with scene.running():
        await asyncio.sleep(1)

    assert watched.turns > 2
    assert scene.admitted() == set()


async def test_what_was_admitted_is_applied_before_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = long_scene()
    decided: list[str] = []
    unknown: list[str] = []

    def look() -> None:
        unknown.extend(key for key in decided if scene.view.admission(key) is None)

    watched = Watched(monkeypatch, look)
    inner = Cycle.pieces

    def pieces(cycle: Cycle) -> Iterator[Outcome | None]:
        for piece in inner(cycle):
            if isinstance(piece, Admit):
                decided.append(piece.workload)
            yield piece

    monkeypatch.setattr(Cycle, "pieces", pieces)
    async with scene.running():
        await asyncio.sleep(1)

    assert decided
    assert watched.turns > 2
    assert unknown == []


@pytest.mark.parametrize(
    ("owner", "work"),
    [
        (PendingQueues, "keys"),
        (PendingQueues, "requeue_all"),
        (PendingQueues, "followers"),
    ],
)
async def test_work_over_all_queues_has_rests(
    monkeypatch: pytest.MonkeyPatch, owner: type, work: str
) -> None:
    scene = Scene(clock=WorkingClock())
    for number in range(100):
        name = f"q{number}"
        scene.put(cluster_queue(name, 1, "all"), local_queue(name))
        scene.put(workload(f"w{number}", 200, name), workload(f"v{number}", 200, name))
    watched = Watched(monkeypatch, lambda: None, owner, work)

    async with scene.running():
        await asyncio.sleep(1)
        scene.put(cluster_queue("q0", 2, "all"))
        await asyncio.sleep(5)

    assert sum(watched.pieces) > 6
    assert max(watched.pieces) <= 2
