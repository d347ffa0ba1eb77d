"""Looks at keys: together what comes together, again what failed. Time is virtual."""

import asyncio

import pytest

from extender.runtime.clock import AT_ONCE_SECONDS
from extender.runtime.controller import Controller
from extender.runtime.faults import FAULTS, Backoff
from tests.makers import ManualClock

pytestmark = pytest.mark.looptime


class Trouble(Exception):  # noqa: N818
    pass


class Bench:
    """Keeps when each key was looked at; a look takes a second."""

    def __init__(self) -> None:
        self.looks: list[tuple[str, float]] = []
        self.again: dict[str, float] = {}
        self.errors: list[Exception] = []
        self.failures: list[tuple[object, str, float]] = []
        self.finished = 0
        self.controller = Controller[str](
            self._reconcile,
            new_backoff=lambda: Backoff(1, 60, jitter=lambda: 1.0),
            retried=Trouble,
            observer=self,
            settle=0.1,
            parallel=2,
        )

    async def _reconcile(self, key: str) -> float | None:
        self.looks.append((key, round(asyncio.get_running_loop().time(), 1)))
        await asyncio.sleep(1)
        if self.errors:
            raise self.errors.pop(0)
        return self.again.pop(key, None)

    def done(self, seconds: float) -> None:
        assert round(seconds, 1) == 1
        self.finished += 1

    def failed(self, key: object, error: Exception, retry_in: float) -> None:
        self.failures.append((key, str(error), retry_in))

    async def run(self, seconds: float) -> list[tuple[str, float]]:
        running = asyncio.ensure_future(self.controller.run())
        await asyncio.sleep(seconds)
        running.cancel()
        return self.looks


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_notices_that_come_together_are_one_look(bench: Bench) -> None:
    for _ in range(5):
        bench.controller.notice("a")

    assert await bench.run(5) == [("a", 0.1)]
    assert bench.finished == 1


async def test_a_notice_during_a_look_is_another_look_after_it(bench: Bench) -> None:
    bench.controller.notice("a")
    asyncio.get_running_loop().call_later(0.5, bench.controller.notice, "a")

    assert await bench.run(5) == [("a", 0.1), ("a", 1.1)]


async def test_several_keys_at_once_but_no_more_than_so_many(bench: Bench) -> None:
    for key in "abc":
        bench.controller.notice(key)

    looks = await bench.run(5)
    assert sorted(key for key, _ in looks) == ["a", "b", "c"]
    assert [at for _, at in looks] == [0.1, 0.1, 1.1]


async def test_a_look_may_ask_for_another_one_later(bench: Bench) -> None:
    bench.again["a"] = 7
    bench.controller.notice("a")

    assert await bench.run(20) == [("a", 0.1), ("a", 8.1)]


async def test_what_is_asked_for_later_comes_earlier_when_something_happens(bench: Bench) -> None:
    bench.again["a"] = 7
    bench.controller.notice("a")
    asyncio.get_running_loop().call_later(3, bench.controller.notice, "a")

    assert await bench.run(20) == [("a", 0.1), ("a", 3.1)]


@pytest.mark.parametrize(("pauses", "wanted"), [([5], 5), ([5, None], 0.1), ([None, 5], 0.1)])
async def test_of_two_notices_the_earlier_counts(
    bench: Bench, pauses: list[float | None], wanted: float
) -> None:
    for within in pauses:
        bench.controller.notice("a", within=within)

    assert await bench.run(10) == [("a", wanted)]


async def test_trouble_is_waited_out_with_growing_pauses_until_it_ends(bench: Bench) -> None:
    bench.errors = [Trouble("1"), Trouble("2")]
    bench.controller.notice("a")
    assert await bench.run(20) == [("a", 0.1), ("a", 2.1), ("a", 5.1)]
    assert bench.failures == [("a", "1", 1), ("a", "2", 2)]

    bench.errors = [Trouble("3")]
    bench.controller.notice("a")
    await bench.run(20)
    assert bench.failures[-1] == ("a", "3", 1)


async def test_what_is_noticed_before_it_runs_is_looked_at_then(bench: Bench) -> None:
    bench.controller.notice("a")
    await asyncio.sleep(10)

    assert await bench.run(5) == [("a", 10)]


async def test_a_bug_is_counted_and_costs_its_key_alone(bench: Bench) -> None:
    before = sum(FAULTS.counts.values())
    bench.errors = [KeyError("bug"), KeyError("bug")]
    bench.controller.notice("a")
    bench.controller.notice("b")

    looks = await bench.run(5)
    assert sorted(looks) == [("a", 0.1), ("a", 2.1), ("b", 0.1), ("b", 2.1)]
    assert sorted(bench.failures) == [("a", "'bug'", 1.0), ("b", "'bug'", 1.0)]
    assert sum(FAULTS.counts.values()) == before + 2


class Silent:
    def done(self, seconds: float) -> None:
        pass

    def failed(self, key: object, error: Exception, retry_in: float) -> None:
        raise error


async def test_others_get_their_turn_between_looks_that_await_nothing() -> None:
    looks: list[int] = []

    async def at_once(key: int) -> None:
        looks.append(key)

    controller = Controller[int](
        at_once,
        new_backoff=lambda: Backoff(1, 60, jitter=lambda: 1.0),
        retried=Trouble,
        observer=Silent(),
        settle=0,
    )
    for key in range(1000):
        controller.notice(key)
    running = asyncio.ensure_future(controller.run())
    turns = 0
    while len(looks) < 1000:
        turns += 1
        await asyncio.sleep(0)
    running.cancel()

    assert turns > 100


async def test_only_so_many_looks_as_a_step_may_take_run_between_two_turns_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, looks = ManualClock(), set[int]()
    monkeypatch.setattr("extender.runtime.controller.SystemClock", lambda: clock)

    async def thinks(key: int) -> None:
        looks.add(key)
        clock.now += 0.4 * AT_ONCE_SECONDS
        await asyncio.sleep(1)  # it writes

    controller = Controller[int](
        thinks,
        new_backoff=lambda: Backoff(1, 60, jitter=lambda: 1.0),
        retried=Trouble,
        observer=Silent(),
        settle=0,
        parallel=32,
    )
    for key in range(32):
        controller.notice(key)
    running = asyncio.ensure_future(controller.run())
    between = list[int]()
    while len(looks) < 32:
        before = len(looks)
        await asyncio.sleep(0)
        between.append(len(looks) - before)
    running.cancel()

    assert max(between) == 3
