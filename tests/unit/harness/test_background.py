"""Work beside synchronous code: how it begins, answers, fails and ends."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.harness.background import Background

LONG = 30.0


def test_work_answers_between_two_steps_until_it_is_stopped() -> None:
    threads: list[threading.Thread] = []

    async def work() -> None:
        threads.append(threading.current_thread())
        background.began()
        await asyncio.Event().wait()

    background = Background("the work", work)
    background.start(LONG)
    assert background.answer(threading.current_thread) is threads[0]
    assert background.cpu_seconds > 0
    background.check()

    background.stop()
    assert not threads[0].is_alive()
    assert background.cpu_seconds == 0


def test_work_that_fails_before_it_has_begun_fails_the_start() -> None:
    async def work() -> None:
        raise ValueError("no")

    background = Background("the work", work)
    with pytest.raises(RuntimeError, match="the work did not begin") as found:
        background.start(LONG)
    assert isinstance(found.value.__cause__, ValueError)
    background.stop()


def test_work_that_has_not_begun_in_time_fails_the_start() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    background = Background("the work", work)
    with pytest.raises(RuntimeError, match="the work did not begin"):
        background.start(0)
    background.stop()


def test_work_that_fails_later_fails_the_next_question() -> None:
    fails = asyncio.Event()
    threads: list[threading.Thread] = []

    async def work() -> None:
        threads.append(threading.current_thread())
        background.began()
        await fails.wait()
        raise ValueError("no")

    background = Background("the work", work)
    background.start(LONG)
    background.answer(fails.set)
    threads[0].join(LONG)
    with pytest.raises(RuntimeError, match=r"the work ended: ValueError\('no'\)"):
        background.answer(lambda: None)
    with pytest.raises(RuntimeError, match="the work ended"):
        background.check()
    background.stop()


def test_work_that_is_never_started_leaves_nothing_behind() -> None:
    begun = []

    def work() -> Coroutine[Any, Any, None]:
        begun.append(1)
        return asyncio.sleep(0)

    Background("the work", work)

    assert not begun
