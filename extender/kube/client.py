"""The pooled connections to the API server, in raw bytes.

The `kubernetes` package finds the server and reads the credentials; its typed models are left out,
because decoding one pod to a model costs eight times what parsing its JSON does.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
from typing_extensions import override

from extender.kube.credentials import LOOK_SECONDS, Credentials, Keyring
from extender.kube.errors import (
    ApiError,
    LargeAnswerError,
    SilentError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
    from_response,
)
from extender.kube.write_connections import (
    UnsentError,
    WriteConnections,
    write_connections,
)
from extender.runtime.faults import FAULTS

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_CONNECT_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 0.5
"""The least time for a second try, and before a busy server is asked again."""
_READ_BUFFER: Final = 2**21
_READS: Final = frozenset(("GET", "HEAD"))
_UNSENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, UnsentError)

T = TypeVar("T")


class _Connector(aiohttp.TCPConnector):
    """A connector that lets the event loop make its sockets.

    aiohttp makes a socket and hands it to the loop. Where the server resets the connection at once,
    uvloop closes the file descriptor before it has taken the socket over, and the socket closes it
    again when it is collected: by then it may belong to another connection, and the process aborts.
    """

    @override
    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: Sequence[Any],
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, Any]:
        """Return a connection to the first address that takes one; raise the last's error."""
        *others, last = [each[4][:2] for each in addr_infos]
        for host, port in others:
            with suppress(aiohttp.ClientConnectorError, TimeoutError):
                return await self._wrap_existing_connection(*args, host=host, port=port, **kwargs)
        host, port = last
        return await self._wrap_existing_connection(*args, host=host, port=port, **kwargs)


@dataclass(slots=True)
class _Connection:
    """Pooled connections that were made with the same credentials."""

    credentials: Credentials
    session: aiohttp.ClientSession
    streams: aiohttp.ClientSession
    writes: WriteConnections | None
    users: int = 0

    async def close(self) -> None:
        """Close all connections."""
        await self.session.close()
        await self.streams.close()
        if self.writes is not None:
            await self.writes.close()


class KubeClient:
    """Requests to one API server. Use as an async context manager.

    A request ends after `timeout` seconds, whatever happens: waiting for a connection, the
    handshake, and waits that the server asks for (429 with Retry-After) are in it. Credentials that
    were renewed count for the next request, while those under way end as they began.
    """

    def __init__(
        self,
        keyring: Keyring,
        *,
        connections: int = 64,
        posts: int = 0,
        all_writes: bool = False,
        timeout: float = 30.0,
    ) -> None:
        """Keep at most `connections` open beside one for each stream.

        So many of them are for `post` alone, or with `all_writes` for all writes but PUT, which
        cost a quarter of the CPU time there.
        """
        self.keyring = keyring
        self._connections = connections
        self._posts, self._all_writes = posts, all_writes
        self._seconds = timeout
        self.posting = 0
        """The number of `post` that are under way."""
        self._connection: _Connection | None = None
        self._retired: list[_Connection] = []
        """Connections with older credentials that are still in use, mostly by watches."""
        self._looking: asyncio.Task[None] | None = None

    @property
    def host(self) -> str:
        """The server's URL."""
        return self.keyring.current.host

    async def __aenter__(self) -> Self:
        self._connection = self._connected()
        self._looking = asyncio.get_running_loop().create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for each in (*self._retired, self._connection):
            if each is not None:
                await each.close()
        self._connection = None
        self._retired = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        most: int = sys.maxsize,
    ) -> bytes:
        """Return the body of a 2xx answer; raises ApiError for anything else.

        UnknownOutcomeError where a write may have been carried out all the same, LargeAnswerError
        for more bytes of a read than `most`: no more than these are in memory then.
        """
        # A PUT is of the Lease: behind other writes it could come too late to go on leading.
        if self._all_writes and method not in (*_READS, "PUT"):
            return await self._patiently(
                lambda seconds: self._write(
                    method, path, body or b"", content_type=content_type, seconds=seconds
                )
            )
        answer, _ = await self._patiently(
            lambda seconds: self._once(
                method, path, body=body, content_type=content_type, seconds=seconds, most=most
            )
        )
        return answer

    async def date(self, path: str) -> str:
        """Return the header Date of the answer to a GET, empty where there is none. ApiError."""
        _, headers = await self._patiently(
            lambda seconds: self._once("GET", path, body=None, content_type=JSON, seconds=seconds)
        )
        return headers.get("Date", "")

    async def post(self, path: str, body: bytes) -> None:
        """POST some JSON of whose answer only the status counts. Raises what `request` does.

        It goes by connections of its own, where there are any. Bindings and Events are what is
        written most.
        """
        self.posting += 1
        try:
            await self._patiently(
                lambda seconds: self._write("POST", path, body, content_type=JSON, seconds=seconds)
            )
        finally:
            self.posting -= 1

    async def _patiently(self, send: Callable[[float], Awaitable[T]]) -> T:
        """Return what `send` returns within the seconds that it is given.

        It is repeated where other credentials or a pause that the server asks for may help.
        """
        loop, again = asyncio.get_running_loop(), True
        until = loop.time() + self._seconds
        while True:
            try:
                return await send(max(_LEAST_SECONDS, until - loop.time()))
            except UnauthorizedError as error:
                if not (again and error.renewed):
                    raise
                again = False
            except ThrottledError as error:
                if error.retry_after is None:
                    raise
                pause = max(_LEAST_SECONDS, error.retry_after)
                if loop.time() + pause >= until:
                    raise
                await asyncio.sleep(pause)

    async def _once(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None,
        content_type: str,
        seconds: float,
        most: int = sys.maxsize,
    ) -> tuple[bytes, Mapping[str, str]]:
        doing = f"{method} {path.partition('?')[0]}"
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        async with (
            self._using(doing, writes=method not in _READS) as connection,
            connection.session.request(
                method,
                connection.credentials.host + path,
                data=body,
                headers=_headers(connection.credentials, content_type),
                timeout=timeout,
                server_hostname=connection.credentials.server_name,
            ) as response,
        ):
            answer = bytearray()
            async for chunk in response.content.iter_any():
                answer += chunk
                if len(answer) > most:
                    raise LargeAnswerError(f"{doing}: the answer has over {most} bytes")
            if response.status >= 300:
                status, headers = response.status, response.headers
                raise from_response(status, bytes(answer), doing=doing, headers=headers)
            return bytes(answer), response.headers

    async def _write(
        self, method: str, path: str, body: bytes, *, content_type: str, seconds: float
    ) -> bytes:
        writes = self._current().writes
        if writes is None:
            answer, _ = await self._once(
                method, path, body=body, content_type=content_type, seconds=seconds
            )
            return answer
        doing = f"{method} {path.partition('?')[0]}"
        async with self._using(doing, writes=True):
            found = await writes.send(
                method, path, body, content_type=content_type, seconds=seconds
            )
            if found.status >= 300:
                raise from_response(found.status, found.body, doing=doing, headers=found.headers)
            return found.body

    @asynccontextmanager
    async def stream(
        self, path: str, *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the chunks of a long GET; too long a silence raises SilentError."""
        doing = f"GET {path.partition('?')[0]}"
        timeout = aiohttp.ClientTimeout(
            total=None,
            connect=self._seconds,
            sock_connect=_CONNECT_SECONDS,
            sock_read=idle_seconds,
        )
        async with (
            self._using(doing, writes=False) as connection,
            connection.streams.get(
                connection.credentials.host + path,
                headers=_headers(connection.credentials, JSON),
                timeout=timeout,
                server_hostname=connection.credentials.server_name,
            ) as response,
        ):
            if response.status >= 300:
                answer, status, headers = await response.read(), response.status, response.headers
                raise from_response(status, answer, doing=doing, headers=headers)
            try:
                yield response.content.iter_any()
            except aiohttp.SocketTimeoutError as error:
                text = f"{doing}: nothing came for {idle_seconds:.0f} s"
                raise SilentError(text) from error

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.keyring.look()
            except Exception as error:  # noqa: BLE001 - the next look may go well
                FAULTS.report("credentials", error)

    @asynccontextmanager
    async def _using(self, doing: str, *, writes: bool) -> AsyncIterator[_Connection]:
        """Yield connections of the credentials that count now; old ones go with their last user.

        What goes wrong on the way is raised as ApiError. Credentials that are refused are read
        again before UnauthorizedError is raised.
        """
        connection = self._current()
        connection.users += 1
        try:
            yield connection
        except UnauthorizedError as error:
            error.renewed = await self.keyring.refused(connection.credentials)
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failure = _unreachable(doing, error, writes=writes)
            if isinstance(failure, UnauthorizedError):
                failure.renewed = await self.keyring.refused(connection.credentials)
            raise failure from error
        finally:
            connection.users -= 1
            if self._retired:
                unused = [each for each in self._retired if not each.users]
                self._retired = [each for each in self._retired if each.users]
                for each in unused:
                    await each.close()

    def _current(self) -> _Connection:
        connection = self._connection
        if connection is None:
            raise RuntimeError("KubeClient is used outside of its `async with`")
        if connection.credentials is not self.keyring.current:
            self._retired.append(connection)
            connection = self._connection = self._connected()
        return connection

    def _connected(self) -> _Connection:
        credentials, writes = self.keyring.current, None
        if self._posts:
            writes = write_connections(
                credentials, most=self._posts, connect_seconds=_CONNECT_SECONDS
            )
        limit = self._connections - (self._posts if writes else 0)
        session, streams = (
            aiohttp.ClientSession(
                connector=_Connector(limit=most, ssl=credentials.tls),
                read_bufsize=_READ_BUFFER,
                proxy=credentials.proxy,
                # Not trust_env: it looks for a netrc file before every single request.
            )
            for most in (limit, 0)
        )
        return _Connection(credentials, session, streams, writes)


def _headers(credentials: Credentials, content_type: str) -> Mapping[str, str]:
    headers = {"Content-Type": content_type, "User-Agent": "gang-extender"}
    if credentials.authorization:
        headers["Authorization"] = credentials.authorization
    return headers


def _unreachable(doing: str, error: Exception, *, writes: bool) -> ApiError:
    """Return the error for a request that no whole answer came to."""
    text = f"{doing}: {str(error) or type(error).__name__}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (aiohttp.ClientSSLError, ssl.SSLError)):
            return UnauthorizedError(text)  # one side refused the other's certificate
        cause = cause.__cause__
    # A connection that was not made has carried nothing.
    unsent = isinstance(error, _UNSENT)
    found = UnknownOutcomeError(text) if writes and not unsent else UnavailableError(text)
    found.is_unsent = unsent
    return found
