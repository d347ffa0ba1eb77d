"""TLS handshakes that do not end, on real sockets of the loopback device."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from prometheus_client import CollectorRegistry, Counter, Gauge
from typing_extensions import override

from extender.server.connections import Connections, Limits
from extender.server.tls import TlsListener, listening
from tests.harness.certificates import Authority

MOST = 8
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("handshakes"))


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    @override
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Served:
    """A listener, its clients, and what it counts."""

    def __init__(self, authority: Authority, seconds: float) -> None:
        registry = CollectorRegistry()
        self.closed = Counter("closed", "x", ["reason"], registry=registry)
        self.unfinished = Gauge("unfinished", "x", registry=registry)
        self._limits = Limits(handshakes=MOST, handshake_seconds=seconds)
        pair = authority.serving("extender")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.certificate, pair.key)
        self._trust = ssl.create_default_context(cafile=authority.ca)
        self._open: list[socket.socket] = []

    async def start(self) -> None:
        (listener,) = await listening("127.0.0.1", 0, backlog=512)
        self.port = listener.getsockname()[1]
        connections = Connections(self._limits, self.closed, self.unfinished)
        self.listener = TlsListener(
            [listener], Echo, context=self._context, connections=connections
        )

    async def stop(self) -> None:
        self.listener.close()
        await self.listener.wait_closed()
        for each in self._open:
            each.close()

    def hang(self, count: int, *, source: str = "127.0.0.1") -> list[socket.socket]:
        """Connect, and begin a handshake that goes no further."""
        made = []
        for _ in range(count):
            made.append(socket.create_connection(("127.0.0.1", self.port), 5, (source, 0)))
            made[-1].sendall(b"\x16\x03\x01")
        self._open += made
        return made

    async def ask(self) -> bytes:
        """Return what a client gets that does as it should."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self._trust)
        writer.write(b"hello")
        answer = await reader.readexactly(5)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return answer

    def cut(self, reason: str) -> float:
        value: float = self.closed.labels(reason)._value.get()
        return value

    @property
    def shaking(self) -> float:
        value: float = self.unfinished._value.get()
        return value


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.01)


def is_cut(client: socket.socket) -> bool:
    """Return whether the other side has ended a connection."""
    client.setblocking(False)
    try:
        return client.recv(100) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


Story = Callable[[Served], Any]


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest, authority: Authority) -> Callable[..., None]:
    """Play a story on a loop of each kind."""

    def run(story: Story, *, seconds: float = 60.0) -> None:
        async def whole() -> None:
            async with serving(authority, seconds) as served:
                await story(served)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(whole())

    return run


@contextlib.asynccontextmanager
async def serving(authority: Authority, seconds: float) -> AsyncIterator[Served]:
    served = Served(authority, seconds)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


def test_so_many_hang_at_most_and_others_are_served(play: Callable[..., None]) -> None:
    async def story(served: Served) -> None:
        before = files()
        first = served.hang(MOST)
        await until(lambda: served.shaking == MOST)
        later = served.hang(10 * MOST)
        assert await served.ask() == b"hello"
        await until(lambda: served.cut("TooManyHandshakes") >= 10 * MOST)
        await until(lambda: served.shaking <= MOST)
        # Each open connection has two ends in this process.
        assert files() - before <= 11 * MOST + MOST + 1
        assert all(map(is_cut, first))
        assert not any(map(is_cut, later[-MOST + 1 :]))
        assert await served.ask() == b"hello"

    play(story)


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_address_with_the_most_makes_way(play: Callable[..., None]) -> None:
    async def story(served: Served) -> None:
        few = served.hang(2, source="127.0.0.2")
        await until(lambda: served.shaking == 2)
        served.hang(5 * MOST)
        await until(lambda: served.cut("TooManyHandshakes") == 4 * MOST + 2)
        assert not any(map(is_cut, few))

    play(story)


def test_one_that_takes_too_long_is_counted(play: Callable[..., None]) -> None:
    async def story(served: Served) -> None:
        (one,) = served.hang(1)
        await until(lambda: served.cut("SlowHandshake") == 1)
        await until(lambda: is_cut(one) and served.shaking == 0)

    play(story, seconds=0.2)


def test_one_that_is_none_is_counted(play: Callable[..., None]) -> None:
    async def story(served: Served) -> None:
        (one,) = served.hang(1)
        one.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        await until(lambda: served.cut("FailedHandshake") == 1)
        assert await served.ask() == b"hello"

    play(story)


def test_the_end_breaks_off_what_hangs(play: Callable[..., None]) -> None:
    async def story(served: Served) -> None:
        hanging = served.hang(2)
        await until(lambda: served.shaking == 2)
        served.listener.close()
        await served.listener.wait_closed()
        assert served.shaking == 0
        await until(lambda: all(map(is_cut, hanging)))
        assert served.cut("ServerStopped") == 2
        with pytest.raises(OSError, match="refused"):
            served.hang(1)

    play(story)


async def test_an_address_that_is_taken_is_an_error(tmp_path: Path) -> None:
    (one,) = await listening("127.0.0.1", 0, backlog=1)
    with one, pytest.raises(OSError, match="in use"):
        await listening("127.0.0.1", one.getsockname()[1], backlog=1)
