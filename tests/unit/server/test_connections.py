"""What one client may take: the protocol on a transport that records, in virtual time."""

import asyncio
from typing import Any

import pytest
import uvicorn
from prometheus_client import CollectorRegistry, Counter
from typing_extensions import override
from uvicorn.server import ServerState

from extender.server.connections import Connection, Connections, Limits
from tests.makers import until

pytestmark = pytest.mark.looptime

LIMITS = Limits(read_seconds=10, write_seconds=30, head_bytes=1000, connections=4)
KEEP_ALIVE = 120
REQUEST = b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"


class Wire(asyncio.Transport):
    """What a client sees of its connection; it takes what is written unless it is `stuck`."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Connection | None = None
        self.written = b""
        self.stuck = False
        self.paused = False
        self.ended: str | None = None
        self._closing = False

    @override
    def write(self, data: Any) -> None:
        self.written += bytes(data)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def close(self) -> None:
        self._closing = True
        if not self.stuck:
            self._lose("closed")

    @override
    def abort(self) -> None:
        self._closing = True
        self._lose("aborted")

    @override
    def pause_reading(self) -> None:
        self.paused = True

    @override
    def resume_reading(self) -> None:
        self.paused = False

    def is_open(self) -> bool:
        return self.ended is None

    def _lose(self, how: str) -> None:
        if self.ended is None and self.protocol is not None:
            self.ended = how
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class Net:
    """A server of an application that answers when the test says so."""

    def __init__(self, limits: Limits = LIMITS, *, reads: bool = True) -> None:
        self.reads = reads
        self.held: list[asyncio.Future[None]] = []
        self.bodies: list[bytes] = []
        self.closed = Counter("closed", "x", ["reason"], registry=CollectorRegistry())
        self.connections = Connections(limits, self.closed)
        config = uvicorn.Config(
            self.app,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        config.load()
        self._new = self.connections.protocol(config, ServerState())

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", self.reads
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        if scope["path"] == "/bind":
            self.held.append(asyncio.get_running_loop().create_future())
            await self.held[-1]
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    def answer_all(self) -> None:
        for hold in self.held:
            hold.set_result(None)

    def connect(self) -> Wire:
        wire = Wire()
        wire.protocol = self._new()
        wire.protocol.connection_made(wire)
        return wire

    def send(self, wire: Wire, data: bytes) -> None:
        assert wire.protocol is not None
        if wire.ended is None:
            wire.protocol.data_received(data)

    def count(self, reason: str) -> float:
        value: float = self.closed.labels(reason)._value.get()
        return value


def connected(*, reads: bool = True) -> tuple[Net, Wire]:
    net = Net(reads=reads)
    return net, net.connect()


GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"


async def bytewise(net: Net, wire: Wire, data: bytes, *, pause: float) -> float:
    """Send a byte after each pause; return for how long that went well."""
    began = asyncio.get_running_loop().time()
    for number in range(len(data)):
        if wire.ended is not None:
            break
        net.send(wire, data[number : number + 1])
        await asyncio.sleep(pause)
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(GET, id="request line"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 500, id="header"),
        pytest.param(REQUEST[:-4] + b"b" * 3, id="body"),
        pytest.param(b"\r\n" * 500, id="empty lines"),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 99,
            id="chunks",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 500,
            id="trailer",
        ),
    ],
)
async def test_a_client_that_sends_a_byte_a_second_is_cut(request_: bytes) -> None:
    net, wire = connected()

    took = await bytewise(net, wire, request_, pause=1.0)

    assert wire.ended == "aborted"
    assert took <= LIMITS.read_seconds + 1
    assert net.count("SlowRequest") == 1
    assert len(net.connections) == 0


async def test_a_client_that_says_nothing_is_cut() -> None:
    _, wire = connected()

    await asyncio.sleep(LIMITS.read_seconds + 1)

    assert wire.ended == "aborted"


async def test_the_deadline_of_a_second_request_begins_with_it() -> None:
    net, wire = connected()
    net.send(wire, GET)
    await until(lambda: b"ok" in wire.written)
    await asyncio.sleep(KEEP_ALIVE - 10)
    assert wire.is_open()

    took = await bytewise(net, wire, GET, pause=1.0)

    assert wire.ended == "aborted"
    assert took > LIMITS.read_seconds - 1


async def test_an_idle_connection_lives_for_its_keep_alive_and_no_longer() -> None:
    net, wire = connected()
    net.send(wire, GET)
    await asyncio.sleep(KEEP_ALIVE - 1)
    assert wire.is_open()
    await asyncio.sleep(2)

    assert wire.ended == "closed"
    assert len(net.connections) == 0


async def test_a_held_request_has_no_deadline() -> None:
    net, wire = connected()
    net.send(wire, REQUEST)
    await asyncio.sleep(10_000)
    assert wire.ended is None
    net.held[0].set_result(None)
    await until(lambda: b"ok" in wire.written)

    assert net.bodies == [b"body"]


async def test_an_answer_before_the_end_of_the_request_leaves_the_deadline() -> None:
    net, wire = connected(reads=False)
    net.send(wire, REQUEST.replace(b"/bind", b"/x")[:-1])
    await until(lambda: b"ok" in wire.written)
    await asyncio.sleep(LIMITS.read_seconds + 1)

    assert wire.ended == "aborted"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\n\r\n", id="request line"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 3000 + b"\r\n\r\n", id="one header"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyy\r\n" * 300 + b"\r\n", id="headers"),
    ],
)
async def test_a_client_with_a_head_that_is_too_large_is_cut(head: bytes) -> None:
    net, wire = connected()
    size = len(head) // 100

    for start in range(0, len(head), size):
        net.send(wire, head[start : start + size])

    assert (wire.ended, wire.written, net.bodies) == ("aborted", b"", [])
    assert net.count("InvalidRequest") == 1


async def test_many_requests_on_one_connection_are_each_within_the_limit_of_a_head() -> None:
    net, wire = connected()
    for number in range(100):
        net.send(wire, GET)
        await until(lambda count=number + 1: len(net.bodies) == count)  # type: ignore[misc]

    assert wire.written.count(b"HTTP/1.1 200") == 100


async def test_requests_behind_a_held_one_are_bounded() -> None:
    net, wire = connected()
    net.send(wire, REQUEST)
    await until(lambda: net.held)
    for _ in range(50):
        net.send(wire, GET)

    assert wire.ended is not None
    assert len(net.bodies) == 1


async def test_one_connection_too_many_is_at_the_cost_of_the_one_that_says_nothing() -> None:
    net = Net()
    held, idle, silent = net.connect(), net.connect(), net.connect()
    net.send(held, REQUEST)
    net.send(idle, GET)
    await until(lambda: net.held and b"ok" in idle.written)
    slow = net.connect()
    net.send(slow, GET[:5])
    more = [net.connect()]
    await asyncio.sleep(0.1)
    assert [silent.ended, slow.ended, idle.ended, held.ended] == ["aborted", None, None, None]
    net.send(more[0], REQUEST)
    more += [net.connect()]
    await asyncio.sleep(0.1)
    assert [slow.ended, idle.ended, held.ended] == ["aborted", None, None]
    net.send(more[1], REQUEST)
    more += [net.connect()]
    await asyncio.sleep(0.1)
    assert [idle.ended, held.ended] == ["aborted", None]
    net.send(more[2], REQUEST)

    refused = net.connect()
    await asyncio.sleep(0.1)

    assert refused.ended == "aborted"
    assert [wire.ended for wire in (held, *more)] == [None] * 4
    assert net.count("TooManyConnections") == 4
    net.answer_all()
    await until(lambda: all(b"ok" in wire.written for wire in (held, *more)))


async def test_a_client_that_takes_no_answer_is_cut() -> None:
    net, wire = connected()
    wire.stuck = True
    net.send(wire, REQUEST)
    await until(lambda: net.held)
    assert wire.protocol is not None
    wire.protocol.pause_writing()
    net.held[0].set_result(None)
    await asyncio.sleep(LIMITS.write_seconds + 1)

    assert wire.ended == "aborted"
    assert net.count("SlowAnswer") == 1


async def test_a_client_that_takes_its_answer_late_is_not_cut() -> None:
    net, wire = connected()
    net.send(wire, REQUEST)
    await until(lambda: net.held)
    assert wire.protocol is not None
    wire.protocol.pause_writing()
    net.held[0].set_result(None)
    await asyncio.sleep(LIMITS.write_seconds - 1)
    wire.protocol.resume_writing()
    await asyncio.sleep(LIMITS.write_seconds + 1)

    assert wire.ended is None
    assert wire.written.endswith(b"ok")


async def test_a_closed_connection_whose_client_takes_nothing_ends() -> None:
    net, wire = connected()
    wire.stuck = True
    net.send(wire, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    await until(lambda: b"ok" in wire.written)
    assert wire.ended is None
    await asyncio.sleep(LIMITS.write_seconds + 1)

    assert wire.ended == "aborted"


async def test_old_connections_end_after_their_answer() -> None:
    net = Net()
    held, idle = net.connect(), net.connect()
    net.send(held, REQUEST)
    net.send(idle, GET)
    await until(lambda: net.held and b"ok" in idle.written)

    net.connections.end_old()
    assert (held.ended, idle.ended) == (None, "closed")
    net.held[0].set_result(None)
    await until(lambda: held.ended == "closed")

    assert held.written.endswith(b"ok")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX\x00: y\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused(data: bytes) -> None:
    net, wire = connected()

    net.send(wire, data)
    await asyncio.sleep(LIMITS.read_seconds + KEEP_ALIVE)

    assert wire.ended is not None
    assert wire.written[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 200", b""}
    assert len(net.connections) == 0
