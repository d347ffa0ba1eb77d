"""Connections for Bindings against servers that write each byte themselves."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typing_extensions import override

from extender.kube import write_connections as module
from extender.kube.client import KubeClient
from extender.kube.credentials import Credentials, Keyring
from extender.kube.errors import ApiError, UnauthorizedError, UnknownOutcomeError
from extender.kube.pods import PodRef, PodWriter
from extender.kube.write_connections import (
    UnsentError,
    WriteConnection,
    WriteConnections,
    write_connections,
)
from tests.harness.certificates import Authority, KeyPair

MADE = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nbusy"
POD = PodRef("ns", "p", "u")


@dataclass
class RawServer:
    """Answers each request with pieces of bytes; a connection ends after the piece `None`."""

    answers: list[list[bytes | None]] = field(default_factory=list)
    url: str = ""
    connections: int = 0
    most: int = 0
    """Connections that were open at one moment."""
    requests: list[bytes] = field(default_factory=list)
    """Request lines."""
    gate: asyncio.Event | None = None
    """No request is answered before it is set."""
    came: asyncio.Condition = field(default_factory=asyncio.Condition)
    writers: dict[asyncio.StreamWriter, asyncio.Event] = field(default_factory=dict)
    """Of open connections: what is set at their end."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        ended = self.writers[writer] = asyncio.Event()
        self.most = max(self.most, len(self.writers))
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    pass
        finally:
            del self.writers[writer]
            writer.close()
            ended.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        await reader.readexactly(sum(lengths))
        async with self.came:
            self.requests.append(head.partition(b"\r\n")[0])
            self.came.notify_all()
        if self.gate is not None:
            await self.gate.wait()
        for piece in self.answers.pop(0) if self.answers else [MADE]:
            if piece is None:
                return False
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return True

    async def asked(self, count: int) -> None:
        """Return when so many requests have come."""
        async with self.came, asyncio.timeout(10):
            await self.came.wait_for(lambda: len(self.requests) >= count)


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    server = RawServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    scheme, port = "https" if tls else "http", listener.sockets[0].getsockname()[1]
    server.url = f"{scheme}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        if server.gate is not None:
            server.gate.set()
        listener.close()
        for writer, ended in list(server.writers.items()):
            writer.transport.abort()
            await ended.wait()


def credentials(url: str, tls: ssl.SSLContext | None = None) -> Credentials:
    return Credentials(url, tls or ssl.create_default_context(), "Bearer t")


@asynccontextmanager
async def connections(server: RawServer, most: int = 4) -> AsyncIterator[WriteConnections]:
    found = write_connections(credentials(server.url), most=most, connect_seconds=5)
    assert found is not None
    try:
        yield found
    finally:
        await found.close()


def kube_client(now: Credentials, *, timeout: float = 5.0) -> KubeClient:
    async def read() -> Credentials:
        return now

    return KubeClient(Keyring(now, read), posts=4, timeout=timeout)


# By how an answer may come in pieces: the status, and what is kept of the body.
WHOLE: dict[str, tuple[list[bytes | None], int, bytes]] = {
    "with its length": ([MADE], 201, b"{}"),
    "byte by byte": ([bytes((byte,)) for byte in BUSY], 429, b"busy"),
    "in chunks": (
        [
            b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"2\r\nta\r",
            b"\n3\r\nken\r\n0\r\n",
            b"\r\n",
        ],
        409,
        b"taken",
    ),
    "after others that are no answer yet": (
        [b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n" + BUSY],
        429,
        b"busy",
    ),
    "without a body": ([b"HTTP/1.1 204 None\r\n\r\n"], 204, b""),
}


@pytest.mark.parametrize(("pieces", "status", "body"), WHOLE.values(), ids=WHOLE)
async def test_an_answer_is_read_as_it_comes(
    pieces: list[bytes | None], status: int, body: bytes
) -> None:
    async with serving() as server, connections(server) as asked:
        server.answers = [pieces, [BUSY]]
        first = await asked.send("POST", "/x", b"{}", seconds=5)
        second = await asked.send("POST", "/y", b"{}", seconds=5)

    assert (first.status, first.body) == (status, body)
    assert (second.status, second.body, second.headers) == (429, b"busy", {"Retry-After": "3"})
    assert server.connections == 1, "the connection is used again"


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/a b", b"/a%20b"),
        ("/a\r\nX: y", b"/a%0D%0AX:%20y"),
        ("/a#b", b"/a%23b"),
        ("/\u00e9", b"/%C3%A9"),
        ("/a%2Fb?c=d%20e,f&g=(h)", b"/a%2Fb?c=d%20e,f&g=(h)"),
    ],
)
async def test_a_path_is_one_word_of_the_request(path: str, sent: bytes) -> None:
    async with serving() as server, connections(server) as asked:
        assert (await asked.send("POST", path, b"{}", seconds=5)).status == 201

    assert server.requests == [b"POST %s HTTP/1.1" % sent]


# What is not a whole answer.
BROKEN: dict[str, list[bytes | None]] = {
    "nothing": [None],
    "half a head": [b"HTTP/1.1 201 Cre", None],
    "half a body": [b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{", None],
    "half of the chunks": [
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        None,
    ],
    "no HTTP": [b"SSH-2.0-OpenSSH\r\n"],
    "another protocol": [
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    ],
}


@pytest.mark.parametrize("pieces", BROKEN.values(), ids=BROKEN)
async def test_without_a_whole_answer_the_outcome_is_unknown(pieces: list[bytes | None]) -> None:
    async with serving() as server, kube_client(credentials(server.url)) as asked:
        await asked.post("/before", b"{}")
        server.answers = [pieces]
        with pytest.raises(UnknownOutcomeError):
            await asked.post("/x", b"{}")
        assert len(server.requests) == 2, "it is not sent again unasked"
        await asked.post("/y", b"{}")

    assert server.connections == 2, "the broken connection is not used again"


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
async def test_a_lost_answer_is_looked_up(made: bool) -> None:
    pod = b'{"metadata":{"name":"p","uid":"u"},"spec":{"nodeName":%s}}'
    shown = pod % (b'"n0"' if made else b"null")
    found = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(shown), shown)
    async with serving() as server, kube_client(credentials(server.url)) as asked:
        server.answers = [[None], [found]]
        bind = PodWriter(asked).bind(POD, "n0")
        if made:
            await bind
        else:
            with pytest.raises(UnknownOutcomeError):
                await bind

    path = b"/api/v1/namespaces/ns/pods/p"
    assert server.requests == [b"POST %s/binding HTTP/1.1" % path, b"GET %s HTTP/1.1" % path]


async def test_an_idle_connection_that_the_server_closes_costs_nothing() -> None:
    async with serving() as server, connections(server) as asked:
        await asked.send("POST", "/x", b"{}", seconds=5)
        (idle,) = asked._opened
        for writer in list(server.writers):
            writer.close()
        async with asyncio.timeout(10):
            await idle.gone
        assert (await asked.send("POST", "/y", b"{}", seconds=5)).status == 201

    assert server.connections == 2


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 201 C\r\nConnection: close\r\n", b"HTTP/1.0 201 C\r\n"], ids=["1.1", "1.0"]
)
async def test_a_connection_that_will_be_closed_is_not_used_again(head: bytes) -> None:
    async with serving() as server, connections(server) as asked:
        server.answers = [[head + b"Content-Length: 0\r\n\r\n"]]
        for _ in range(2):
            assert (await asked.send("POST", "/x", b"{}", seconds=5)).status == 201

    assert server.connections == 2


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_the_end_of_a_connection_is_that_of_an_answer_without_a_length(
    version: bytes,
) -> None:
    head = b"HTTP/%s 409 Conflict\r\nRetry-After: 3\r\n\r\n" % version
    async with serving() as server, connections(server) as asked:
        server.answers = [[head, b"ta", b"ken", None]]
        first = await asked.send("POST", "/x", b"{}", seconds=5)
        second = await asked.send("POST", "/y", b"{}", seconds=5)

    assert (first.status, first.body, first.headers) == (409, b"taken", {"Retry-After": "3"})
    assert (second.status, server.connections) == (201, 2)


@pytest.mark.parametrize("before", [MADE, b"HTTP/1.1 204 None\r\n\r\n"], ids=["201", "204"])
async def test_the_end_of_a_connection_is_no_second_answer(before: bytes) -> None:
    async with serving() as server, connections(server) as asked:
        server.answers = [[before], [None]]
        await asked.send("POST", "/x", b"{}", seconds=5)
        with pytest.raises(ConnectionResetError):
            await asked.send("POST", "/y", b"{}", seconds=5)


@pytest.mark.parametrize("later", [False, True], ids=["with the answer", "after the answer"])
async def test_a_stray_answer_is_never_taken_for_the_next_one(later: bool) -> None:
    async with serving() as server, connections(server) as asked:
        server.answers = [[MADE] if later else [MADE + BUSY]]
        assert (await asked.send("POST", "/x", b"{}", seconds=5)).status == 201
        if later:
            (writer,) = server.writers
            writer.write(BUSY)
        for opened in list(asked._opened):
            async with asyncio.timeout(10):
                await opened.gone
        assert (await asked.send("POST", "/y", b"{}", seconds=5)).status == 201

    assert server.connections == 2


async def test_an_answer_that_comes_too_late_is_not_the_next_ones() -> None:
    async with serving() as server, connections(server) as asked:
        await asked.send("POST", "/x", b"{}", seconds=5)
        server.gate, server.answers = asyncio.Event(), [[BUSY], [MADE]]
        with pytest.raises(TimeoutError):
            await asked.send("POST", "/y", b"{}", seconds=0.1)
        await server.asked(2)
        server.gate.set()
        assert (await asked.send("POST", "/z", b"{}", seconds=5)).status == 201

    assert server.connections == 2


async def test_a_request_that_is_given_up_takes_its_connection_along() -> None:
    async with serving() as server, connections(server, most=1) as asked:
        server.gate = asyncio.Event()
        task = asyncio.ensure_future(asked.send("POST", "/x", b"{}", seconds=30))
        await server.asked(1)
        (opened,) = asked._opened
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            await opened.gone
        server.gate.set()
        assert (await asked.send("POST", "/y", b"{}", seconds=5)).status == 201

    assert server.connections == 2


async def test_there_are_at_most_so_many_connections() -> None:
    async with serving() as server, connections(server, most=3) as asked:
        answers = await asyncio.gather(
            *(asked.send("POST", f"/{n}", b"{}", seconds=10) for n in range(30))
        )

    assert {each.status for each in answers} == {201}
    assert (server.connections, server.most) == (3, 3)


async def test_what_waits_for_a_connection_too_long_was_not_sent() -> None:
    async with serving() as server, connections(server, most=1) as asked:
        server.gate = asyncio.Event()
        first = asyncio.ensure_future(asked.send("POST", "/x", b"{}", seconds=30))
        await server.asked(1)
        with pytest.raises(UnsentError):
            await asked.send("POST", "/y", b"{}", seconds=0.05)
        server.gate.set()
        assert (await first).status == 201

    assert server.requests == [b"POST /x HTTP/1.1"]


async def test_a_connection_that_was_unused_for_too_long_is_not_used_again() -> None:
    async with serving() as server, connections(server) as asked:
        await asked.send("POST", "/x", b"{}", seconds=5)
        [old] = asked._idle
        old.idle_since -= module.IDLE_SECONDS
        assert (await asked.send("POST", "/y", b"{}", seconds=5)).status == 201
        assert [each is old for each in asked._idle] == [False]
        async with asyncio.timeout(10):
            await old.gone


@pytest.mark.parametrize(
    ("server", "is_used"),
    [
        ("https://10.0.0.1:6443", True),
        ("https://[fd00::1]:6443", True),
        ("http://127.0.0.1", True),
        ("https://kube.example:6443", False),
        ("https://kube.example.:6443", False),
        ("https://localhost:6443", False),
    ],
)
def test_a_server_with_a_name_may_have_several_addresses(server: str, is_used: bool) -> None:
    found = write_connections(credentials(server), most=1, connect_seconds=5)
    assert (found is not None) is is_used


async def test_closing_ends_what_is_under_way() -> None:
    async with serving() as server, connections(server) as asked:
        await asked.send("POST", "/x", b"{}", seconds=5)
        server.gate = asyncio.Event()
        task = asyncio.ensure_future(asked.send("POST", "/y", b"{}", seconds=30))
        await server.asked(2)
        await asked.close()
        with pytest.raises(ConnectionResetError):
            await task
        assert asked._opened == set()
        with pytest.raises(UnsentError):
            await asked.send("POST", "/z", b"{}", seconds=5)


# -- TLS, where both clients must say the same


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def server_side(pair: KeyPair, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


Send = Callable[[KubeClient], Awaitable[object]]
SENDS: dict[str, Send] = {
    "by aiohttp": lambda asked: asked.request("POST", "/x", body=b"{}"),
    "by connections for Bindings": lambda asked: asked.post("/x", b"{}"),
}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_a_binding_goes_by_tls(send: Send, authority: Authority) -> None:
    tls = server_side(authority.serving("good"))
    ours = ssl.create_default_context(cafile=authority.ca)
    async with serving(tls) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        async with kube_client(credentials(url, ours)) as asked:
            for _ in range(3):
                await send(asked)

    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_a_server_of_another_authority_is_not_spoken_to(
    send: Send, authority: Authority, tmp_path: Path
) -> None:
    tls = server_side(Authority(tmp_path).serving("bad"))
    now = credentials("", ssl.create_default_context(cafile=authority.ca))
    async with serving(tls) as server:
        now = credentials(server.url, now.tls)
        async with kube_client(now) as asked:
            with pytest.raises(UnauthorizedError):
                await send(asked)
            assert asked.keyring.refusals == 1

    assert server.requests == []


def refuse(listener: socket.socket, tls: ssl.SSLContext) -> None:
    """Answer one handshake with an alert. An asyncio server would close without one."""
    accepted, _ = listener.accept()
    with tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as client:
        with suppress(ssl.SSLError):
            client.do_handshake()
        socket.socket.shutdown(client, socket.SHUT_WR)
        while socket.socket.recv(client, 4096):
            pass  # unread bytes would make the kernel drop the alert


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_a_certificate_that_the_server_refuses_is_a_refusal(
    send: Send, version: ssl.TLSVersion, authority: Authority, tmp_path: Path
) -> None:
    """In TLS 1.3 the alert comes after the handshake, when the request may have been written."""
    theirs = server_side(authority.serving("strict"), clients=authority.ca)
    theirs.maximum_version = version
    pair = Authority(tmp_path).client("extender")
    ours = ssl.create_default_context(cafile=authority.ca)
    ours.load_cert_chain(pair.certificate, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        now = credentials(f"https://127.0.0.1:{listener.getsockname()[1]}", ours)
        refusal = asyncio.ensure_future(asyncio.to_thread(refuse, listener, theirs))
        async with kube_client(now) as asked:
            with pytest.raises(UnauthorizedError):
                await send(asked)
            assert asked.keyring.refusals == 1
        await refusal


async def test_a_server_that_shakes_no_hands_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection, and says nothing."""
    monkeypatch.setattr("extender.kube.client._CONNECT_SECONDS", 0.1)
    async with serving() as server:
        server.gate = asyncio.Event()
        now = credentials(server.url.replace("http:", "https:"))
        async with kube_client(now) as asked:
            with pytest.raises(ApiError) as raised:
                await asked.post("/x", b"{}")

    assert not isinstance(raised.value, UnknownOutcomeError), "nothing was sent"


async def test_a_connection_that_is_closing_is_not_closed_again() -> None:
    """Python 3.11.2 cannot abort a TLS transport that has been closed twice."""
    closed: list[bool] = []

    class Closing(asyncio.Transport):
        @override
        def is_closing(self) -> bool:
            return bool(closed)

        @override
        def close(self) -> None:
            closed.append(True)

    connection = WriteConnection(set())
    connection.connection_made(Closing())

    connection.close()
    connection.close()

    assert closed == [True]
