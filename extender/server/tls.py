"""TLS with clients that show a certificate, which may be renewed while the process runs.

An authority signs for more than kube-scheduler, a cluster's own for every kubelet. A client that
can reach /bind can place any pod, so the names that may are listed. What only reads is open to
every client that the authority has signed for, such as a probe or Prometheus.
"""

import asyncio
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog
from cachetools import LRUCache
from cryptography import x509
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.runtime.faults import FAULTS

_log = structlog.get_logger(__name__)

OPEN_PATHS: Final = frozenset(("/livez", "/readyz", "/metrics", "/openapi.json"))
"""Paths that change nothing, for all clients of the authority."""
_SAN: Final = frozenset(("DNS", "URI"))


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
