"""How both processes serve HTTP."""

import asyncio
import ssl
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from typing_extensions import override

from extender.config import Tls

BACKLOG: Final = 4096
"""A gang's bind requests come all at once, each on a connection of its own."""
GRACE_SECONDS: Final = 5


class Server(uvicorn.Server):
    """Calls `on_exit` on a signal, before it waits for open connections to end."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to stop."""
        self._loop.call_soon_threadsafe(self._on_exit)
        # Not super's: that raises the signal once more at the end, and the exit code is not 0.
        self.force_exit = self.should_exit
        self.should_exit = True


def config(
    app: FastAPI,
    *,
    host: str,
    port: int,
    keep_alive: int,
    tls: Tls | None = None,
    context: ssl.SSLContext | None = None,
) -> uvicorn.Config:
    """Return how to serve an application; `keep_alive` in seconds.

    With `tls` clients show a certificate; a `context` is taken as it is.
    """
    certificates: dict[str, Any] = {}
    if tls is not None:
        certificates = {
            "ssl_certfile": tls.cert_file,
            "ssl_keyfile": tls.key_file,
            "ssl_ca_certs": str(tls.client_ca_file),
            "ssl_cert_reqs": ssl.CERT_REQUIRED,
        }
    if context is not None:
        certificates = {"ssl_context_factory": lambda _config, _default: context}
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="none",  # we are inside one already
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
        **certificates,
    )
