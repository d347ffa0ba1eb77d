"""How a server ends: on a real socket, with an application that answers when the test says so."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from extender.server.connections import Connections, Limits
from extender.wiring.process import Server, http_config


@dataclass
class Running:
    """A server, and what its application has in hand."""

    patience: float = 60.0
    unfinished: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    reported: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = Server(
            http_config(self.app, host="127.0.0.1", port=0, keep_alive=120),
            Connections(Limits()),
            on_exit=lambda: self.reported.append("exit"),
            unfinished=lambda: self.unfinished,
            patience=self.patience,
        )
        # Signals are for the process that runs the tests.
        self.server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/bind":
            self.unfinished += 1
            await self.go_on.wait()
            self.unfinished -= 1
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    @property
    def url(self) -> str:
        (listener,) = self.server.servers[0].sockets
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def signal(self) -> None:
        self.server.handle_exit(signal.SIGTERM, None)


@pytest.fixture
def patience() -> float:
    return 60.0


@pytest.fixture
async def running(patience: float) -> AsyncIterator[Running]:
    running = Running(patience)
    async with asyncio.TaskGroup() as tasks:
        served = tasks.create_task(running.server.serve())
        await eventually(lambda: running.server.started)
        yield running
        running.go_on.set()
        running.signal()
        await served


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.01)


async def test_what_is_in_hand_is_finished_and_others_are_answered_until_then(
    running: Running,
) -> None:
    async with httpx.AsyncClient(base_url=running.url, trust_env=False) as client:
        async with asyncio.TaskGroup() as tasks:
            bind = tasks.create_task(client.post("/bind"))
            await eventually(lambda: running.unfinished == 1)
            running.signal()
            await eventually(lambda: running.reported == ["exit"])
            assert (await client.get("/readyz")).text == "ok"
            assert not bind.done()
            running.go_on.set()

        assert bind.result().text == "ok"
        await eventually(lambda: not running.server.servers[0].is_serving())


async def test_with_nothing_in_hand_it_ends_at_once(running: Running) -> None:
    running.signal()

    await eventually(lambda: not running.server.servers[0].is_serving())


@pytest.mark.parametrize("patience", [0.2])
async def test_what_is_in_hand_for_too_long_is_given_up(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url, trust_env=False, timeout=60) as client:
        async with asyncio.TaskGroup() as tasks:
            bind = tasks.create_task(client.post("/bind"))
            await eventually(lambda: running.unfinished == 1)
            running.signal()
            await eventually(lambda: not running.server.servers[0].is_serving())
            assert running.unfinished == 1
            running.go_on.set()
        assert bind.result().text == "ok"


async def test_a_second_signal_ends_it_with_what_is_in_hand(running: Running) -> None:
    async with (
        httpx.AsyncClient(base_url=running.url, trust_env=False, timeout=60) as client,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(ignoring(client.post("/bind")))
        await eventually(lambda: running.unfinished == 1)
        running.signal()
        running.signal()
        await eventually(lambda: not running.server.servers[0].is_serving())
        running.go_on.set()


async def ignoring(request: Any) -> None:
    with contextlib.suppress(httpx.TransportError):
        await request
