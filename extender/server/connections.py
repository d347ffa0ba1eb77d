"""The connections of clients: limits for one client, and which of them is kube-scheduler's loop.

uvicorn waits without end for the rest of a request, and for the client to read its answer. Here
both have a deadline. Where there are too many connections, the one that has been without a whole
request for longest makes way. A connection whose request is being answered, such as a held bind, is
never closed for another one.

kube-scheduler's loop calls filter and preempt for one pod after the other. A kube-scheduler process
closes its connections when it ends, even if it has released its Lease before. So kube-scheduler is
running as long as one of them is open.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import uvicorn
from prometheus_client import Counter, Gauge
from starlette.types import Scope
from typing_extensions import override
from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

STATE: Final = "connection"
"""The key of the connection in the state of a request."""
_OF_LOOP: Final = frozenset(("filter", "preempt"))
"""The verbs that kube-scheduler's loop waits for. If no node has room by its own filters, it calls
only preempt."""


class Caller:
    """The kube-scheduler whose loop called last, known by the address of its connections."""

    def __init__(self, lost: Callable[[], None]) -> None:
        """`lost` is called when the last connection from that address has ended."""
        self._lost = lost
        self._host: str | None = None
        self._open: dict[Connection, str] = {}
        """The addresses by connection, for each connection by which a verb was called."""

    @property
    def is_there(self) -> bool:
        """Return whether a connection from that address is open."""
        return self._host is not None

    def called(self, scope: Scope, verb: str) -> None:
        """Take note of a call of a verb."""
        connection: Connection | None = scope.get("state", {}).get(STATE)
        if connection is None or not connection.is_open:
            return  # it ended before its request was read
        host, _ = scope.get("client") or ("", 0)
        self._open[connection] = host
        if verb in _OF_LOOP:
            self._host = host

    def gone(self, connection: "Connection") -> None:
        """Take note that a connection has ended."""
        host = self._open.pop(connection, None)
        if host is not None and host == self._host and host not in self._open.values():
            self._host = None
            self._lost()


_SAN: Final = frozenset(("DNS", "URI"))


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the common names, and the DNS names and URIs, of a certificate of `getpeercert`."""
    return frozenset(_names(certificate or {}))


def _names(certificate: Mapping[str, Any]) -> Iterable[str]:
    for part in certificate.get("subject", ()):
        yield from (value for kind, value in part if kind == "commonName")
    yield from (value for kind, value in certificate.get("subjectAltName", ()) if kind in _SAN)


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
            self.cut("InvalidRequest")
        self._look()

    @override
    def on_headers_complete(self) -> None:
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
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
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

    def _is_in_head(self) -> bool:
        """Return whether a request has begun and its headers are not complete."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type has no None
        scope: HTTPScope | None = self.scope
        return scope is not None and (cycle is None or cycle.scope is not scope)

    def _look(self) -> None:
        """Update the stage of the connection: reading, idle, or answering a request."""
        connections = self._connections
        cycle: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing():
            self._stop_timers()
            connections.gone(self)
            self._end_later()  # what the client does not take is not sent forever
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
