"""The proxy that makes watches lag and holds requests, by virtual time."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.harness.faulty_proxy import Hold, lagging

pytestmark = pytest.mark.looptime

Timed = list[tuple[float, bytes]]


async def sent(times: Sequence[float], failure: Exception | None = None) -> AsyncIterator[bytes]:
    """Yield a chunk at each of these seconds."""
    loop = asyncio.get_running_loop()
    for number, at in enumerate(times):
        await asyncio.sleep(at - loop.time())
        yield b"%d" % number
    if failure is not None:
        raise failure


async def received(chunks: AsyncIterator[bytes]) -> Timed:
    """Return the chunks with the seconds at which they came."""
    loop = asyncio.get_running_loop()
    return [(round(loop.time(), 3), chunk) async for chunk in chunks]


async def test_chunks_come_so_much_later_and_in_their_order() -> None:
    found = await received(lagging(sent([0.0, 0.0, 1.0, 9.0]), lambda: 3.0))

    assert found == [(3.0, b"0"), (3.0, b"1"), (4.0, b"2"), (12.0, b"3")]


class Request:
    """A request whose client may have gone."""

    def __init__(self) -> None:
        self.transport = self
        self.gone = False

    def is_closing(self) -> bool:
        return self.gone


async def test_requests_are_held_from_a_certain_one_on() -> None:
    hold = Hold("/binding", after=2, answers=False)
    requests = [Request() for _ in range(4)]
    calls = [asyncio.ensure_future(hold.wait(each)) for each in requests]  # type: ignore[arg-type]
    await asyncio.sleep(9)
    assert [call.done() for call in calls] == [True, True, False, False]
    assert (hold.passed, hold.held) == (2, 2)

    requests[3].gone = True
    hold.let_go()
    await calls[2]
    with pytest.raises(ConnectionResetError):
        await calls[3]
    await hold.wait(Request())  # type: ignore[arg-type]
