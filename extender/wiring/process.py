"""The parts that both processes have: the event loop, the watches, traces, and the HTTP server."""

import asyncio
import socket
import ssl
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager
from importlib.metadata import version
from types import FrameType
from typing import Any, Final, cast

import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.config import STARTUP_FAILURE

from extender.config.settings import Health, Listen, TraceSettings
from extender.kube.credentials import Keyring
from extender.kube.errors import ConfigurationError
from extender.kube.reflector import Reflector
from extender.runtime.clock import WINDOW_SECONDS, Clock, LoopLag, Pacer
from extender.runtime.faults import FAULTS
from extender.runtime.process import Garbage
from extender.server.connections import Connections, Limits, probe_clients
from extender.server.tls import TlsListener, listening
from extender.telemetry.metrics import ProcessMetrics, access, lags
from extender.telemetry.starts import AdmissionStarts, GangStarts

_log = structlog.get_logger(__name__)

BACKLOG: Final = 4096
"""The bind requests of a gang come at the same time, each on its own connection."""
KEEP_ALIVE_SECONDS: Final = Listen().keep_alive_seconds
"""The seconds that an idle connection is kept: longer than the 90 of the API server."""
FEW: Final = Limits(connections=400, handshakes=100)
"""The most connections of a server with few clients: a process may open 1024 files by default."""


class Loop:
    """The loop's pacer, garbage collection and lag, with the metrics of a process."""

    def __init__(self, clock: Clock, registry: CollectorRegistry, settings: Health) -> None:
        self.pacer = Pacer(clock)
        self.garbage = Garbage(clock)
        self.lag = LoopLag(clock, lags(registry, lambda: self.lag.longest))
        self._limit = settings.max_loop_lag_seconds

    async def beside(
        self, serve: Callable[[], Awaitable[None]], works: Sequence[Coroutine[Any, Any, None]]
    ) -> None:
        """Run `serve` and the works; cancel the works when `serve` returns."""
        asyncio.get_running_loop().set_exception_handler(report_unhandled)
        with self.garbage:
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(each) for each in works]
                await serve()
                for task in background:
                    task.cancel()

    def trouble(self) -> str:
        """Return the problem of the process as a whole, or nothing."""
        behind = self.lag.behind(self._limit) if self._limit else 0.0
        if behind < self._limit or not self._limit:
            return ""
        return (
            f"the event loop was late for {behind:.0f} of the last {WINDOW_SECONDS:.0f} seconds, "
            f"{self._limit:g} are too many (health.maxLoopLagSeconds)"
        )


def report_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count an error of a timer, or of a task that no code awaits, among the internal errors.

    A broken connection does not count.
    """
    error = context.get("exception")
    if isinstance(error, Exception) and not isinstance(error, OSError):
        FAULTS.report("event-loop", error, key=context.get("message", ""))
    else:
        loop.default_exception_handler(context)


class Watches:
    """All watches of a process; one is stale if nothing came for `stale_seconds`."""

    def __init__(self, reflectors: Iterable[Reflector[Any]], *, stale_seconds: float) -> None:
        self.reflectors = list(reflectors)
        self.needed = [each for each in self.reflectors if each.needed]
        """The watches that all decisions need; each of the others concerns only some pods."""
        self._limit = stale_seconds

    async def wait(self) -> None:
        """Return when every needed watch has been listed once."""
        for reflector in self.needed:
            await reflector.first_list.wait()

    @property
    def synced(self) -> bool:
        """True if every needed watch has been filled once."""
        return all(reflector.synced for reflector in self.needed)

    def checks(self) -> dict[str, str | None]:
        """Return the problem of each needed watch, or None, by kind."""
        return {each.kind: self._problem(each) for each in self.needed}

    def remarks(self) -> dict[str, str | None]:
        """Return the problem of each other watch, or None, by kind."""
        others = (each for each in self.reflectors if not each.needed)
        return {each.kind: self._problem(each) or each.forbidden or None for each in others}

    def states(self) -> dict[str, dict[str, object]]:
        """Return the age of each watch, in seconds, and its problem, by kind."""
        problems = {**self.checks(), **self.remarks()}
        return {
            each.kind: {"age": each.freshness.age, "problem": problems[each.kind]}
            for each in self.reflectors
        }

    def stale(self) -> str | None:
        """Return the first kind whose needed watch is stale."""
        stale = (each for each in self.needed if each.freshness.age > self._limit)
        return next((each.kind for each in stale), None)

    def unsure_of(self, kind: str) -> str | None:
        """Return a kind whose watch was never filled, or is stale; None for any other."""
        those = (each for each in self.reflectors if each.kind == kind)
        unsure = any(not each.synced or each.freshness.age > self._limit for each in those)
        return kind if unsure else None

    def metrics(self, keyring: Keyring) -> Iterator[Metric]:
        """Yield the metrics about watches and credentials."""
        ages = {each.kind: each.freshness.age for each in self.reflectors}
        return access(ages, keyring.current.ends, keyring.counts, refusals=keyring.refusals)

    def _problem(self, reflector: Reflector[Any]) -> str | None:
        freshness = reflector.freshness
        if reflector.synced:
            return freshness.stale(self._limit)
        trouble = f": {freshness.trouble}" if freshness.trouble else ""
        return f"not listed yet{trouble}"


@asynccontextmanager
async def tracing(
    chosen: TraceSettings,
    service: str,
    metrics: ProcessMetrics,
    *traced: GangStarts | AdmissionStarts,
) -> AsyncIterator[None]:
    """Send the traces of parts where that is asked for, and the last ones at the end.

    Raises ConfigurationError where traces are asked for and cannot be made.
    """
    if not chosen.enabled:
        yield
        return
    try:
        from extender.telemetry.otel import close, tracer_provider
    except ImportError as error:
        raise ConfigurationError(
            "telemetry.traces.enabled: the packages of OpenTelemetry are missing "
            f"({error.name or error}): pip install 'gang-extender[otel]'"
        ) from error
    try:
        provider = tracer_provider(
            service,
            version("gang-extender"),
            endpoint=chosen.endpoint,
            ratio=chosen.sample_ratio,
            count=lambda result, spans: metrics.spans.labels(result).inc(spans),
        )
    except (OSError, ValueError) as error:  # what the environment says
        raise ConfigurationError(
            f"telemetry.traces.enabled: OpenTelemetry cannot be set up: {error}"
        ) from error
    for each in traced:
        each.tracer = provider.get_tracer("gang-extender")
    try:
        yield
    finally:
        await asyncio.to_thread(close, provider)


class Server(uvicorn.Server):
    """Stops on a signal once no request is in hand, on a second signal at once.

    Until then it accepts connections, so that callers receive the reason why they are refused.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        *,
        context: ssl.SSLContext | None = None,
        on_exit: Callable[[], None] = lambda: None,
        unfinished: Callable[[], int] = lambda: 0,
        patience: float = 0.0,
    ) -> None:
        """Run `on_exit` on a signal, then give the `unfinished` requests `patience` seconds."""
        super().__init__(config)
        self._connections = connections
        self._context = context
        self._on_exit = on_exit
        self._unfinished = unfinished
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._until: float | None = None
        self.listening = asyncio.Event()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop soon."""
        # The method of super raises the signal again at the end, so that the exit code is not 0.
        self._loop.call_soon_threadsafe(self._stop)

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with a protocol and deadlines that uvicorn's own `startup` has no place for.

        Ends the process with SystemExit where the address cannot be bound, as uvicorn does.
        """
        await self.lifespan.startup()
        config = self.config
        server: asyncio.Server | TlsListener
        protocol = self._connections.protocol(config, self.server_state)
        try:
            if self._context is None:
                server = await self._loop.create_server(
                    protocol, host=config.host, port=config.port, backlog=config.backlog
                )
            else:
                sockets = await listening(config.host, config.port, backlog=config.backlog)
                server = TlsListener(
                    sockets, protocol, context=self._context, connections=self._connections
                )
        except OSError as error:
            _log.error("cannot listen", error=str(error))
            sys.exit(STARTUP_FAILURE)
        probe_clients(server.sockets)
        self.servers = [cast("asyncio.Server", server)]
        self.started = True
        self.listening.set()

    def _stop(self) -> None:
        if self._until is not None:
            self.force_exit = self.should_exit = True
            return
        self._until = self._loop.time() + self._patience
        self._on_exit()
        _log.info("stopping", unfinished=self._unfinished())

    @override
    async def on_tick(self, counter: int) -> bool:
        """Return whether to end now."""
        if await super().on_tick(counter):
            return True
        left = self._unfinished()
        if self._until is None or (left and self._loop.time() < self._until):
            return False
        if left:
            _log.warning("stopping although not all is finished", unfinished=left)
        return True


def http_config(
    app: ASGIApp, *, host: str, port: int, keep_alive: int = KEEP_ALIVE_SECONDS
) -> uvicorn.Config:
    """Return the configuration that serves an application; `keep_alive` is in seconds."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="none",  # we are inside one already
        interface="asgi3",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        backlog=BACKLOG,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=5,  # for connections to close once every request is answered
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
