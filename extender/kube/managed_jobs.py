"""The setting for jobs without a queue name, which the reconciler keeps for the extender.

The setting is the reconciler's, and it keeps it in a ConfigMap that no other client may write.
"""

from typing import Final

import msgspec
from msgspec import Raw

from extender.api.core_v1 import LabelSelector, ObjectMeta, Wire
from extender.kube.client import MERGE_PATCH, KubeClient
from extender.kube.decode import readable

NAME: Final = "gang-managed-jobs"
_KEY: Final = "withoutQueueName"


class ManagedJobs(Wire, frozen=True):
    """Kinds whose jobs are held back in some namespaces."""

    kinds: tuple[str, ...] = ()
    """As GROUP/KIND."""
    namespaces: LabelSelector = LabelSelector()


NOTHING: Final = ManagedJobs()


class _ConfigMap(Wire, frozen=True):
    data: dict[str, str] | None = None


class _Namespace(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_decode = msgspec.json.Decoder(_ConfigMap).decode
_decode_namespace = msgspec.json.Decoder(_Namespace).decode


@readable("ConfigMap")
def read(raw: bytes | Raw) -> ManagedJobs:
    """Return what the ConfigMap says. Raises DecodeError where the JSON is not one."""
    said = (_decode(raw).data or {}).get(_KEY, "{}")
    return msgspec.json.decode(said, type=ManagedJobs)


@readable("Namespace")
def read_namespace(raw: bytes | Raw) -> ObjectMeta:
    """Return the metadata of a Namespace. Raises DecodeError where the JSON is not one."""
    return _decode_namespace(raw).metadata


def path(namespace: str) -> str:
    """Return the path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def write(client: KubeClient, namespace: str, jobs: ManagedJobs) -> None:
    """Keep the setting. Raises ApiError."""
    body = {"data": {_KEY: msgspec.json.encode(jobs).decode()}}
    await client.request(
        "PATCH",
        f"{path(namespace)}/{NAME}?fieldManager=gang-extender-reconciler",
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
    )
