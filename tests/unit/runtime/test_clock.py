"""Long work leaves the loop to others, by a clock that the test moves."""

import asyncio
from collections.abc import Iterator
from itertools import chain

from extender.runtime.clock import Pacer


class Clock:
    """Moves when work is done."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Return seconds."""
        return self.now

    def wall(self) -> float:
        """Return the same."""
        return self.now


def work(clock: Clock, count: int, seconds: float, log: list[str], name: str) -> Iterator[None]:
    for _ in range(count):
        clock.now += seconds
        log.append(name)
        yield


async def turns(log: list[str]) -> None:
    """Note each turn of the loop."""
    while True:
        log.append("|")
        await asyncio.sleep(0)


async def run(*counts: int, seconds: float = 0.25) -> list[list[str]]:
    """Return the work of users, by turns of the loop; four items take up the time at once."""
    clock, log = Clock(), list[str]()
    pacer = Pacer(clock, at_once=1.0)
    other = asyncio.create_task(turns(log))
    users = (work(clock, count, seconds, log, str(name)) for name, count in enumerate(counts))
    await asyncio.gather(*map(pacer.go_through, users))
    other.cancel()
    parts = "".join(log).split("|")
    return [list(part) for part in parts if part]


async def test_work_rests_when_its_time_is_up() -> None:
    found = await run(12)
    assert max(map(len, found)) <= 4
    assert len(found) >= 3


async def test_users_share_the_time_of_one_turn() -> None:
    found = await run(8, 8, 8)
    # Each of the others takes one item, and then finds that the time is up.
    assert max(map(len, found)) <= 4 + 2
    assert sorted(chain.from_iterable(found)) == sorted("0" * 8 + "1" * 8 + "2" * 8)


async def test_short_work_is_done_without_a_rest() -> None:
    found = await run(100, seconds=0.0)
    assert len(found) <= 2
