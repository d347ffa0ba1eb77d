"""The page's process: deadlines of its connections, and its garbage collections."""

import asyncio
import gc
from types import SimpleNamespace
from typing import cast

import uvicorn
from fastapi import FastAPI, WebSocket
from websockets.asyncio.client import connect

from extender.server.connections import Limits
from extender.wiring.process import Server
from gang_tools.page.following import FollowedCluster
from gang_tools.page.serving import _keep_collections_short, _PageConnections


async def test_a_websocket_outlives_the_deadline_of_a_request() -> None:
    app = FastAPI()

    @app.websocket("/")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text)

    connections = _PageConnections(Limits(read_seconds=0.05))
    server = Server(
        uvicorn.Config(app, port=0, http="httptools", ws="websockets-sansio", log_config=None),
        connections,
    )
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve())
        await server.listening.wait()
        [listener] = server.servers[0].sockets
        port = listener.getsockname()[1]
        slow, writer = await asyncio.open_connection("127.0.0.1", port)
        async with connect(f"ws://127.0.0.1:{port}/") as socket:
            assert await slow.read() == b""  # it was cut off, and the websocket was not
            await socket.send("still there")
            assert await socket.recv() == "still there"
            assert len(connections) == 0
        writer.close()
        server.should_exit = True
        await serving


async def test_garbage_collections_leave_out_what_was_listed() -> None:
    gc.unfreeze()  # what the processes of other tests have left
    listed = asyncio.Event()
    followed = cast("FollowedCluster", SimpleNamespace(watches=listed))
    work = asyncio.ensure_future(_keep_collections_short(followed))
    await asyncio.sleep(0)
    assert not gc.get_freeze_count()
    listed.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    try:
        assert gc.get_freeze_count()
    finally:
        work.cancel()
        gc.unfreeze()
