"""What no code awaits is counted when it fails."""

import asyncio

from prometheus_client import CollectorRegistry

from extender.config.settings import Health
from extender.runtime.clock import SystemClock
from extender.runtime.faults import FAULTS
from extender.wiring.process import Loop


def count() -> int:
    return FAULTS.counts.get("event-loop", 0)


async def test_an_error_of_a_timer_is_counted_and_the_work_goes_on() -> None:
    before, loop = count(), asyncio.get_running_loop()
    failed, went_on = asyncio.Event(), asyncio.Event()

    def fails() -> None:
        failed.set()
        raise KeyError("bug")

    async def work() -> None:
        await failed.wait()
        went_on.set()

    async def serve() -> None:
        loop.call_soon(fails)
        await went_on.wait()

    await Loop(SystemClock(), CollectorRegistry(), Health()).beside(serve, [work()])

    assert count() == before + 1


async def test_a_connection_that_breaks_is_no_error_of_ours() -> None:
    before, loop = count(), asyncio.get_running_loop()

    async def serve() -> None:
        loop.call_exception_handler({"message": "lost", "exception": ConnectionResetError()})

    await Loop(SystemClock(), CollectorRegistry(), Health()).beside(serve, [])

    assert count() == before
