"""The process of `gang-extender page`."""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from fastapi import FastAPI
from nicegui import Client, ui
from nicegui import app as pages
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.server import ServerState

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.reviews import Reviews
from extender.runtime.clock import SystemClock
from extender.server.access import Guard
from extender.server.connections import Connection, Connections
from extender.server.tls import Files, ServingTls
from extender.wiring.process import FEW, Server, http_config
from gang_tools.page.access import Door
from gang_tools.page.asking import Asking
from gang_tools.page.following import FollowedCluster
from gang_tools.page.looks import STATIC
from gang_tools.page.pages import add_pages
from gang_tools.page.prometheus import recall
from gang_tools.page.showing import Showing

_log = structlog.get_logger(__name__)

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""The only names, beside its own, that a page on loopback answers to: a site on the internet may
give its own name this address, and would read the page in a browser here."""
_LOOK_SECONDS: Final = 10.0
"""The interval between checks for a renewed certificate and for pages without a browser."""


async def serve(
    settings: Settings,
    kubeconfig: Path | None,
    address: tuple[str, int],
    *,
    files: tuple[Path, Path] | None,
    authenticate: bool,
    prometheus: tuple[str, Path | None] | None,
) -> None:
    """Serve the page until SIGTERM or SIGINT.

    `files` are a certificate and its key. With `authenticate` people need a token. `prometheus` is
    its address and the file of a token. Raises SettingsError, ConfigurationError and OSError.
    """
    host, port = address
    tls = ServingTls(Files(*files)) if files is not None else None
    clock = SystemClock()
    async with KubeClient(await keyring(kubeconfig)) as client:
        followed = FollowedCluster(settings, client, clock)
        showing, answers = Showing(followed, clock), Asking(followed, clock)
        app = FastAPI(openapi_url=None)
        _add_probes(app, followed)
        ui.run_with(
            app,
            title="gang-extender",
            favicon=STATIC / "favicon.svg",
            dark=None,
            tailwind=False,
            show_welcome_message=False,
            message_history_length=20,  # each may be large, and each viewer has some
            reconnect_timeout=10,  # a pong may take 0.4 of it; NiceGUI has 2 seconds
        )
        pages.config.socket_io_js_transports = ["websocket"]  # the door lets no other in
        add_pages(showing, followed, answers)

        def there() -> chain[str] | None:
            queues, groups = followed.queues, followed.cluster.pod_groups
            shown = chain(queues.local_queues, queues.workloads, groups)
            return shown if followed.watches.synced else None

        served: ASGIApp = Door(
            app, Guard(Reviews(client)) if authenticate else None, there, clock=clock
        )
        if not authenticate:
            served = TrustedHostMiddleware(served, [*_LOCAL, _in_url(host)])
        config = http_config(served, host=host, port=port)
        config.ws, config.lifespan = "websockets-sansio", "on"
        config.timeout_graceful_shutdown = 2
        async with asyncio.TaskGroup() as tasks:
            url = f"{'https' if tls else 'http'}://{_in_url(host)}:{port}/"
            server = Server(config, _PageConnections(FEW), context=tls.context if tls else None)
            works = [followed.run(), showing.run(), _drop_unconnected(), _say_where(server, url)]
            works.append(_keep_collections_short(followed))
            works.append(answers.keep_estimating(partial(showing.is_watched, "queues", "workload")))
            if tls is not None:
                works.append(tls.keep_fresh(_LOOK_SECONDS, lambda: None))
            if prometheus is not None:
                works.append(recall(*prometheus, followed))
            running = [tasks.create_task(each) for each in works]
            await server.serve()
            for each in running:
                each.cancel()


async def _say_where(server: Server, url: str) -> None:
    await server.listening.wait()
    _log.info("serving the page", url=url)


async def _keep_collections_short(followed: FollowedCluster) -> None:
    """Exclude what there is from garbage collections, but once an hour: windows are cycles."""
    await followed.watches.wait()
    while True:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        await asyncio.sleep(3600)


async def _drop_unconnected() -> None:
    """Drop pages that no browser has connected to, sooner than NiceGUI does."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        Client.prune_instances(client_age_threshold=2 * _LOOK_SECONDS)


class _PageConnections(Connections):
    @override
    def protocol(self, config: uvicorn.Config, state: ServerState) -> Callable[[], Connection]:
        return lambda: _PageConnection(self, config=config, server_state=state, app_state={})


class _PageConnection(Connection):
    """A connection that may become a websocket, which has no deadlines and is not counted."""

    @override
    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self._stop_timers()
        self._connections.gone(self)

    @override
    def _look(self) -> None:
        if self.transport.get_protocol() is self:
            super()._look()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _add_probes(app: FastAPI, followed: FollowedCluster) -> None:
    async def ready() -> PlainTextResponse:
        """Say whether everything has been listed once."""
        missing = [kind for kind, why in followed.watches.checks().items() if why]
        text = f"not listed yet, or stale: {', '.join(missing)}" if missing else "ok"
        return PlainTextResponse(text, 503 if missing else 200)

    app.add_api_route("/livez", lambda: PlainTextResponse("ok"))
    app.add_api_route("/readyz", ready)
