"""HTTP sessions with an API server of the harness, for code on asyncio."""

import ssl
from pathlib import Path
from typing import Final

import aiohttp

from tests.harness import kubeconfig as kubeconfigs

_LONGEST_LINE: Final = 4 * 1024 * 1024
"""An event is one line, and an object has up to 1.5 MiB in etcd."""


def session(kubeconfig: Path, *, connections: int = 1) -> aiohttp.ClientSession:
    """Return an HTTP session with the API server of a kubeconfig of the harness."""
    config = kubeconfigs.read(kubeconfig)
    context = ssl.create_default_context(cafile=config.ca)
    if config.certificate:
        context.load_cert_chain(config.certificate.certificate, config.certificate.key)
    return aiohttp.ClientSession(
        config.server,
        headers={"Authorization": f"Bearer {config.token}"} if config.token else None,
        connector=aiohttp.TCPConnector(limit=connections, ssl=context),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=_LONGEST_LINE,
    )
