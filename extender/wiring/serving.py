"""The certificate with which the reconciler serves health, metrics and lists."""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final

import structlog

from extender.config import Certificate, Reconcile, SettingsError
from extender.runtime.clock import SystemClock
from extender.webhooks.certificates import issue
from extender.wiring.webhooks import WebhookServer, load

_log = structlog.get_logger(__name__)

READ_AGAIN_SECONDS: Final = 60.0
_DAYS: Final = 3650.0
"""The days of a certificate that lasts as long as the process; no client trusts it."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The way in which a port is served; without a context it is plain text."""

    context: ssl.SSLContext | None = None
    files: Certificate | None = None

    async def run(self) -> None:
        """Load the files again from time to time, until cancelled: they may be renewed."""
        while self.context is not None and self.files is not None:
            await asyncio.sleep(READ_AGAIN_SECONDS)
            try:
                self.context.load_cert_chain(self.files.cert_file, self.files.key_file)
            except (OSError, ssl.SSLError) as error:
                _log.warning("reconcile.tls: the former certificate is served", error=str(error))


def serving(chosen: Reconcile, webhooks: WebhookServer | None) -> Serving:
    """Return how health, metrics and lists are served.

    Another address than loopback is always served with TLS. Raises SettingsError where a
    certificate cannot be read.
    """
    if chosen.tls is not None:
        context = _context()
        try:
            context.load_cert_chain(chosen.tls.cert_file, chosen.tls.key_file)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"reconcile.tls: {chosen.tls.cert_file}: {error}") from error
        return Serving(context, chosen.tls)
    if chosen.is_local:
        return Serving()
    # The webhooks get their certificate from the API server. Until then their port has this one, so
    # that a kubelet finds the process alive whatever the API server does.
    context = _context() if webhooks is None else webhooks.tls
    load(context, issue((chosen.host,), now=SystemClock().wall(), days=_DAYS))
    if webhooks is None:
        _log.warning(
            "callers cannot check the certificate of health, metrics and what waits; "
            "reconcile.tls gives one that they can"
        )
    return Serving(context)


def _context() -> ssl.SSLContext:
    return ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
