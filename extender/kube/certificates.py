"""Where the certificate of the webhooks is kept, and where the API server is told whom to trust."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from extender.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from extender.kube.errors import ApiError, NotFoundError

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_MANAGER: Final = "fieldManager=gang-extender-reconciler"
_AUTHORITIES: Final = "ca.crt"
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
CONVERT: Final = "/convert"

_T = TypeVar("_T")

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Kept:
    """What a Secret holds; parts that are missing are empty."""

    authorities: bytes
    certificate: bytes
    key: bytes
    version: str = ""
    """The resourceVersion that it was read at."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
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
        """Make the Secret; ConflictError where somebody was quicker."""
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
    # msgspec writes bytes as base64, which is what a Secret wants.
    return {_AUTHORITIES: kept.authorities, _CERTIFICATE: kept.certificate, _KEY: kept.key}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the API server finds the webhooks: a Service, or a URL instead."""

    namespace: str
    service: str
    url: str | None = None
    """Without a path."""
    port: int = 443

    def client_config(self, path: str, authorities: bytes) -> dict[str, Any]:
        """Return the whole clientConfig as a patch."""
        if self.url is not None:
            return {"url": self.url + path, "service": None, "caBundle": authorities}
        service = {
            "namespace": self.namespace, "name": self.service, "path": path, "port": self.port
        }  # fmt: skip
        return {"url": None, "service": service, "caBundle": authorities}


class _Service(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443


class _ClientConfig(msgspec.Struct, frozen=True, rename={"ca_bundle": "caBundle"}):
    url: str | None = None
    service: _Service | None = None
    ca_bundle: bytes = b""

    @property
    def path(self) -> str:
        if self.service is not None:
            return self.service.path
        return urlsplit(self.url or "").path


_NO_CONFIG: Final = _ClientConfig()


class _ConversionWebhook(msgspec.Struct, frozen=True, rename="camel"):
    client_config: _ClientConfig = _NO_CONFIG


class _Conversion(msgspec.Struct, frozen=True):
    strategy: str = "None"
    webhook: _ConversionWebhook | None = None


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = False


class _CrdSpec(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()
    conversion: _Conversion = _Conversion()


class _Crd(msgspec.Struct, frozen=True):
    spec: _CrdSpec = _CrdSpec()


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    client_config: _ClientConfig = _NO_CONFIG


class _Configuration(msgspec.Struct, frozen=True):
    webhooks: tuple[_Webhook, ...] = ()


class WebhookClients:
    """Whatever makes the API server call us: CRDs of several versions, and configurations."""

    def __init__(
        self, client: KubeClient, address: Address, *, crds: Sequence[str], configuration: str
    ) -> None:
        self._client = client
        self._address = address
        self._crds = crds
        self._configuration = configuration

    async def tell(self, authorities: bytes) -> bool:
        """Say whom to trust, and where; return whether anybody did not know it yet.

        What is not there is passed over. Raises ApiError.
        """
        told = [await self._tell_crd(name, authorities) for name in self._crds]
        told += [await self._tell_configuration(kind, authorities) for kind in _KINDS]
        return any(told)

    async def _tell_crd(self, name: str, authorities: bytes) -> bool:
        path = f"{_CRDS}/{name}"
        found = await self._get(path, _Crd)
        if found is None:
            return False
        changes = _conversion(found.spec, self._address.client_config(CONVERT, authorities))
        if changes:
            await self._patch(path, changes, content_type=JSON_PATCH)
        return bool(changes)

    async def _tell_configuration(self, kind: str, authorities: bytes) -> bool:
        path = f"{_CONFIGURATIONS}/{kind}/{self._configuration}"
        found = await self._get(path, _Configuration)
        changes = []
        for webhook in found.webhooks if found else ():
            wanted = self._address.client_config(webhook.client_config.path, authorities)
            if not _agrees(webhook.client_config, wanted):
                changes.append({"name": webhook.name, "clientConfig": wanted})
        if changes:
            await self._patch(path, {"webhooks": changes}, content_type=STRATEGIC_PATCH)
        return bool(changes)

    async def _get(self, path: str, kind: type[_T]) -> _T | None:
        try:
            answer = await self._client.request("GET", path)
        except NotFoundError:
            return None
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise ApiError(f"GET {path}: not readable: {error}") from error

    async def _patch(self, path: str, change: object, *, content_type: str) -> None:
        body = _encode(change)
        await self._client.request(
            "PATCH", f"{path}?{_MANAGER}", body=body, content_type=content_type
        )


def _conversion(spec: _CrdSpec, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is to be changed so that all versions are served, and we convert."""
    webhook = spec.conversion.webhook
    changes: list[dict[str, Any]] = []
    if webhook is None or not _agrees(webhook.client_config, wanted):
        known = {name: value for name, value in wanted.items() if value is not None}
        conversion = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": known, "conversionReviewVersions": ["v1"]},
        }
        changes.append({"op": "add", "path": "/spec/conversion", "value": conversion})
    for number, version in enumerate(spec.versions):
        if not version.served:
            where = f"/spec/versions/{number}"
            changes.append({"op": "test", "path": f"{where}/name", "value": version.name})
            changes.append({"op": "replace", "path": f"{where}/served", "value": True})
    return changes


def _agrees(found: _ClientConfig, wanted: Mapping[str, Any]) -> bool:
    return found == msgspec.convert(wanted, _ClientConfig)
