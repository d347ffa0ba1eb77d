"""Gangs are created when they are due."""

import asyncio

import pytest

from tests.bench.creation import at_rate

pytestmark = pytest.mark.looptime


async def test_a_slow_creation_holds_up_none_behind_it() -> None:
    """The first requests to an API server that has just started take long."""
    loop, begun = asyncio.get_running_loop(), list[tuple[str, float]]()

    async def create(gang: str) -> None:
        begun.append((gang, loop.time()))
        await asyncio.sleep(3.0 if gang == "a" else 0.0)

    began = loop.time()
    await at_rate(["a", "b", "c"], 2.0, create)

    assert [(gang, at - began) for gang, at in begun] == [("a", 0.0), ("b", 0.5), ("c", 1.0)]


async def test_a_gang_that_is_refused_ends_it() -> None:
    begun = list[str]()

    async def create(gang: str) -> None:
        begun.append(gang)
        raise RuntimeError(f"{gang} is refused")

    with pytest.raises(RuntimeError, match="a is refused"):
        await at_rate(["a", "b", "c"], 2.0, create)

    assert begun == ["a"]
