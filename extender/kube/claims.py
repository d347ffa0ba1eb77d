"""Read the volumes and devices that pods claim, and take devices back."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw

from extender.api import core_v1 as core
from extender.api.core_v1 import Wire
from extender.kube.client import MERGE_PATCH, KubeClient
from extender.kube.decode import readable
from extender.kube.errors import ConflictError, NotFoundError
from extender.resources.quantity import parse_resources
from extender.state.cluster.records import (
    RESOURCE_CLAIMS,
    VOLUME_CLAIMS,
    ClaimInfo,
    ClaimObject,
    StorageClassInfo,
    VolumeInfo,
)

DEVICES: Final = "/apis/resource.k8s.io/v1"
STORAGE_CLASSES: Final = "StorageClass "
_STATIC: Final = "kubernetes.io/no-provisioner"


class _VolumeClaimSpec(Wire, frozen=True):
    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: list[str] | None = None
    resources: core.ResourceRequirements = core.ResourceRequirements()


class _VolumeClaim(Wire, frozen=True):
    metadata: core.ObjectMeta = core.ObjectMeta()
    spec: _VolumeClaimSpec = _VolumeClaimSpec()


class _VolumeAffinity(Wire, frozen=True):
    required: core.NodeSelector | None = None


class _VolumeSpec(Wire, frozen=True):
    storage_class_name: str = ""
    capacity: dict[str, core.Amount] | None = None
    access_modes: list[str] | None = None
    claim_ref: core.ObjectMeta | None = None
    node_affinity: _VolumeAffinity = _VolumeAffinity()


class _Volume(Wire, frozen=True):
    metadata: core.ObjectMeta = core.ObjectMeta()
    spec: _VolumeSpec = _VolumeSpec()
    status: core.PodStatus = core.PodStatus()


class _StorageClass(Wire, frozen=True):
    metadata: core.ObjectMeta = core.ObjectMeta()
    provisioner: str = ""


class _Device(Wire, frozen=True):
    device_class_name: str = ""


class _DeviceRequest(Wire, frozen=True):
    exactly: _Device | None = None
    first_available: list[_Device] | None = None


class _Devices(Wire, frozen=True):
    requests: list[_DeviceRequest] | None = None


class _DeviceClaimSpec(Wire, frozen=True):
    devices: _Devices = _Devices()


class _DeviceClaimStatus(Wire, frozen=True):
    allocation: Raw = Raw()
    reserved_for: list[core.OwnerReference] | None = None


class _DeviceClaim(Wire, frozen=True):
    metadata: core.ObjectMeta = core.ObjectMeta()
    spec: _DeviceClaimSpec = _DeviceClaimSpec()
    status: _DeviceClaimStatus = _DeviceClaimStatus()


_encode = msgspec.json.Encoder().encode
_decode_volume_claim = msgspec.json.Decoder(_VolumeClaim).decode
_decode_volume = msgspec.json.Decoder(_Volume).decode
_decode_storage_class = msgspec.json.Decoder(_StorageClass).decode
_decode_device_claim = msgspec.json.Decoder(_DeviceClaim).decode


@readable("PersistentVolumeClaim")
def volume_claim(raw: bytes | Raw) -> ClaimInfo:
    """Return a PersistentVolumeClaim. Raises DecodeError where the JSON is not one."""
    found = _decode_volume_claim(raw)
    meta, spec = found.metadata, found.spec
    return ClaimInfo(
        key=f"{VOLUME_CLAIMS}/{meta.namespace}/{meta.name}",
        uid=meta.uid,
        version=meta.resource_version,
        classes=frozenset((STORAGE_CLASSES + (spec.storage_class_name or ""),)),
        allocated=bool(spec.volume_name),
        size=parse_resources(spec.resources.requests).get("storage", 0),
        modes=frozenset(spec.access_modes or ()),
    )


@readable("PersistentVolume")
def volume(raw: bytes | Raw) -> VolumeInfo:
    """Return a PersistentVolume. Raises DecodeError where the JSON is not one."""
    found = _decode_volume(raw)
    meta, spec, ref = found.metadata, found.spec, found.spec.claim_ref
    return VolumeInfo(
        key=f"persistentvolumes/{meta.name}",
        storage_class=STORAGE_CLASSES + spec.storage_class_name,
        size=parse_resources(spec.capacity).get("storage", 0),
        modes=frozenset(spec.access_modes or ()),
        claim=f"{VOLUME_CLAIMS}/{ref.namespace}/{ref.name}" if ref is not None else "",
        free=found.status.phase in ("", "Pending", "Available") and not meta.deletion_timestamp,
        nodes=spec.node_affinity.required,
    )


@readable("StorageClass")
def storage_class(raw: bytes | Raw) -> StorageClassInfo:
    """Return a StorageClass. Raises DecodeError where the JSON is not one."""
    found = _decode_storage_class(raw)
    return StorageClassInfo(STORAGE_CLASSES + found.metadata.name, found.provisioner == _STATIC)


@readable("ResourceClaim")
def device_claim(raw: bytes | Raw) -> ClaimInfo:
    """Return a ResourceClaim. Raises DecodeError where the JSON is not one."""
    found = _decode_device_claim(raw)
    meta, status = found.metadata, found.status
    wanted = [
        device
        for request in found.spec.devices.requests or ()
        for device in (request.exactly, *(request.first_available or ()))
    ]
    return ClaimInfo(
        key=f"{RESOURCE_CLAIMS}/{meta.namespace}/{meta.name}",
        uid=meta.uid,
        version=meta.resource_version,
        classes=frozenset(f"DeviceClass {d.device_class_name}" for d in wanted if d is not None),
        allocated=bytes(status.allocation) not in (b"", b"null"),
        users=frozenset(each.uid for each in status.reserved_for or ()),
    )


DECODERS: Final[Mapping[str, tuple[str, Callable[[bytes], ClaimObject]]]] = {
    f"/api/v1/{VOLUME_CLAIMS}": (VOLUME_CLAIMS, volume_claim),
    "/api/v1/persistentvolumes": ("persistentvolumes", volume),
    "/apis/storage.k8s.io/v1/storageclasses": (STORAGE_CLASSES, storage_class),
    f"{DEVICES}/{RESOURCE_CLAIMS}": (RESOURCE_CLAIMS, device_claim),
}
"""By path: what keys of its objects begin with, and what reads these."""


class ClaimWriter:
    """Takes back the devices of ResourceClaims."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def deallocate(self, claim: ClaimInfo) -> None:
        """Take the devices of a ResourceClaim back, and what it is reserved for. Raises ApiError.

        One that has changed since, or is gone, is left as it is.
        """
        body = _encode({
            "metadata": {"uid": claim.uid, "resourceVersion": claim.version},
            "status": {"allocation": None, "devices": None, "reservedFor": None},
        })  # fmt: skip
        _, namespace, name = claim.key.split("/")
        path = f"{DEVICES}/namespaces/{namespace}/{RESOURCE_CLAIMS}/{name}/status"
        with suppress(NotFoundError, ConflictError):
            await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
