"""Connections for writes: small requests with small answers.

For each request the client for everything else makes a URL, headers, time-outs and a response
object, which costs several times what the write itself does. Here the head of a request is made
once for the credentials, and httptools parses the answer. Nothing is sent twice: a request without
a whole answer is an error, and its caller looks the outcome up.
"""

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTP_PORT, HTTPS_PORT
from typing import Final, cast
from urllib.parse import quote, urlsplit

import httptools
from typing_extensions import override

from extender.kube.credentials import Credentials

IDLE_SECONDS: Final = 15.0
"""A connection that was unused for longer is not used again: what is between may have dropped it
silently."""
_PORTS: Final = {"http": HTTP_PORT, "https": HTTPS_PORT}


class UnsentError(OSError):
    """There was no connection in time: the request has not been sent."""


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """A whole answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    """Retry-After, where it was sent."""


class WriteConnection(asyncio.Protocol):
    """A connection for one request at a time."""

    def __init__(self, opened: "set[WriteConnection]") -> None:
        """Keep the connection in `opened` for as long as it is open."""
        self._loop = asyncio.get_running_loop()
        self._opened = opened
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.idle_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[WriteAnswer] | None = None
        self._body = b""
        self._headers: dict[str, str] = {}
        self._has_length = True

    @property
    def is_usable(self) -> bool:
        """True if a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, request: bytes) -> WriteAnswer:
        """Return the answer; raises OSError, after which the connection is closed."""
        if self._transport is None:
            raise ConnectionResetError("the server closed the connection")
        self._answer = self._loop.create_future()
        self._transport.write(request)
        try:
            return await self._answer
        except BaseException:
            self.abort()  # what still comes would be taken for the next answer
            raise

    def close(self) -> None:
        """Close the connection when what was written is sent."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- what the event loop calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._opened.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._opened.discard(self)
        error = ConnectionResetError(str(exc or "the server closed the connection"))
        error.__cause__ = exc
        self._fail(error)
        if not self.gone.done():
            self.gone.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.abort()  # bytes without a request: the server is about to close
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionAbortedError(f"this is no answer: {error}"))
            self.abort()

    @override
    def eof_received(self) -> None:
        if self._body and not self._has_length:  # its end is the end of the connection
            self.on_message_complete()

    # -- what httptools calls

    def on_message_begin(self) -> None:
        """Begin an answer."""
        self._body, self._headers, self._has_length = b"", {}, False
        if not self._is_asked:
            self.abort()  # one answer more than there were requests

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep Retry-After, and note whether the answer has a length."""
        if name.lower() == b"retry-after":
            self._headers = {"Retry-After": value.decode("latin-1")}
        self._has_length |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_body(self, body: bytes) -> None:
        """Keep a part of the answer."""
        self._body += body

    def on_message_complete(self) -> None:
        """End an answer."""
        status = self._parser.get_status_code()
        if status < 200:
            return  # the answer is still to come
        if not self._parser.should_keep_alive():
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(WriteAnswer(status, self._body, self._headers))

    @property
    def _is_asked(self) -> bool:
        return self._answer is not None and not self._answer.done()

    def _fail(self, error: OSError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            self._answer.exception()  # asyncio reports it if the request is just given up


class WriteConnections:
    """Connections to one server with the same credentials, at most `most` of them."""

    def __init__(
        self, credentials: Credentials, *, host: str, port: int, most: int, connect_seconds: float
    ) -> None:
        """Connect to `host` and `port`, as `write_connections` has found them."""
        url = urlsplit(credentials.host)
        self._host, self._port = host, port
        self._tls = credentials.tls if url.scheme == "https" else None
        self._server_name = (credentials.server_name or host) if self._tls else None
        self._connect_seconds = connect_seconds
        self._prefix = url.path
        self._head = _head(url.netloc, credentials.authorization)
        self._slots = asyncio.Semaphore(most)
        self._opened: set[WriteConnection] = set()
        self._idle: list[WriteConnection] = []
        """The last one was used last: those that a lesser load does not need grow old."""
        self._closed = False

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        seconds: float,
    ) -> WriteAnswer:
        """Return the answer to a request.

        Raises OSError: UnsentError where nothing was sent, TimeoutError after `seconds`.
        """
        what = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        where = quote(path, safe="%:/?[]@!$&'()*+,;=")  # what aiohttp sends as it is
        head = f"{method} {self._prefix}{where}{self._head}{what}"
        request = head.encode("ascii") + body
        unsent = True
        try:
            async with asyncio.timeout(seconds), self._slots:
                connection = self._take() or await self._connect()
                unsent = False
                answer = await connection.send(request)
                if self._closed or not connection.is_usable:
                    connection.close()
                else:
                    connection.idle_since = asyncio.get_running_loop().time()
                    self._idle.append(connection)
                return answer
        except OSError as error:
            if unsent:
                raise UnsentError(str(error) or type(error).__name__) from error
            raise

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        gone = [each.gone for each in self._opened]
        for each in list(self._opened):
            each.abort()
        if gone:
            await asyncio.wait(gone)

    def _take(self) -> WriteConnection | None:
        latest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since > latest:
                return connection
            connection.close()
        return None

    async def _connect(self) -> WriteConnection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_seconds):
            _, connection = await loop.create_connection(
                lambda: WriteConnection(self._opened),
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._server_name,
            )
        if self._closed:
            connection.abort()
            raise ConnectionAbortedError("the client is closed")
        return connection


def write_connections(
    credentials: Credentials, *, most: int, connect_seconds: float
) -> WriteConnections | None:
    """Return connections to the server of the credentials.

    Return None where an address alone is not enough: for a proxy, for a name that may stand for
    several addresses, and for a URL or a header that would have to be encoded.
    """
    try:
        url = urlsplit(credentials.host)
        host = str(ipaddress.ip_address(url.hostname or ""))
        port = url.port or _PORTS.get(url.scheme, 0)
    except ValueError:
        return None
    text = credentials.host + (credentials.authorization or "")
    plain = text.isascii() and text.isprintable() and " " not in credentials.host
    beside = "@" in url.netloc or url.query or url.fragment
    if credentials.proxy or beside or not (plain and port):
        return None
    return WriteConnections(
        credentials, host=host, port=port, most=most, connect_seconds=connect_seconds
    )


def _head(netloc: str, authorization: str | None) -> str:
    """Return the head of a request from after its path to what it says of its body."""
    headers = {
        "Host": netloc,
        "User-Agent": "gang-extender",
        "Accept": "application/json",
    }
    if authorization:
        headers["Authorization"] = authorization
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f" HTTP/1.1\r\n{lines}"
