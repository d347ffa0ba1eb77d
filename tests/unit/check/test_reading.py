"""Many reads at a time: one that fails cancels no other."""

import asyncio

import pytest

from extender.check.reading import together


async def test_a_read_that_fails_cancels_no_other() -> None:
    ended = []
    release = asyncio.Event()

    async def fails() -> None:
        release.set()
        raise LookupError("first")

    async def goes_on() -> None:
        await release.wait()
        await asyncio.sleep(0)
        ended.append("second")

    with pytest.raises(LookupError, match="first"):
        await together([fails(), goes_on()])

    assert ended == ["second"]
