"""HTTP/1.1 on asyncio's protocols, as little of it as the stand-ins need.

A web framework takes longer for a request than the extender does, and would be what is measured.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from typing_extensions import override

_REASONS: Final = {200: b"OK", 201: b"Created", 404: b"Not Found", 409: b"Conflict"}
_SERVED: Final = (
    b"Audit-Id: 6c4f7a3e-8d3a-4c6b-9c1f-2f6f5d8c1a77\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 2b8f3f1e-1d8e-4d0e-8f7c-5f0a2a6d9b11\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 9d1c5b0a-7f54-4f0c-a8f5-0d7c3e2b6a22\r\n"
    b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
)
"""What an API server sends with each answer: the extender has to read it."""

Answer = Callable[["Connection", str, str, bytes], None]
"""Takes a connection, the method, the target and the body."""


class _Peer(asyncio.Protocol):
    """One end of a connection, whose parser calls it back."""

    def __init__(self, parser: Callable[[object], Any]) -> None:
        self._parser = parser(self)
        self._transport: asyncio.Transport | None = None
        self._body = b""

    @property
    def is_open(self) -> bool:
        """Whether the other end is there."""
        return self._transport is not None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    @override
    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


class Connection(_Peer):
    """A client's connection: each whole request goes to `answer`, which sends or streams."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(httptools.HttpRequestParser)
        self._answer = answer
        self._target = b""

    def send(self, body: bytes, status: int = 200) -> None:
        """Answer the request."""
        head = b"HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n"
        self._write(head % (status, _REASONS[status], _SERVED, len(body)) + body)

    def stream(self) -> None:
        """Answer the request with chunks that come later."""
        self._write(b"HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n" % _SERVED)

    def chunk(self, data: bytes) -> None:
        """Send a chunk: an API server flushes after each event."""
        self._write(b"%x\r\n%s\r\n" % (len(data), data))

    # -- what httptools calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._target, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._target += url

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Answer."""
        method = self._parser.get_method().decode()
        self._answer(self, method, self._target.decode(), self._body)


class Channel(_Peer):
    """A connection to a server, for one request at a time, or for one stream."""

    def __init__(self, on_piece: Callable[[bytes], None] | None = None) -> None:
        """`on_piece` gets the pieces of a stream; without it the body is kept for `post`."""
        super().__init__(httptools.HttpResponseParser)
        self._on_piece = on_piece
        self._answer: asyncio.Future[bytes] | None = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server hung up"))

    async def post(self, request: bytes) -> bytes:
        """Return the body of the answer. Raises ConnectionError."""
        if self._transport is None:
            raise ConnectionError("the server hung up")
        self._body = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._write(request)
        return await self._answer

    def send(self, request: bytes) -> None:
        """Send a request whose answer is a stream."""
        self._write(request)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    # -- what httptools calls

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._on_piece is not None:
            self._on_piece(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """End the request."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._body)


class Pool:
    """Connections to one server as Go's client keeps them: few that are idle, others without limit.

    kube-scheduler sets no number, and Go's default is two: the binds of a gang, which are held
    together, come on connections of their own.
    """

    def __init__(self, port: int, idle: int = 2) -> None:
        self._port = port
        self._most_idle = idle
        self._idle: list[Channel] = []

    async def post(self, path: str, body: bytes, method: str = "POST") -> bytes:
        """Return the body of the answer. Raises OSError."""
        channel = await self._channel()
        answer = await channel.post(request(method, path, body))
        if len(self._idle) < self._most_idle and channel.is_open:
            self._idle.append(channel)
        else:
            channel.close()
        return answer

    async def _channel(self) -> Channel:
        while self._idle:
            channel = self._idle.pop()
            if channel.is_open:
                return channel
        return await connect(self._port)


async def connect(port: int, on_piece: Callable[[bytes], None] | None = None) -> Channel:
    """Return a connection to a port of this machine. Raises OSError."""
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(lambda: Channel(on_piece), "127.0.0.1", port)
    return channel


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """Return a request as Go's client writes it."""
    head = (
        b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        b"Content-Length: %d\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head % (method.encode(), path.encode(), len(body)) + body
