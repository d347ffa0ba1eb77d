"""An HTTPS proxy in front of the API server that answers wrongly on purpose.

It ends TLS with a certificate of the control plane's own authority and passes bearer tokens on,
so it serves clients that have a token, or those whose certificate it is given. Which request gets
which fault is drawn from a seed. Watches of one kind can be made to lag or to stand still, and
requests of one kind can be held from a certain one on, so that a test has its moment.
"""

import asyncio
import logging
import random
import ssl
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from enum import Enum
from typing import Final, Self

import aiohttp
from aiohttp import web

from tests.harness.certificates import KeyPair
from tests.harness.control_plane import ControlPlane

_HOP_BY_HOP: Final = {"connection", "transfer-encoding", "content-length"}
_START_SECONDS: Final = 120.0
_LARGEST_BODY: Final = 16 * 2**20
_LONG_SECONDS: Final = 3600.0
"""A request hangs for so long while the proxy is blocked; `unblock` breaks its connection."""

_SILENT: Final = logging.getLogger("faulty-proxy")
_SILENT.setLevel(logging.CRITICAL + 1)
"""Connections that break are what this is for."""


class Fault(Enum):
    """What can go wrong with one request."""

    THROTTLED = "429"
    BROKEN = "500"
    HANG = "hang"
    LOST = "lost answer"
    CUT = "cut watch"
    EXPIRED = "410"


_OF_WATCHES: Final = frozenset((Fault.CUT, Fault.EXPIRED))


class Hold:
    """Requests for paths with one ending, of which the first ones pass and the others are held.

    With `answers` each of them is forwarded, and the answers are held. What was held goes on when
    it is let go, if its client is still there.
    """

    def __init__(self, ending: str, *, after: int, answers: bool) -> None:
        self.ending, self.after, self.answers = ending, after, answers
        self.passed = 0
        self.held = 0
        """How many have been held so far."""
        self.resumed = 0
        """How many of these went on."""
        self._open = asyncio.Event()

    async def wait(self, request: web.BaseRequest) -> None:
        """Return when a request or its answer may go on; ConnectionResetError without a client."""
        if self.passed < self.after or self._open.is_set():
            self.passed += 1
            return
        self.held += 1
        await self._open.wait()
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError
        self.resumed += 1

    def let_go(self) -> None:
        """Let all go on, from the event loop of the proxy."""
        self._open.set()


class FaultyProxy:
    """Forwards requests to the API server of a control plane. Use as a context manager.

    `chances` gives the probability of each fault for one request; CUT and EXPIRED happen to
    watches alone, the others to all other requests. A hang lasts `hang` seconds. With a certificate
    all requests are those of its user.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        seed: int,
        hang: float = 4.0,
        certificate: KeyPair | None = None,
    ) -> None:
        self._upstream = control_plane.url
        self._ca = str(control_plane.authority)
        self._serving = control_plane.serving
        self._random = random.Random(seed)
        self._hang = hang
        self._certificate = certificate
        self._lagging: tuple[str, float] | None = None
        self._still: tuple[str, float] | None = None
        """The path of watches that stand still, and since when by the loop's time."""
        self._moved = asyncio.Event()
        self.withheld = 0
        """How many events watches that stand still have not shown."""
        self._holding: Hold | None = None
        self._chances: Mapping[Fault, float] = {}
        self._losing, self._left = "", 0
        """The ending of paths whose next answers are lost, and how many."""
        self._blocked = False
        self._open: set[asyncio.Transport] = set()
        self._loop: asyncio.AbstractEventLoop
        self._started = threading.Event()
        self._stop: asyncio.Event = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.faults: Counter[Fault] = Counter()
        """How often each fault happened."""
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_SECONDS) or not self.port:
            raise RuntimeError("the proxy did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_SECONDS)

    def set_chances(self, chances: Mapping[Fault, float]) -> None:
        """Have each fault happen with that probability from now on."""
        self._chances = dict(chances)

    def lose(self, ending: str, count: int) -> None:
        """Lose the next so many answers to requests for paths with an ending, but for watches."""
        self._losing, self._left = ending, count

    def set_lag(self, path: str, seconds: float) -> None:
        """Have watches of a path be behind by so many seconds from now on, those under way too."""
        self._lagging = path, seconds

    def stand_still(self, path: str) -> None:
        """Have watches of a path show what has come until now and nothing more, until `move`.

        Called again, it has them show what has come since.
        """
        self._still = path, self._loop.time()
        self._loop.call_soon_threadsafe(self._look_again)

    def move(self) -> None:
        """Have watches that stand still show everything that they have missed, and go on."""
        self._still = None
        self._loop.call_soon_threadsafe(self._look_again)

    def _look_again(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def hold(self, ending: str, *, after: int = 0, answers: bool = False) -> Hold:
        """Hold requests for paths with an ending from now on, or their `answers`, until `let_go`.

        The first ones pass, as many as `after` says.
        """
        self._holding = Hold(ending, after=after, answers=answers)
        return self._holding

    def let_go(self) -> None:
        """Let what is held go on, and hold nothing more; what passes is still counted."""
        if self._holding is not None:
            self._loop.call_soon_threadsafe(self._holding.let_go)

    def block(self) -> None:
        """Break all connections, and let every new request hang, until `unblock`."""
        self._blocked = True
        self._loop.call_soon_threadsafe(self._break)

    def unblock(self) -> None:
        """Break the connections that hang, and forward again."""
        self._blocked = False
        self._loop.call_soon_threadsafe(self._break)

    def _break(self) -> None:
        for transport in list(self._open):
            _cut(transport)

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:  # ends what still hangs, too
                self._loop = runner.get_loop()
                runner.run(self._serve())
        finally:
            self._started.set()

    async def _serve(self) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(self._serving.certificate, self._serving.key)
        upstream = ssl.create_default_context(cafile=self._ca)
        if self._certificate is not None:
            upstream.load_cert_chain(self._certificate.certificate, self._certificate.key)
        connector = aiohttp.TCPConnector(ssl=upstream, limit=0, keepalive_timeout=15)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                return await self._handle(request, session)

            proxied = web.Server(handle, access_log=None, logger=_SILENT)
            runner = web.ServerRunner(proxied, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
            await site.start()
            self.port = runner.addresses[0][1]
            self._started.set()
            await self._stop.wait()
            self._break()
            await runner.cleanup()

    async def _handle(
        self, request: web.BaseRequest, session: aiohttp.ClientSession
    ) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        self._open.add(transport)
        try:
            return await self._answer(request, session)
        except (aiohttp.ClientError, OSError):
            return self._abort(request)  # as the API server has it, or the client
        finally:
            self._open.discard(transport)

    async def _answer(
        self, request: web.BaseRequest, session: aiohttp.ClientSession
    ) -> web.StreamResponse:
        watching = "watch" in request.query
        if self._left and not watching and request.path.endswith(self._losing):
            self._left -= 1
            self.faults[Fault.LOST] += 1
            return await self._forward(request, session, Fault.LOST)
        fault = self._draw(watching)
        if self._blocked or fault is Fault.HANG:
            await asyncio.sleep(self._hang if not self._blocked else _LONG_SECONDS)
            return self._abort(request)
        if fault is Fault.THROTTLED:
            return _status(429, "TooManyRequests", {"Retry-After": "1"})
        if fault is Fault.BROKEN:
            return _status(500, "InternalError", {})
        if fault is Fault.EXPIRED:
            return await _expired(request)
        return await self._forward(request, session, fault)

    async def _forward(
        self, request: web.BaseRequest, session: aiohttp.ClientSession, fault: Fault | None
    ) -> web.StreamResponse:
        body = await _body(request)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _HOP_BY_HOP | {"host"}
        }
        url = self._upstream + request.raw_path
        await self._held(request, answers=False)
        async with session.request(request.method, url, headers=headers, data=body) as answer:
            await self._held(request, answers=True)
            if fault is Fault.LOST:
                await answer.read()
                return self._abort(request)
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            seconds = self._random.uniform(0.2, 3.0) if fault is Fault.CUT else None
            chunks: AsyncIterator[bytes] = answer.content.iter_any()
            if "watch" in request.query:
                chunks = self._moving(chunks, request.path)
                chunks = lagging(chunks, lambda: self._lag_of(request.path))
            if await _copied(chunks, response, seconds):
                return response
        return self._abort(request)

    async def _held(self, request: web.BaseRequest, *, answers: bool) -> None:
        """Return when a request, or its answer, may go on."""
        holding = self._holding
        if holding and holding.answers is answers and request.path.endswith(holding.ending):
            await holding.wait(request)

    async def _moving(self, chunks: AsyncIterator[bytes], path: str) -> AsyncGenerator[bytes, None]:
        """Yield chunks; those that came while the watch stands still, when it moves."""

        def came(chunk: bytes | None) -> float:
            self.withheld += _events(chunk)
            return self._loop.time()

        async with aclosing(_at_once(chunks, came)) as coming:
            async for at, chunk in coming:
                while self._still is not None and self._still[0] == path and at > self._still[1]:
                    await self._moved.wait()
                self.withheld -= _events(chunk)
                if chunk is not None:
                    yield chunk

    def _lag_of(self, path: str) -> float:
        lagging = self._lagging
        if lagging is None or lagging[0] != path:
            return 0.0
        return lagging[1]

    def _abort(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.transport is not None:
            _cut(request.transport)
        return web.Response(status=500)

    def _draw(self, watching: bool) -> Fault | None:
        number = self._random.random()
        for fault, chance in self._chances.items():
            if (fault in _OF_WATCHES) is not watching:
                continue
            number -= chance
            if number < 0:
                self.faults[fault] += 1
                return fault
        return None


async def lagging(
    chunks: AsyncIterator[bytes], lag: Callable[[], float]
) -> AsyncGenerator[bytes, None]:
    """Yield each chunk so many seconds after it came, in their order; `lag` is asked when it came.

    What comes is read at once, so that the sender notices nothing. The end lags too.
    """
    loop = asyncio.get_running_loop()
    async with aclosing(_at_once(chunks, lambda _: loop.time() + lag())) as coming:
        async for due, chunk in coming:
            await asyncio.sleep(max(0.0, due - loop.time()))
            if chunk is not None:
                yield chunk


async def _at_once(
    chunks: AsyncIterator[bytes], came: Callable[[bytes | None], float]
) -> AsyncGenerator[tuple[float, bytes | None], None]:
    """Yield each chunk with what `came` returned when it came; None when the sender has ended.

    What is sent is read at once, however long the caller takes.
    """
    waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

    async def read() -> None:
        try:
            async for chunk in chunks:
                waiting.put_nowait((came(chunk), chunk))
        finally:
            waiting.put_nowait((came(None), None))

    reading = asyncio.get_running_loop().create_task(read())
    try:
        while True:
            found = await waiting.get()
            yield found
            if found[1] is None:
                await reading  # raises what ended it
                return
    finally:
        reading.cancel()


def _events(chunk: bytes | None) -> int:
    """Return how many events of a watch end in a chunk."""
    return chunk.count(b"\n") if chunk is not None else 0


async def _body(request: web.BaseRequest) -> bytes | None:
    if not request.can_read_body:
        return None
    body = b""
    while more := await request.content.read(_LARGEST_BODY):
        body += more
    return body


async def _copied(
    chunks: AsyncIterator[bytes], response: web.StreamResponse, seconds: float | None
) -> bool:
    """Return whether a whole answer was passed on within so many seconds; None is no limit."""
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
    except TimeoutError:
        return False
    return True


def _cut(transport: asyncio.WriteTransport) -> None:
    """Abort a transport; Python 3.11.2 fails where a TLS transport has been closed twice."""
    with suppress(AttributeError):
        transport.abort()


def _status(code: int, reason: str, headers: Mapping[str, str]) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": "a fault of the test"}  # fmt: skip
    return web.json_response(body, status=code, headers=headers)


async def _expired(request: web.BaseRequest) -> web.StreamResponse:
    """Answer a watch as the API server does when etcd has compacted what was asked for."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
        b'"reason":"Expired","code":410,"message":"a fault of the test"}}\n'
    )
    await response.write_eof()
    return response
