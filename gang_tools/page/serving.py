"""The process of `gang-extender page`."""

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog
import uvicorn
from fastapi import FastAPI
from nicegui import ui
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp
from typing_extensions import override

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.reviews import Reviews
from extender.runtime.clock import SystemClock
from extender.server.access import Guard
from gang_tools.page.access import STATIC, Door
from gang_tools.page.asking import Asking
from gang_tools.page.following import FollowedCluster
from gang_tools.page.pages import add_pages
from gang_tools.page.showing import Showing

_log = structlog.get_logger(__name__)

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""The only names, beside its own, that a page on loopback answers to: a site on the internet may
give its own name this address, and would read the page in a browser here."""


async def serve(
    settings: Settings, kubeconfig: Path | None, listen: Mapping[str, Any], *, authenticate: bool
) -> None:
    """Serve the page until SIGTERM or SIGINT; `listen` is for uvicorn: `host`, `port`, `ssl_*`.

    With `authenticate` people need a token. Raises SettingsError and ConfigurationError.
    """
    clock = SystemClock()
    async with KubeClient(await keyring(kubeconfig)) as client:
        followed = FollowedCluster(settings, client, clock)
        showing = Showing(followed, clock)
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
        )
        add_pages(showing, followed, Asking(followed, clock))
        served: ASGIApp = Door(
            app,
            Guard(Reviews(client)) if authenticate else None,
            lambda: followed.queues.namespaces if followed.watches.synced else None,
            clock=clock,
        )
        if not authenticate:
            served = TrustedHostMiddleware(served, [*_LOCAL, _in_url(listen["host"])])
        config = uvicorn.Config(
            served,
            loop="none",
            lifespan="on",
            ws="websockets-sansio",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            **listen,
        )
        async with asyncio.TaskGroup() as tasks:
            works = [tasks.create_task(followed.run()), tasks.create_task(showing.run())]
            await _PageServer(config).serve()
            for each in works:
                each.cancel()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _PageServer(uvicorn.Server):
    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        scheme = "https" if self.config.is_ssl else "http"
        url = f"{scheme}://{_in_url(self.config.host)}:{self.config.port}/"
        _log.info("the page is there", url=url)

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; the method of super raises the signal again, so that the exit code is not 0."""
        self.should_exit = True


def _add_probes(app: FastAPI, followed: FollowedCluster) -> None:
    async def ready() -> PlainTextResponse:
        """Say whether everything has been listed once."""
        missing = [kind for kind, why in followed.watches.checks().items() if why]
        text = f"not listed yet, or stale: {', '.join(missing)}" if missing else "ok"
        return PlainTextResponse(text, 503 if missing else 200)

    app.add_api_route("/livez", lambda: PlainTextResponse("ok"))
    app.add_api_route("/readyz", ready)
