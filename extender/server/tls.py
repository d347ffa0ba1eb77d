"""TLS: which clients may call, certificates that are renewed, and a limit for handshakes.

An authority signs for more than kube-scheduler, a cluster's own for every kubelet. A client that
can reach /bind can place any pod, so the names that may are listed. What only reads is open to
every client that the authority has signed for, such as a probe or Prometheus.
"""

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from cachetools import LRUCache
from cryptography import x509
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.runtime.faults import FAULTS
from extender.server.connections import Connections
from extender.steps import PIECE

_log = structlog.get_logger(__name__)

OPEN_PATHS: Final = frozenset(("/livez", "/readyz", "/metrics", "/openapi.json"))
"""Paths that change nothing, for all clients of the authority."""


class NamedClients:
    """An ASGI application in front of another one: 403 for clients of other names."""

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)
        self._logged: LRUCache[str, bool] = LRUCache(100)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        names: frozenset[str] = scope["state"]["client_names"]
        if names & self._allowed:
            await self._app(scope, receive, send)
        else:
            await self._refuse(", ".join(sorted(names)) or "none", send)

    async def _refuse(self, names: str, send: Send) -> None:
        if names not in self._logged:
            self._logged[names] = True
            _log.warning("refused a client that is not in listen.tls.clientNames", names=names)
        text = f"the names of this client's certificate ({names}) are not in listen.tls.clientNames"
        body = text.encode() + b"\n"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),  # the rest of the request is not read
        ]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True)
class Files:
    """PEM files: the certificate and its key.

    With authorities, clients have to show a certificate that one of them signed.
    """

    certificate: Path
    key: Path
    client_authorities: Path | None = None


@dataclass(frozen=True, slots=True)
class _Loaded:
    contents: tuple[bytes, ...] = field(repr=False)
    context: ssl.SSLContext
    ends: Mapping[str, float]


class ServingTls:
    """The TLS side of a server whose files may be renewed while it serves."""

    def __init__(self, files: Files) -> None:
        """Read the files. Raises OSError, of which ssl.SSLError is one."""
        self._files = files
        self._problem = ""
        self._loaded = _load(files)
        # A listener keeps its context, and a context keeps all authorities that it ever loaded. So
        # each handshake continues with the newest context.
        self.context = _context(files)
        self.context.sni_callback = self._hand_over

    @property
    def ends(self) -> Mapping[str, float]:
        """Return when `serving`, and the last `client-ca` if any, expire in seconds since 1970."""
        return self._loaded.ends

    def look(self) -> bool:
        """Read the files again; return whether they changed and are served from now on.

        Files that do not fit together, as in the middle of a renewal, are left for the next look.
        """
        try:
            if _contents(self._files) == self._loaded.contents:
                self._problem = ""
                return False
            loaded = _load(self._files)
            if _contents(self._files) != loaded.contents:
                return False  # changed while they were read
            self._loaded = loaded
        except OSError as error:
            if str(error) != self._problem:
                _log.warning("serving with the former certificate", error=str(error))
            self._problem = str(error)
            return False
        self._problem = ""
        _log.info("serving with renewed certificates", **self.ends)
        return True

    async def keep_fresh(self, every: float, renewed: Callable[[], None]) -> None:
        """Read the files each `every` seconds; call `renewed` when they changed."""
        while True:
            await asyncio.sleep(every)
            try:
                if self.look():
                    renewed()
            except Exception as error:  # noqa: BLE001 - the certificate that is served goes on
                FAULTS.report("tls", error)

    def _hand_over(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> None:
        connection.context = self._loaded.context


def _load(files: Files) -> _Loaded:
    contents = _contents(files)  # first: what changes while it is loaded is news to the next look
    context = _context(files)
    certificate, _, *authorities = contents
    try:
        ends = {"serving": _ends(certificate)[0]}  # the chain behind it is not ours to renew
        if authorities:
            ends["client-ca"] = max(_ends(authorities[0]))
    except ValueError as error:
        raise ssl.SSLError(f"no PEM certificate: {error}") from error
    return _Loaded(contents, context, ends)


def _contents(files: Files) -> tuple[bytes, ...]:
    paths = (files.certificate, files.key, files.client_authorities)
    return tuple(path.read_bytes() for path in paths if path is not None)


def _ends(pem: bytes) -> list[float]:
    found = x509.load_pem_x509_certificates(pem)
    return [certificate.not_valid_after_utc.timestamp() for certificate in found]


def _context(files: Files) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.client_authorities)
    if files.client_authorities is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # A session that is resumed is not verified again, although its authority may be gone.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
    context.load_cert_chain(files.certificate, files.key)
    return context


# --- handshakes ------------------------------------------------------------------------------
#
# asyncio's own server passes a connection to its protocol only after the handshake. Until then each
# connection holds a file descriptor, uncounted, until its time-out. `TlsListener` has a limit. One
# more connection cuts off the oldest of the address with the most: an ordinary client finishes
# within milliseconds, so it is never the oldest among those that hang.

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.1
"""The pause after a connection for which the process or the machine has no resources."""


@dataclass(eq=False, slots=True)
class _Handshake:
    socket: socket.socket
    peer: str
    reason: str = field(default="", init=False)
    """The reason for which it was cut off, if it was."""


class Handshakes:
    """The connections of one listener that have not finished their handshake, oldest first."""

    def __init__(self, most: int, cut: Callable[[str], None]) -> None:
        """Allow `most` connections; `cut` counts by reason those that are cut off."""
        self._most = most
        self._count = cut
        self._all: dict[_Handshake, None] = {}
        self._by_peer: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, connection: socket.socket, peer: str) -> _Handshake:
        """Add a connection; where there is one too many, another one makes way."""
        if len(self._all) >= self._most:
            self.make_way()
        begun = _Handshake(connection, peer)
        self._all[begun] = None
        self._by_peer[peer] += 1
        return begun

    def make_way(self) -> None:
        """Cut off the oldest one of the address that has the most."""
        if self._all:
            [(peer, _)] = self._by_peer.most_common(1)
            self.cut(next(each for each in self._all if each.peer == peer), "TooManyHandshakes")

    def cut(self, one: _Handshake, reason: str) -> None:
        """Cut one off: its handshake fails at once, and its descriptor is free."""
        one.reason = reason
        self._count(reason)
        self.end(one)
        with suppress(OSError):  # it is closed already
            one.socket.shutdown(socket.SHUT_RDWR)

    def end(self, one: _Handshake) -> None:
        """Remove one that ended, however it ended."""
        if one in self._all:
            del self._all[one]
            self._by_peer[one.peer] -= 1
            if not self._by_peer[one.peer]:
                del self._by_peer[one.peer]

    def cut_all(self, reason: str) -> None:
        """Cut all of them off."""
        for each in list(self._all):
            self.cut(each, reason)


class TlsListener:
    """Listens, and passes connections that have finished their handshake to a protocol.

    It has the methods that uvicorn calls on a server: `close` and `wait_closed`.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        *,
        context: ssl.SSLContext,
        connections: Connections,
    ) -> None:
        """Own these listening sockets from now on."""
        self.sockets = tuple(sockets)
        self._protocol = protocol
        self._context = context
        self._limits = connections.limits
        self._connections = connections
        self._handshakes = Handshakes(self._limits.handshakes, connections.count)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._listening = True
        for each in self.sockets:
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accept no more connections, and cut off those in their handshake."""
        if not self._listening:
            return
        self._listening = False
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()
        self._handshakes.cut_all("ServerStopped")

    async def wait_closed(self) -> None:
        """Return when no handshake is under way any more."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(PIECE):  # then other tasks run
            try:
                connection, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.warning("cannot accept a connection", error=str(error))
                self._handshakes.make_way()
                self._pause(listener)
                return
            connection.settimeout(0)
            begun = self._handshakes.begin(connection, address[0])
            self._connections.count_handshakes(+1)
            task = self._loop.create_task(self._shake(begun))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _pause(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)

        def again() -> None:
            if self._listening:
                self._loop.add_reader(listener, self._accept, listener)

        self._loop.call_later(_PAUSE_SECONDS, again)

    async def _shake(self, begun: _Handshake) -> None:
        seconds = self._limits.handshake_seconds
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, begun.socket, ssl=self._context, ssl_handshake_timeout=seconds
            )
        except (OSError, EOFError) as error:  # ssl.SSLError is an OSError
            if not begun.reason:
                slow = isinstance(error, ConnectionAbortedError)  # asyncio's time-out
                self._connections.count("SlowHandshake" if slow else "FailedHandshake")
        except Exception as error:  # noqa: BLE001 - it is one client's, the others go on
            FAULTS.report("handshake", error)
        finally:
            self._handshakes.end(begun)
            self._connections.count_handshakes(-1)


async def listening(host: str, port: int, *, backlog: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host, as asyncio's server opens them.

    Raises OSError where one of them cannot be opened.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[socket.socket] = []
    with ExitStack() as closing:
        for family, *_, address in dict.fromkeys(found):
            with _known_family():
                one = socket.create_server(address, family=family, backlog=backlog)
                one.settimeout(0)
                made.append(closing.enter_context(one))
        closing.pop_all()
    if not made:
        raise OSError(f"{host} has no address of a family that this machine supports")
    return made


@contextmanager
def _known_family() -> Iterator[None]:
    """Ignore that the kernel has no such address family."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT:
            raise
