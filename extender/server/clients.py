"""Which clients may ask for what: by the names in the certificate that a connection showed.

An authority signs for more than kube-scheduler, a cluster's own for every kubelet. A client that
can reach /bind can place any pod, so the names that may are listed. What only reads is open to
every client that the authority has signed for, such as a probe or Prometheus.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import structlog
from cachetools import LRUCache
from starlette.types import ASGIApp, Receive, Scope, Send

_log = structlog.get_logger(__name__)

OPEN_PATHS: Final = frozenset(("/livez", "/readyz", "/metrics", "/openapi.json"))
"""Paths that change nothing, for all clients of the authority."""
_SAN: Final = frozenset(("DNS", "URI"))
_REMEMBERED: Final = 100


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the common names, and the DNS names and URIs, of a certificate of `getpeercert`."""
    return frozenset(_names(certificate or {}))


def _names(certificate: Mapping[str, Any]) -> Iterable[str]:
    for part in certificate.get("subject", ()):
        yield from (value for kind, value in part if kind == "commonName")
    yield from (value for kind, value in certificate.get("subjectAltName", ()) if kind in _SAN)


class NamedClients:
    """An ASGI application in front of another one: 403 for clients of other names."""

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)
        self._logged: LRUCache[str, bool] = LRUCache(_REMEMBERED)

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
