"""One pooled connection to the API server, in raw bytes.

The `kubernetes` package finds the server and keeps the credentials fresh; its typed models are left
out, because decoding one pod to a model costs eight times what parsing its JSON does.
"""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import (
    ConfigException,
    load_incluster_config,
    load_kube_config,
)

from extender.kube.errors import ApiError, ConfigurationError, UnavailableError, from_response

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_CONNECT_SECONDS: Final = 5.0
_READ_BUFFER: Final = 2**21


class KubeClient:
    """Requests to one API server. Use as an async context manager."""

    def __init__(
        self, configuration: Configuration, *, connections: int = 64, timeout: float = 30.0
    ) -> None:
        self._configuration = configuration
        self._host: str = configuration.host.rstrip("/")
        self._tls: ssl.SSLContext = RESTClientObject(configuration).ssl_context
        self._server_name: str | None = configuration.tls_server_name
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None

    @property
    def host(self) -> str:
        """The server's URL."""
        return self._host

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=self._tls)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            read_bufsize=_READ_BUFFER,
            proxy=self._configuration.proxy or None,
            # Not trust_env: it looks for a netrc file before every single request.
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        """Return the body of a 2xx answer; raises ApiError for anything else."""
        doing = f"{method} {path.partition('?')[0]}"
        try:
            async with self._open().request(
                method,
                self._host + path,
                data=body,
                headers=await self._headers(content_type),
                server_hostname=self._server_name,
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(doing, error) from error
        if response.status >= 300:
            raise from_response(response.status, answer, doing=doing)
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the chunks of a long GET; too long a silence raises UnavailableError."""
        doing = f"GET {path.partition('?')[0]}"
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds
        )
        try:
            async with self._open().get(
                self._host + path,
                headers=await self._headers(JSON),
                timeout=timeout,
                server_hostname=self._server_name,
            ) as response:
                if response.status >= 300:
                    raise from_response(response.status, await response.read(), doing=doing)
                yield response.content.iter_any()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(doing, error) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("KubeClient is used outside of its `async with`")
        return self._session

    async def _headers(self, content_type: str) -> Mapping[str, str]:
        headers = {"Content-Type": content_type, "User-Agent": "gang-extender"}
        try:
            token = await self._configuration.get_api_key_with_prefix(
                "BearerToken", "authorization"
            )
        except (ConfigException, OSError, ValueError) as error:
            raise UnavailableError(f"no fresh token: {error}") from error
        if token:
            headers["Authorization"] = token
        return headers


def _unreachable(doing: str, error: Exception) -> ApiError:
    what = str(error) or type(error).__name__
    return UnavailableError(f"{doing}: {what}")


async def load_configuration(kubeconfig: Path | None) -> Configuration:
    """Return how to reach the API server: the named file, else in-cluster, else `$KUBECONFIG`.

    Raises ConfigurationError where none of them works.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(configuration)
        else:
            path = str(kubeconfig) if kubeconfig else None
            await load_kube_config(config_file=path, client_configuration=configuration)
    except (ConfigException, OSError, ValueError) as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise ConfigurationError(f"cannot use the kubeconfig {where}: {error}") from error
    return configuration
