"""The objects that ask an autoscaler for nodes: buffers, requests, and their PodTemplates.

Source: https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/apis
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import msgspec

from extender.api.core_v1 import ObjectMeta
from extender.api.wellknown import MANAGED_BY_LABEL, MANAGER
from extender.kube.client import KubeClient
from extender.kube.errors import ConflictError, NotFoundError
from extender.kube.queues import objects, resources_of
from extender.kube.watch import decoded

GROUP: Final = "autoscaling.x-k8s.io"
BUFFERS: Final = "capacitybuffers"
REQUESTS: Final = "provisioningrequests"
TEMPLATES: Final = "podtemplates"
BUFFER_VERSION: Final = "v1beta1"
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    BUFFERS: (BUFFER_VERSION,),
    REQUESTS: ("v1", "v1beta1"),
}
"""The versions of each resource that are read, the preferred one first."""
_GROUPS: Final = {"Workload": "kueue.x-k8s.io/", "PodGroup": "scheduling."}  # as in the policy

_encode = msgspec.json.Encoder().encode


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] | None = None


class _Request(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


class _List(msgspec.Struct, frozen=True, gc=False):
    items: list[_Request] = []


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_list = msgspec.json.Decoder(_List).decode


class Autoscaling:
    """Writes and reads the objects. Every method raises ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def version(self, plural: str) -> str:
        """Return the version in which the API server serves a resource; nothing if in none."""
        for version in VERSIONS[plural]:
            with suppress(NotFoundError):
                found = await resources_of(self._client, f"{GROUP}/{version}")
                if any(each.name == plural for each in found):
                    return version
        return ""

    async def create(self, plural: str, body: Mapping[str, Any]) -> bool:
        """Create an object and return True; False where it exists."""
        return await self.post(plural, body) is not None

    async def post(self, plural: str, body: Mapping[str, Any]) -> bytes | None:
        """Create an object and return it as it is stored; None where there is one of its name."""
        group, _, version = body["apiVersion"].rpartition("/")
        path = objects(group, version, plural, namespace=body["metadata"]["namespace"])
        try:
            return await self._client.request("POST", path, body=_encode(body))
        except ConflictError:
            return None

    async def delete(self, plural: str, name: str, *, version: str, namespace: str) -> None:
        """Delete an object; one that is gone already is no error."""
        group = "" if plural == TEMPLATES else GROUP
        path = objects(group, version, plural, namespace=namespace)
        with suppress(NotFoundError):
            await self._client.request("DELETE", f"{path}/{quote(name)}")

    async def failure(self, name: str, *, version: str, namespace: str) -> str | None:
        """Return why an autoscaler has given a ProvisioningRequest up; None where it has not."""
        path = objects(GROUP, version, REQUESTS, namespace=namespace)
        try:
            raw = await self._client.request("GET", f"{path}/{quote(name)}")
        except NotFoundError:
            return None
        conditions = decoded(_decode_request, raw).status.conditions or ()
        failed = (e for e in conditions if (e.type, e.status) == ("Failed", "True"))
        return next((each.message or "Failed" for each in failed), None)

    async def owners(
        self, plural: str, version: str, kind: str = "Workload"
    ) -> list[tuple[str, str]]:
        """Return our objects with an owner of a kind: that, as `namespace/name`, and their name."""
        selector = quote(f"{MANAGED_BY_LABEL}={MANAGER}")
        path = f"{objects(GROUP, version, plural)}?labelSelector={selector}"
        found = decoded(_decode_list, await self._client.request("GET", path))
        return [*_owners((each.metadata for each in found.items), kind)]


def buffer(metadata: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return a CapacityBuffer for so many pods, with the metadata of their PodTemplate."""
    return {
        "apiVersion": f"{GROUP}/{BUFFER_VERSION}",
        "kind": "CapacityBuffer",
        "metadata": {**metadata},
        "spec": {"podTemplateRef": {"name": metadata["name"]}, "replicas": count},
    }


def _owners(found: Iterable[ObjectMeta], kind: str) -> Iterable[tuple[str, str]]:
    for each in found:
        for owner in each.owner_references or ():
            if owner.kind == kind and owner.api_version.startswith(_GROUPS[kind]):
                yield f"{each.namespace}/{owner.name}", each.name
