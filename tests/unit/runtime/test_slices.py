"""Long work that lets others have their turn."""

import asyncio

import pytest

from extender.runtime.clock import Pacer, in_slices
from extender.steps import Steps, at_once
from tests.makers import ManualClock


def work(clock: ManualClock, steps: int, seconds: float, seen: list[bool | None]) -> Steps[str]:
    for _ in range(steps):
        clock.now += seconds
        seen.append((yield))
    return "done"


async def test_others_have_their_turn_when_a_slice_is_over() -> None:
    clock, rests, turns = ManualClock(), list[bool | None](), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    steps = work(clock, 10, 0.004, rests)
    assert await in_slices(steps, Pacer(clock, 0.01)) == "done"
    beside.cancel()

    # Nothing has had its turn before the first slice begins.
    assert rests == [True, *[False, False, True] * 3]
    assert turns >= 4


async def test_what_a_step_raises_is_raised() -> None:
    def broken() -> Steps[str]:
        yield
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await in_slices(broken(), Pacer(ManualClock()))


async def test_work_without_steps() -> None:
    def empty() -> Steps[int]:
        yield from ()
        return 3

    assert await in_slices(empty(), Pacer(ManualClock())) == at_once(empty()) == 3
