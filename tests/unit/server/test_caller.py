"""Whether the kube-scheduler that called filter last is still there: its connection says so."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from typing_extensions import override
from uvicorn.server import ServerState

from extender.server.connections import Caller, Connections, Limits
from extender.server.verbs import ExtenderApp, Verb
from extender.telemetry.metrics import Metrics
from tests.makers import until
from tests.unit.server.test_connections import Wire

pytestmark = pytest.mark.looptime


class WireFrom(Wire):
    """A connection from an address."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._host, 1) if name == "peername" else default


class Net:
    """The verbs behind real connections; `lost` counts how often the caller went."""

    def __init__(self) -> None:
        self.lost = 0
        self.caller = Caller(self._count)
        app, metrics = ExtenderApp(), Metrics()
        app.caller = self.caller

        async def answered(_body: bytes, _gone: Any) -> bytes:
            return b"{}"

        for name in ("filter", "bind"):
            app.verbs[f"/{name}"] = Verb(
                name, answered, metrics=metrics, unready=lambda: "", max_body_bytes=100
            )
        connections = Connections(Limits(), on_gone=self.caller.gone)
        config = uvicorn.Config(
            *(app,), http="httptools", ws="none", lifespan="off", log_config=None, interface="asgi3"
        )
        config.load()
        self._new = connections.protocol(config, ServerState())

    def _count(self) -> None:
        self.lost += 1

    async def after(self, end: Callable[[], None]) -> tuple[bool, int]:
        """Return whether the caller is there once a connection has ended, and how often it went."""
        end()
        await asyncio.sleep(1)
        return self.caller.is_there, self.lost

    async def call(self, verb: str, wire: Wire | None = None, *, host: str = "10.0.0.1") -> Wire:
        """Return the connection by which a verb was called, a new one if there is none."""
        if wire is None:
            wire = WireFrom(host)
            wire.protocol = self._new()
            wire.protocol.connection_made(wire)
        assert wire.protocol is not None
        before = len(wire.written)
        wire.protocol.data_received(
            b"POST /%b HTTP/1.1\r\nContent-Length: 0\r\n\r\n" % verb.encode()
        )
        await until(lambda: len(wire.written) > before)
        return wire


async def test_the_caller_is_there_as_long_as_the_connection_of_its_last_filter_call() -> None:
    net = Net()
    assert not net.caller.is_there
    first = await net.call("filter")
    second = await net.call("filter")
    assert await net.after(first.close) == (True, 0)
    assert await net.after(second.close) == (False, 1)
    await net.call("filter")
    assert net.caller.is_there


async def test_a_connection_of_another_verb_says_nothing() -> None:
    net = Net()
    other = await net.call("bind")
    assert not net.caller.is_there
    await net.call("filter")
    assert await net.after(other.close) == (True, 0)


async def test_a_connection_that_is_cut_has_ended_too() -> None:
    net = Net()
    wire = await net.call("filter")
    assert await net.after(wire.abort) == (False, 1)


async def test_connections_of_bind_show_that_the_caller_is_there_too() -> None:
    net = Net()
    bind = await net.call("bind")
    wire = await net.call("filter")
    assert await net.after(wire.close) == (True, 0)
    assert await net.after(bind.close) == (False, 1)


async def test_connections_of_another_address_do_not_stand_for_those_of_the_caller() -> None:
    net = Net()
    await net.call("filter", host="10.0.0.2")
    mine = await net.call("filter")
    assert await net.after(mine.close) == (False, 1)


def test_a_request_without_a_connection_shows_no_caller() -> None:
    caller = Caller(lambda: None)
    caller.called({"type": "http"}, "filter")
    assert not caller.is_there
