"""The HTTP server of both processes."""

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, cast

import structlog
import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.config import STARTUP_FAILURE

from extender.server.connections import Connections, Limits, probe_clients
from extender.server.tls import TlsListener, listening

_log = structlog.get_logger(__name__)

BACKLOG: Final = 4096
"""The bind requests of a gang come at the same time, each on its own connection."""
KEEP_ALIVE_SECONDS: Final = 120
"""The seconds that an idle connection is kept: longer than the 90 of the API server."""
GRACE_SECONDS: Final = 5
"""Seconds for connections to close once every request is answered."""
FEW: Final = Limits(connections=400, handshakes=100)
"""The most connections of a server with few clients: a process may open 1024 files by default."""


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


def config(
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
        timeout_graceful_shutdown=GRACE_SECONDS,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
