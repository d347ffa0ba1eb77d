"""The connections of clients: limits for one client, and which of them is kube-scheduler's loop.

uvicorn waits without end for the rest of a request, and for the client to read its answer. Here
both have a deadline. Where there are too many connections, the one that has been without a whole
request for longest makes way. A connection whose request is being answered, such as a held bind, is
never closed for another one.

kube-scheduler's loop calls filter and preempt for one pod after the other, by one connection that
stays open in between. The connection ends with the process, also with one that gives its lease back
before it ends. Where one entry of kube-scheduler's configuration has all verbs, they share
connections. After many binds at a time kube-scheduler keeps two connections and closes the others,
perhaps the one with the last filter. Such a caller is there as long as any of its connections is
open: a process that ends ends them all.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Protocol

import uvicorn
from prometheus_client import Counter, Gauge
from starlette.types import Scope
from typing_extensions import override
from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.server.tls import names_of

STATE: Final = "connection"
"""The key of the connection in the state of a request."""
VERBS: Final = frozenset(("filter", "bind"))
"""If filter and bind come by one connection, all verbs share connections."""
_OF_LOOP: Final = frozenset(("filter", "preempt"))
"""The verbs that kube-scheduler's loop waits for. If no node has room by its own filters, it calls
only preempt."""


class ClientConnection(Protocol):
    """A connection of a client."""

    @property
    def is_open(self) -> bool:
        """Return whether the connection has not ended, and is not about to."""


@dataclass(slots=True)
class _Use:
    """The verbs that came by a connection."""

    host: str
    verbs: set[str] = field(default_factory=set)


class Caller:
    """The connection of the last call of filter or preempt, or one that stands for it."""

    def __init__(self, lost: Callable[[], None]) -> None:
        """`lost` is called when the last connection has ended that shows the caller."""
        self._lost = lost
        self._connection: ClientConnection | None = None
        self._open: dict[ClientConnection, _Use] = {}
        self._sharing: set[str] = set()
        """Addresses from which filter and bind have come by one connection."""

    @property
    def is_there(self) -> bool:
        """Return whether that connection is open."""
        return self._connection is not None

    def called(self, scope: Scope, verb: str = "filter") -> None:
        """Take note of a call of a verb."""
        if verb not in VERBS | _OF_LOOP:
            return
        connection: ClientConnection | None = scope.get("state", {}).get(STATE)
        if connection is not None and not connection.is_open:
            connection = None  # it ended before its request was read
        if connection is not None:
            host, _ = scope.get("client") or ("", 0)
            use = self._open.setdefault(connection, _Use(host))
            use.verbs.add(verb)
            if use.verbs >= VERBS:
                self._sharing.add(host)
        if verb in _OF_LOOP:
            self._connection = connection

    def gone(self, connection: ClientConnection) -> None:
        """Take note that a connection has ended."""
        use = self._open.pop(connection, None)
        if use is None:
            return
        others = [other for other, used in self._open.items() if used.host == use.host]
        shares = use.host in self._sharing
        if not others:
            self._sharing.discard(use.host)
        if connection is not self._connection:
            return
        self._connection = others[-1] if others and shares else None
        if self._connection is None:
            self._lost()


_PIPELINED: Final = 8
"""Requests that a connection may send before the first one of them is answered."""
_PROBES: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A client that vanished is noticed after a minute."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for one client."""

    read_seconds: float = 10.0
    """The longest time for a whole request, and from the connection to the first byte."""
    write_seconds: float = 30.0
    """The longest time in which a client reads nothing of an answer."""
    head_bytes: int = 64 * 2**10
    """The size of the request line and the headers together."""
    connections: int = 1024
    handshakes: int = 256
    """Connections that have not finished their TLS handshake, beside the others."""
    handshake_seconds: float = 10.0
    """The longest time for a TLS handshake."""


class Connections:
    """The connections of one server: counts them, and closes one where there are too many."""

    def __init__(
        self,
        limits: Limits,
        closed: Counter | None = None,
        handshakes: Gauge | None = None,
        *,
        on_gone: Callable[["Connection"], None] | None = None,
    ) -> None:
        """Count in `closed`, by reason, the connections that are cut off.

        `handshakes` shows how many TLS handshakes are under way. `on_gone` takes each connection
        that has ended, or is about to.
        """
        self.limits = limits
        self._on_gone = on_gone
        self._closed = closed
        self._handshakes = handshakes
        self._all: set[Connection] = set()
        # Dictionaries keep the order in which connections came to their stage.
        self.reading: dict[Connection, None] = {}
        """The connections without a whole request, whose deadline runs."""
        self.idle: dict[Connection, None] = {}
        """The connections of which all requests are answered."""

    def __len__(self) -> int:
        return len(self._all)

    def protocol(self, config: uvicorn.Config, state: ServerState) -> Callable[[], "Connection"]:
        """Return the factory of protocols for new connections."""
        return lambda: Connection(self, config=config, server_state=state, app_state={})

    def opened(self, connection: "Connection") -> None:
        """Add a new connection; where there is one too many, close another one or this one."""
        self._all.add(connection)
        if len(self._all) <= self.limits.connections:
            return
        others = (each for each in chain(self.reading, self.idle) if each is not connection)
        next(others, connection).cut("TooManyConnections")

    def gone(self, connection: "Connection") -> None:
        """Remove a connection that is closed, or is about to be."""
        self._all.discard(connection)
        self.reading.pop(connection, None)
        self.idle.pop(connection, None)
        if self._on_gone is not None:
            self._on_gone(connection)

    def count(self, reason: str) -> None:
        """Count a connection that is cut off."""
        if self._closed is not None:
            self._closed.labels(reason).inc()

    def count_handshakes(self, change: int) -> None:
        """Add `change` to the gauge of TLS handshakes that are under way."""
        if self._handshakes is not None:
            self._handshakes.inc(change)

    def end_old(self) -> None:
        """Close idle connections now and others after their answer: clients must connect anew."""
        for connection in list(self._all):
            connection.shutdown()


class _RequestError(Exception):
    """The rest of a request is not read."""


class Connection(HttpToolsProtocol):
    """One connection with its deadlines.

    Filter is called for each pod of the cluster: nothing here is done for each header, and no timer
    is set for a request that comes in one piece.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self._connections = connections
        self._limits = connections.limits
        self._deadline: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._head_is_too_large = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # uvicorn gives each request a copy of it.
        names = names_of(transport.get_extra_info("peercert"))
        self.app_state = {"client_names": names, STATE: self}
        self._look()
        self._connections.opened(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._connections.gone(self)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        # A header that comes byte by byte is not reported by the parser before its end.
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_in_head():
            self._head_bytes = 0
        elif self._head_bytes > self._limits.head_bytes:
            self._refuse_head()
        self._look()

    @override
    def on_headers_complete(self) -> None:
        if self._head_bytes > self._limits.head_bytes:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            self._head_is_too_large = size > self._limits.head_bytes
        if self._head_is_too_large:
            raise _RequestError("the head of the request is too large")
        if len(self.pipeline) >= _PIPELINED:
            raise _RequestError("too many requests before the first one is answered")
        super().on_headers_complete()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    @override
    def shutdown(self) -> None:
        super().shutdown()
        self._look()

    @override
    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._look()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_later()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._end is not None and not self.transport.is_closing():
            self._end.cancel()
            self._end = None

    @override
    def send_400_response(self, msg: str) -> None:
        self._connections.count("InvalidRequest")
        if self._head_is_too_large:
            self._refuse_head()
        elif self._is_answering() and self.cycle.response_started:
            self.transport.abort()  # an answer in the middle of another one is none
        else:
            super().send_400_response(msg)

    @property
    def is_open(self) -> bool:
        """Return whether the connection has not ended, and is not about to."""
        return not self.transport.is_closing()

    def cut(self, reason: str) -> None:
        """Cut the connection off."""
        self._connections.count(reason)
        self._connections.gone(self)
        self.transport.abort()

    def _refuse_head(self) -> None:
        if self.transport.is_closing():
            return
        text = b"the request line and headers are over %d bytes\n" % self._limits.head_bytes
        head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
        self.transport.write(
            head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(text) + text
        )
        self.transport.close()

    def _is_in_head(self) -> bool:
        """Return whether a request has begun and its headers are not complete."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type has no None
        scope: HTTPScope | None = self.scope
        return scope is not None and (cycle is None or cycle.scope is not scope)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _look(self) -> None:
        """Update the stage of the connection: reading, idle, or answering a request."""
        connections = self._connections
        cycle: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing():
            self._stop_timers()
            connections.gone(self)
            self._end_later()  # what the client does not take is not sent for ever
        elif self._is_in_head() or cycle is None or cycle.more_body:
            self._read_until()
        elif not cycle.response_complete:
            self._no_deadline()
            connections.idle.pop(self, None)
        elif self.timeout_keep_alive_task is None:  # of data that is no request yet
            self._read_until()
        else:
            self._no_deadline()
            connections.idle[self] = None

    def _read_until(self) -> None:
        """Enter the stage of reading; its deadline does not move with each byte."""
        if self._deadline is None:
            self._connections.idle.pop(self, None)
            self._connections.reading[self] = None
            seconds = self._limits.read_seconds
            self._deadline = self.loop.call_later(seconds, self.cut, "SlowRequest")

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._connections.reading.pop(self, None)
            self._deadline.cancel()
            self._deadline = None

    def _end_later(self) -> None:
        if self._end is None:
            self._end = self.loop.call_later(self._limits.write_seconds, self.cut, "SlowAnswer")

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._end):
            if timer is not None:
                timer.cancel()
        self._deadline = self._end = None


def probe_clients(listeners: Iterable[socket.socket]) -> None:
    """Enable TCP keepalive on the connections that listeners accept.

    Without it the bind of a machine that is gone is held until the end of its gang's wait.
    """
    for listener in listeners:
        # uvloop's own socket objects cannot set options.
        with suppress(OSError), socket.socket(fileno=os.dup(listener.fileno())) as copied:
            copied.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _PROBES:
                copied.setsockopt(socket.IPPROTO_TCP, option, value)
