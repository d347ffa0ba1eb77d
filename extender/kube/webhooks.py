"""The objects that make the API server call the webhooks: CRDs and webhook configurations."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import structlog

from extender.kube.client import JSON_PATCH, STRATEGIC_PATCH, KubeClient
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
MANAGER: Final = "fieldManager=gang-extender-reconciler"
CONVERT: Final = "/convert"
OLDER_VERSIONS: Final = "scheduling.x-k8s.io/older-versions"
"""Annotation of a CRD. Where it stands, with any value, `served` is the administrator's alone."""

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
        place = msgspec.convert(self._address.client_config(CONVERT, b""), _ClientConfig)
        found_at = webhook.client_config if webhook is not None else _NO_CONFIG
        ours = webhook is not None and (found_at.url, found_at.service) == (
            place.url,
            place.service,
        )
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
            "PATCH", f"{path}?{MANAGER}", body=body, content_type=content_type
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
    would go on forever.
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
