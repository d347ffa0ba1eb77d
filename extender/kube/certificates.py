"""The Secret that keeps the certificate of the webhooks."""

from dataclasses import dataclass
from typing import Final

import msgspec

from extender.api.core_v1 import Stored
from extender.kube.client import MERGE_PATCH, KubeClient
from extender.kube.errors import ApiError, NotFoundError

_MANAGER: Final = "fieldManager=gang-extender-reconciler"
_AUTHORITIES: Final = "ca.crt"
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Kept:
    """What a Secret holds; parts that are missing are empty."""

    authorities: bytes
    certificate: bytes
    key: bytes
    version: str = ""
    """The resourceVersion that it was read at."""


class _Secret(Stored, frozen=True):
    data: dict[str, bytes] | None = None


class CertificateSecret:
    """One Secret of the type kubernetes.io/tls; every method raises ApiError."""

    def __init__(self, client: KubeClient, *, namespace: str, name: str) -> None:
        self._client = client
        self._name = name
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"

    async def read(self) -> Kept | None:
        """Return what it holds, None where there is no such Secret."""
        try:
            answer = await self._client.request("GET", f"{self._collection}/{self._name}")
        except NotFoundError:
            return None
        try:
            found = msgspec.json.decode(answer, type=_Secret)
        except msgspec.MsgspecError as error:
            raise ApiError(f"not a readable Secret: {error}") from error
        data = found.data or {}
        return Kept(
            data.get(_AUTHORITIES, b""),
            data.get(_CERTIFICATE, b""),
            data.get(_KEY, b""),
            found.metadata.resource_version,
        )

    async def create(self, kept: Kept) -> None:
        """Make the Secret; ConflictError where another replica was quicker."""
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self._name,
                "labels": {"app.kubernetes.io/name": "gang-extender"},
            },
            "type": "kubernetes.io/tls",
            "data": _data(kept),
        }
        await self._client.request("POST", self._collection, body=_encode(body))

    async def replace(self, kept: Kept, *, version: str) -> None:
        """Write over what was read at a version; ConflictError where it has changed since."""
        body = {"metadata": {"resourceVersion": version}, "data": _data(kept)}
        path = f"{self._collection}/{self._name}?{_MANAGER}"
        await self._client.request("PATCH", path, body=_encode(body), content_type=MERGE_PATCH)


def _data(kept: Kept) -> dict[str, bytes]:
    # msgspec writes bytes as base64, as a Secret has them.
    return {_AUTHORITIES: kept.authorities, _CERTIFICATE: kept.certificate, _KEY: kept.key}
