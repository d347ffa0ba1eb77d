"""Asks an extender for its health and metrics, as a probe of the kubelet does."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from extender.check.facts import ExtenderFacts, MetricSample, Unknown
from extender.wiring.reading import known

_SECONDS: Final = 10.0
_PORT: Final = 8888


async def extender(url: str, tls: Mapping[str, str]) -> ExtenderFacts:
    """Return what the extender at a URL says; `tls` is the tlsConfig of kube-scheduler's entry."""
    ready = await known(asyncio.to_thread(_get, url, "/readyz", tls))
    if isinstance(ready, Unknown):
        return ExtenderFacts(url, ready)
    return ExtenderFacts(url, ready, await known(_samples(url, tls)))


async def _samples(url: str, tls: Mapping[str, str]) -> list[MetricSample]:
    status, page = await asyncio.to_thread(_get, url, "/metrics", tls)
    if status != 200:
        raise ValueError(f"status {status}")
    return [
        MetricSample(each.name, each.labels, each.value)
        for family in text_string_to_metric_families(page)
        for each in family.samples
    ]


def _get(url: str, path: str, tls: Mapping[str, str]) -> tuple[int, str]:
    """Return the status and the text of an answer. Raises OSError and ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url} is no URL such as http://127.0.0.1:{_PORT}")
    where = parts.hostname, parts.port or _PORT
    connection = _connection(where, None if parts.scheme == "http" else _context(tls))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except HTTPException as error:
        raise ValueError(f"it speaks no HTTP: {error!r}") from error
    finally:
        connection.close()


def _connection(where: tuple[str, int], context: ssl.SSLContext | None) -> HTTPConnection:
    host, port = where
    if context is None:
        return HTTPConnection(host, port, timeout=_SECONDS)
    return HTTPSConnection(host, port, timeout=_SECONDS, context=context)


def _context(tls: Mapping[str, str]) -> ssl.SSLContext:
    authorities = b64decode(tls.get("caData", "")).decode()
    context = ssl.create_default_context(cafile=tls.get("caFile"), cadata=authorities or None)
    certificate, key = tls.get("certFile"), tls.get("keyFile")
    if certificate and key and Path(certificate).exists():
        context.load_cert_chain(certificate, key)
    # The certificate may have another name than the address: kube-scheduler verifies that.
    context.check_hostname = not tls.get("serverName")
    return context
