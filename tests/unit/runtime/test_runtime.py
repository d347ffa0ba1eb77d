"""Pauses, repetition and queues."""

import asyncio

import pytest
import uvloop

from extender.runtime.clock import SystemClock
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import Backoff, Retry
from tests.makers import ManualClock


def backoff(jitter: float = 1.0) -> Backoff:
    return Backoff(1.0, 8.0, jitter=lambda: jitter)


def test_pauses_double_up_to_the_cap_and_start_over() -> None:
    pauses = backoff()
    assert [pauses.next() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    pauses.reset()
    assert (pauses.next(), pauses.base) == (1.0, 1.0)


def test_pauses_are_spread() -> None:
    pauses = backoff(0.5)
    assert [pauses.next() for _ in range(5)] == [0.5, 1.0, 2.0, 4.0, 4.0]


def test_pauses_stay_finite_for_ever() -> None:
    pauses = backoff()
    assert {pauses.next() for _ in range(3000)} == {1.0, 2.0, 4.0, 8.0}


class Step:
    """Fails so often, then succeeds."""

    def __init__(self, failures: int, error: type[Exception] = OSError) -> None:
        self.calls = 0
        self.pauses: list[float] = []
        self._failures = failures
        self._error = error

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error(self.calls)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def run(self, seconds: float = 5) -> str:
        clock = ManualClock()

        async def sleep(pause: float) -> None:
            clock.now += pause
            await self.sleep(pause)

        until = clock.now + seconds
        return await Retry(backoff, sleep, clock).run(self, on=OSError, until=until)


@pytest.mark.parametrize(
    ("failures", "want_pauses"), [(0, []), (1, [1.0]), (2, [1.0, 2.0])], ids=["0", "1", "2"]
)
async def test_a_step_that_fails_is_tried_again(failures: int, want_pauses: list[float]) -> None:
    step = Step(failures)

    assert await step.run() == "done"
    assert step.pauses == want_pauses


async def test_the_last_error_is_raised_without_a_pause_after_it() -> None:
    step = Step(9)
    with pytest.raises(OSError, match="3"):
        await step.run()

    assert (step.calls, step.pauses) == (3, [1.0, 2.0])


async def test_another_error_is_raised_at_once() -> None:
    step = Step(9, ValueError)
    with pytest.raises(ValueError, match="1"):
        await step.run()

    assert (step.calls, step.pauses) == (1, [])


async def test_without_time_there_is_one_attempt() -> None:
    step = Step(1)
    with pytest.raises(OSError, match="1"):
        await step.run(seconds=0)

    assert (step.calls, step.pauses) == (1, [])


async def test_keys_come_in_order_and_once() -> None:
    queue = WorkQueue[str]()
    for name in ("b", "a", "b"):
        queue.add(name)

    assert [await queue.get(), await queue.get()] == ["b", "a"]
    queue.add("b")
    assert await queue.get() == "b"


@pytest.mark.looptime
async def test_a_key_comes_when_its_time_has_come() -> None:
    queue = WorkQueue[str]()
    queue.add_after("late", 5)
    queue.add_after("early", 1)
    loop = asyncio.get_running_loop()

    assert (await queue.get(), round(loop.time())) == ("early", 1)
    assert (await queue.get(), round(loop.time())) == ("late", 5)


@pytest.mark.looptime
async def test_a_key_that_is_asked_for_often_comes_once_at_the_earliest_time() -> None:
    queue = WorkQueue[str]()
    for seconds in (5, 2, 7):
        queue.add_after("often", seconds)
    queue.add_after("last", 9)
    loop = asyncio.get_running_loop()

    assert (await queue.get(), round(loop.time())) == ("often", 2)
    assert (await queue.get(), round(loop.time())) == ("last", 9)


def test_a_key_may_be_due_in_no_time_at_all() -> None:
    """On the loop of production, whose handles have no time where a pause rounds to nothing."""

    async def asked_for_twice() -> str:
        queue = WorkQueue[str]()
        queue.add_after("soon", 0.0001)
        queue.add_after("soon", 0.0001)
        queue.add_after("soon", -1.0)
        return await queue.get()

    assert uvloop.run(asked_for_twice()) == "soon"


@pytest.mark.looptime
async def test_every_waiter_is_woken() -> None:
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as tasks:
        waits = tasks.create_task(queue.get())
        await asyncio.sleep(1)
        assert not waits.done()
        queue.add("a")

    assert waits.result() == "a"


def test_the_machines_clocks_run() -> None:
    clock = SystemClock()
    first = clock.monotonic()

    assert clock.monotonic() >= first
    assert clock.wall() > 1_700_000_000
