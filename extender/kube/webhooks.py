"""The objects that make the API server call the webhooks, and the Secret with their certificate.

The API server calls them for the conversion of CRDs and for webhook configurations.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import structlog

from extender.api.core_v1 import Stored
from extender.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_MANAGER: Final = "fieldManager=gang-extender-reconciler"
CONVERT: Final = "/convert"
OLDER_VERSIONS: Final = "scheduling.x-k8s.io/older-versions"
"""Annotation of a CRD. Where it stands, with any value, `served` is the administrator's alone."""
_AUTHORITIES: Final = "ca.crt"
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Address:
    """The place where the API server finds the webhooks: two Services, or one URL instead."""

    namespace: str
    admission: str
    """The Service of the webhooks for jobs: replicas that are ready."""
    conversion: str
    """The Service of the conversion webhook: all replicas."""
    url: str | None = None
    """The URL without a path."""
    port: int = 443

    def client_config(self, path: str, authorities: bytes) -> dict[str, Any]:
        """Return the whole clientConfig as a patch."""
        if self.url is not None:
            return {"url": self.url + path, "service": None, "caBundle": authorities}
        name = self.conversion if path == CONVERT else self.admission
        service = {"namespace": self.namespace, "name": name, "path": path, "port": self.port}
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
    storage: bool = False


class _CrdSpec(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()
    conversion: _Conversion = _Conversion()


class _CrdMeta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _CrdStatus(msgspec.Struct, frozen=True, rename="camel"):
    stored_versions: tuple[str, ...] = ()


class _Crd(msgspec.Struct, frozen=True):
    spec: _CrdSpec = _CrdSpec()
    metadata: _CrdMeta = _CrdMeta()
    status: _CrdStatus = _CrdStatus()


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    client_config: _ClientConfig = _NO_CONFIG


class _WebhookConfiguration(msgspec.Struct, frozen=True):
    webhooks: tuple[_Webhook, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """The versions in which the objects of a CRD are stored, and what is done to read them."""

    crd: str
    older: tuple[str, ...]
    """Versions other than the storage version in which objects may be stored."""
    strategy: str
    """`None`, which changes nothing but the version's name, or `Webhook`."""
    ours: bool
    """True if that webhook is at this process's address."""


class WebhookClients:
    """CRDs of several versions, and webhook configurations."""

    def __init__(
        self,
        client: KubeClient,
        address: Address,
        *,
        crds: Collection[str] = (),
        serve: Collection[str] = (),
        configuration: str = "",
    ) -> None:
        """Set the CRDs that are converted, and those whose older versions are served."""
        self._client = client
        self._address = address
        self._crds = crds
        self._serve = serve
        self._configuration = configuration

    async def publish(self, authorities: bytes) -> bool:
        """Write the address and the authorities to trust; return whether that changed an object.

        An object that does not exist is passed over. Raises ApiError.
        """
        changed = [await self._publish_in_crd(name, authorities) for name in self._crds]
        changed += [await self._publish_in_configuration(kind, authorities) for kind in _KINDS]
        return any(changed)

    async def stored(self, name: str) -> StoredVersions | None:
        """Return how a CRD's objects are stored, None where there is no such CRD. ApiError."""
        found = await self._get(f"{_CRDS}/{name}", _Crd)
        if found is None:
            return None
        current = {each.name for each in found.spec.versions if each.storage}
        conversion = found.spec.conversion
        webhook = conversion.webhook
        wanted = self._address.client_config(CONVERT, b"")
        ours = webhook is not None and _same_place(webhook.client_config, wanted)
        older = tuple(each for each in found.status.stored_versions if each not in current)
        return StoredVersions(name, older, conversion.strategy, ours)

    async def _publish_in_crd(self, name: str, authorities: bytes) -> bool:
        path = f"{_CRDS}/{name}"
        found = await self._get(path, _Crd)
        if found is None:
            return False
        wanted = self._address.client_config(CONVERT, authorities)
        changes = _conversion(found.spec, wanted)
        if name in self._serve:
            changes += _serving(found)
        if changes:
            await self._patch(path, changes, content_type=JSON_PATCH)
        return bool(changes)

    async def _publish_in_configuration(self, kind: str, authorities: bytes) -> bool:
        path = f"{_CONFIGURATIONS}/{kind}/{self._configuration}"
        found = await self._get(path, _WebhookConfiguration)
        changes = []
        for webhook in found.webhooks if found else ():
            wanted = self._address.client_config(webhook.client_config.path, authorities)
            if not _agrees(webhook.client_config, wanted):
                changes.append({"name": webhook.name, "clientConfig": wanted})
        if not changes:
            return False
        try:
            await self._patch(path, {"webhooks": changes}, content_type=STRATEGIC_PATCH)
        except ForbiddenError as error:
            # Conversion must not wait for a right that only the optional webhooks need.
            _log.warning(
                "cannot write the certificate's authority into a webhook configuration: the role "
                "for it comes with manifests/optional/webhooks.yaml; apply that file again",
                error=str(error),
            )
            return False
        return True

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
    """Return what is to be changed so that we convert."""
    webhook = spec.conversion.webhook
    if webhook is not None and _agrees(webhook.client_config, wanted):
        return []
    known = {name: value for name, value in wanted.items() if value is not None}
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": known, "conversionReviewVersions": ["v1"]},
    }
    return [{"op": "add", "path": "/spec/conversion", "value": conversion}]


def _serving(found: _Crd) -> list[dict[str, Any]]:
    """Return what is to be changed so that all versions are served, for the first time only.

    An administrator who applies the CRD again decides from then on: two writers of one field
    would go on for ever.
    """
    annotations = found.metadata.annotations
    if annotations is not None and OLDER_VERSIONS in annotations:
        return []
    changes: list[dict[str, Any]] = []
    for number, version in enumerate(found.spec.versions):
        if not version.served:
            where = f"/spec/versions/{number}"
            changes.append({"op": "test", "path": f"{where}/name", "value": version.name})
            changes.append({"op": "replace", "path": f"{where}/served", "value": True})
    where, value = f"/{OLDER_VERSIONS.replace('/', '~1')}", "served"
    mark = ("", {OLDER_VERSIONS: value}) if annotations is None else (where, value)
    return [*changes, {"op": "add", "path": f"/metadata/annotations{mark[0]}", "value": mark[1]}]


def _agrees(found: _ClientConfig, wanted: Mapping[str, Any]) -> bool:
    return found == msgspec.convert(wanted, _ClientConfig)


def _same_place(found: _ClientConfig, wanted: Mapping[str, Any]) -> bool:
    place = msgspec.convert(wanted, _ClientConfig)
    return (found.url, found.service) == (place.url, place.service)


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of the Secret; parts that are missing are empty."""

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
