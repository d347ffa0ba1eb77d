"""What one client may take of the server: seconds to send a request, bytes, a connection.

uvicorn waits for the rest of a request for as long as the client likes, and for as long as it likes
for the client to take an answer. Here each has an end, and where there are too many connections the
one that has been without a whole request for the longest time makes way. A connection whose request
is being answered, such as a held bind, is never closed for another one.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from typing import Any, Final

import uvicorn
from prometheus_client import Counter
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.server.clients import names_of

_PIPELINED: Final = 8
"""Requests that a connection may send before the first one of them is answered."""
_PROBES: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A client that vanished without a word is missed after a minute."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take."""

    read_seconds: float = 10.0
    """From the first byte of a request to its last, and from the connection to the first byte."""
    write_seconds: float = 30.0
    """For which the client may take nothing of an answer."""
    head_bytes: int = 64 * 2**10
    """Request line and headers together."""
    connections: int = 1024


class _Stage(Enum):
    READING = auto()
    """There is no whole request, and its deadline runs."""
    IDLE = auto()
    """All requests are answered; uvicorn's keep-alive timer runs."""
    IN_HAND = auto()
    """A whole request is being answered."""


class Connections:
    """The connections of one server: counts them, and closes one where there are too many."""

    def __init__(self, limits: Limits, closed: Counter | None = None) -> None:
        """Take the limits; `closed` counts by `reason` the connections that were cut off."""
        self.limits = limits
        self._closed = closed
        self._all: set[Connection] = set()
        # Dictionaries keep the order in which connections came to their stage.
        self._stages: dict[_Stage, dict[Connection, None]] = {stage: {} for stage in _Stage}

    def __len__(self) -> int:
        return len(self._all)

    def protocol(self, config: uvicorn.Config, state: ServerState) -> Callable[[], "Connection"]:
        """Return what makes the protocol of a new connection."""
        return lambda: Connection(self, config=config, server_state=state, app_state={})

    def opened(self, connection: "Connection") -> None:
        """Take note of a new connection; where it is one too many, another one or it is closed."""
        self._all.add(connection)
        if len(self._all) <= self.limits.connections:
            return
        reading, idle = (self._stages[stage] for stage in (_Stage.READING, _Stage.IDLE))
        others = (each for each in chain(reading, idle) if each is not connection)
        next(others, connection).cut("TooManyConnections")

    def moved(self, connection: "Connection", before: _Stage | None, after: _Stage) -> None:
        """Take note that a connection came to a stage."""
        if before is not None:
            self._stages[before].pop(connection, None)
        self._stages[after][connection] = None

    def gone(self, connection: "Connection") -> None:
        """Take note that a connection is closed, or is about to be."""
        self._all.discard(connection)
        for connections in self._stages.values():
            connections.pop(connection, None)

    def count(self, reason: str) -> None:
        """Count a connection that is cut off."""
        if self._closed is not None:
            self._closed.labels(reason).inc()

    def end_old(self) -> None:
        """End what is idle now, and the others after their answer: clients must connect anew."""
        for connection in list(self._all):
            connection.shutdown()


class _RequestError(Exception):
    """A request is not one that is read to its end."""


class Connection(HttpToolsProtocol):
    """One connection with its deadlines."""

    def __init__(self, connections: Connections, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self._connections = connections
        self._limits = connections.limits
        self._names: frozenset[str] = frozenset()
        self._stage: _Stage | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._in_message = False
        self._in_head = True
        self._head_bytes = 0
        self._too_large = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._names = names_of(transport.get_extra_info("peercert"))
        self._move(_Stage.READING)
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
        if self._in_head:
            # A header that comes byte by byte is not reported by the parser before its end.
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self._limits.head_bytes:
            self._refuse_head()
        self._look()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["client_names"] = self._names
        self._in_message = self._in_head = True
        self._head_bytes = 0
        if len(self.pipeline) >= _PIPELINED:
            raise _RequestError("too many requests before the first one is answered")

    @override
    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._took_head(len(url))

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._took_head(len(name) + len(value))

    @override
    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        self._head_bytes = 0

    @override
    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_message = False
        self._in_head = True

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
        if self._too_large:
            self._refuse_head()
        elif self._is_answering() and self.cycle.response_started:
            self.transport.abort()  # an answer in the middle of another one is none
        else:
            super().send_400_response(msg)

    def cut(self, reason: str) -> None:
        """Break the connection off."""
        self._connections.count(reason)
        self._connections.gone(self)
        self.transport.abort()

    def _took_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > 2 * self._limits.head_bytes:  # what came in one piece counts twice
            self._too_large = True
            raise _RequestError("the head of the request is too large")

    def _refuse_head(self) -> None:
        if self.transport.is_closing():
            return
        text = b"the request line and headers are over %d bytes\n" % self._limits.head_bytes
        head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
        self.transport.write(
            head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(text) + text
        )
        self.transport.close()

    def _look(self) -> None:
        """Find out at which stage the connection is."""
        if self.transport.is_closing():
            self._stop_timers()
            self._connections.gone(self)
            self._end_later()  # what the client does not take is not sent for ever
        elif self._is_answering():
            self._move(_Stage.READING if self._in_message else _Stage.IN_HAND)
        elif self._in_message or self.timeout_keep_alive_task is None:
            self._move(_Stage.READING)
        else:
            self._move(_Stage.IDLE)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type has no None
        return cycle is not None and not cycle.response_complete

    def _move(self, stage: _Stage) -> None:
        if stage is self._stage:
            return
        self._connections.moved(self, self._stage, stage)
        self._stage = stage
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if stage is _Stage.READING:
            seconds = self._limits.read_seconds
            self._deadline = self.loop.call_later(seconds, self.cut, "SlowRequest")

    def _end_later(self) -> None:
        if self._end is None:
            self._end = self.loop.call_later(self._limits.write_seconds, self.cut, "SlowAnswer")

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._end):
            if timer is not None:
                timer.cancel()
        self._deadline = self._end = None


def probe_clients(listeners: Iterable[socket.socket]) -> None:
    """Have the kernel ask connections that listeners accept, from time to time, for their client.

    Without that the bind of a machine that is gone is held until the end of its gang's wait.
    """
    for listener in listeners:
        # uvloop's own object for a socket cannot set anything.
        with suppress(OSError), socket.socket(fileno=os.dup(listener.fileno())) as copied:
            copied.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _PROBES:
                copied.setsockopt(socket.IPPROTO_TCP, option, value)
