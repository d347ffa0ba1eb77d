"""Reads single facts, many at a time: from the API server, and from an extender over HTTP."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Awaitable, Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from extender.check.facts import ExtenderFacts
from extender.check.findings import Unknown
from extender.kube.client import KubeClient
from extender.kube.errors import ApiError, NotFoundError

EXTENDER_SECONDS: Final = 10.0
"""The time that an extender has for an answer."""

T = TypeVar("T")


class ApiReader:
    """Requests to the API server whose answers are JSON; all raise ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return what is at a path."""
        return msgspec.json.decode(await self._client.request("GET", path))

    async def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects at a path, none where the API server does not know the kind."""
        try:
            found: list[dict[str, Any]] = (await self.get(path))["items"]
        except NotFoundError:
            return []
        return found

    async def post(self, path: str, body: object) -> None:
        """Create something."""
        await self._client.request("POST", path, body=msgspec.json.encode(body))

    async def delete(self, path: str) -> None:
        """Delete something."""
        await self._client.request("DELETE", path)


async def known(asked: Awaitable[T]) -> T | Unknown:
    """Return a fact, or why it could not be had."""
    try:
        return await asked
    except (ApiError, msgspec.MsgspecError, LookupError, ValueError, OSError) as error:
        return Unknown(str(error) or type(error).__name__)


async def together(asked: Iterable[Awaitable[T]]) -> list[T]:
    """Return what each returns, or raise what the first one raises, when all have ended.

    None is cancelled: a request that is cancelled may leave its connection open.
    """

    async def outcome(each: Awaitable[T]) -> T | Exception:
        try:
            return await each
        except Exception as error:  # noqa: BLE001 - raised below
            return error

    async with asyncio.TaskGroup() as tasks:
        ended = [tasks.create_task(outcome(each)) for each in asked]
    found = []
    for task in ended:
        result = task.result()
        if isinstance(result, Exception):
            raise result
        found.append(result)
    return found


async def ask_extender(url: str, tls: Mapping[str, str]) -> ExtenderFacts:
    """Return the health and metrics at a URL; `tls` is the tlsConfig of kube-scheduler's entry."""
    ready = await known(asyncio.to_thread(_get, url, "/readyz", tls))
    if isinstance(ready, Unknown):
        return ExtenderFacts(url, ready)
    return ExtenderFacts(url, ready, await known(_samples(url, tls)))


async def _samples(url: str, tls: Mapping[str, str]) -> list[Sample]:
    status, page = await asyncio.to_thread(_get, url, "/metrics", tls)
    if status != 200:
        raise ValueError(f"status {status}")
    families = text_string_to_metric_families(page)
    return [sample for family in families for sample in family.samples]


def _get(url: str, path: str, tls: Mapping[str, str]) -> tuple[int, str]:
    """Return the status and the text of an answer. Raises OSError and ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url} is no URL such as http://127.0.0.1:8888")
    host, port = parts.hostname, parts.port or 8888
    connection = HTTPConnection(host, port, timeout=EXTENDER_SECONDS)
    if parts.scheme == "https":
        context = _context(tls)
        connection = HTTPSConnection(host, port, timeout=EXTENDER_SECONDS, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except HTTPException as error:
        raise ValueError(f"it speaks no HTTP: {error!r}") from error
    finally:
        connection.close()


def _context(tls: Mapping[str, str]) -> ssl.SSLContext:
    authorities = b64decode(tls.get("caData", "")).decode()
    context = ssl.create_default_context(cafile=tls.get("caFile"), cadata=authorities or None)
    certificate, key = tls.get("certFile"), tls.get("keyFile")
    if certificate and key and Path(certificate).exists():
        context.load_cert_chain(certificate, key)
    # The certificate may have another name than the address: kube-scheduler verifies that.
    context.check_hostname = not tls.get("serverName")
    return context
