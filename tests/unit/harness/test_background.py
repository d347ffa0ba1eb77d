"""The event loop beside synchronous code."""

import asyncio
import socket

from tests.harness.background import Background


def test_connections_that_the_work_has_left_are_closed() -> None:
    """The other side never closes its end, as an API server that is too busy for that."""
    left = list[asyncio.StreamWriter]()
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def work() -> None:
            _, writer = await asyncio.open_connection(*server.getsockname())
            left.append(writer)
            background.began()
            await asyncio.Event().wait()

        background = Background("a client", work)
        background.start(60)
        background.stop()

    [writer] = left
    assert writer.transport.get_extra_info("socket").fileno() == -1
