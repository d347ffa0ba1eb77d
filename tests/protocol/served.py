"""Applications on real sockets of 127.0.0.1, each in a thread with a loop of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from starlette.types import ASGIApp

from extender.server.connections import Connections, Limits
from extender.wiring.process import Server, http_config


@contextlib.contextmanager
def served(make: Callable[[], ASGIApp], limits: Limits | None = None) -> Iterator[str]:
    """Yield the URL of an application, which is made in the thread that serves it.

    Without `limits` a client may be slow: the machine may have much else to do.
    """
    started = threading.Event()
    found: list[tuple[asyncio.AbstractEventLoop, Server]] = []

    async def serve() -> None:
        config = http_config(make(), host="127.0.0.1", port=0, keep_alive=120)
        server = Server(config, Connections(limits or Limits(read_seconds=60)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            found.append((asyncio.get_running_loop(), server))
            started.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(60)
        loop, server = found[0]
        (listener,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for loop, server in found:
            loop.call_soon_threadsafe(setattr, server, "should_exit", True)
        thread.join(60)
    assert not thread.is_alive()
