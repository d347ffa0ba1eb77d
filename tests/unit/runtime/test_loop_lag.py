"""How late the loop is, by a clock that the test moves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from extender.runtime.clock import EVERY_SECONDS, WINDOW_SECONDS, LoopLag


@dataclass
class Scene:
    """A lag whose clock moves as the test says."""

    now: float = 1000.0
    observed: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lag = LoopLag(self, self.observed.append)

    def monotonic(self) -> float:
        """Return seconds."""
        return self.now

    def wall(self) -> float:
        """Return the same."""
        return self.now

    def note(self, *lags: float) -> None:
        for lag in lags:
            self.now += EVERY_SECONDS + lag
            self.lag.note(self.now, lag)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("lags", "longest"), [((), 0.0), ((0.1, 3.0, 0.2), 3.0), ((3.0, 0.1), 3.0), ((0.1, 3.0), 3.0)]
)
def test_the_longest_lag_of_the_last_minute_is_kept(
    lags: Sequence[float], longest: float, scene: Scene
) -> None:
    scene.note(*lags)
    assert scene.lag.longest == longest
    scene.now += WINDOW_SECONDS + 1
    assert scene.lag.longest == 0.0


def test_a_longer_one_that_is_over_gives_way_to_a_shorter_one(scene: Scene) -> None:
    scene.note(5.0)
    scene.now += WINDOW_SECONDS - 2
    scene.note(0.5)
    assert scene.lag.longest == 5.0
    scene.now += 3
    assert scene.lag.longest == 0.5


@pytest.mark.parametrize(
    ("lags", "behind"),
    [
        ((), 0.0),
        ((50.0,), 10.0),
        ((4.0, 4.0), 8.0),
        ((0.9,) * 60, 0.0),
        ((12.0, 12.0, 12.0), 30.0),
        ((2.0,) * 25, 50.0),
    ],
    ids=["none", "one pause", "two", "load", "three long ones", "many"],
)
def test_what_counts_against_the_process(
    lags: Sequence[float], behind: float, scene: Scene
) -> None:
    scene.note(*lags)
    assert scene.lag.behind(30.0) == pytest.approx(behind)


def test_a_process_that_keeps_up_again_is_alive_after_a_minute(scene: Scene) -> None:
    scene.note(*[12.0] * 3)
    scene.now += WINDOW_SECONDS + 1
    assert scene.lag.behind(30.0) == 0.0


async def test_a_step_that_holds_the_loop_is_observed(scene: Scene) -> None:
    observed: asyncio.Queue[float] = asyncio.Queue()
    measuring = asyncio.create_task(LoopLag(scene, observed.put_nowait).run())
    assert await observed.get() == 0.0
    scene.now += 7.0 + EVERY_SECONDS  # it was asleep all the while
    assert await observed.get() == pytest.approx(7.0)
    measuring.cancel()
