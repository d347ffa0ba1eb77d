"""The writes of pods: bindings, and the patches that make kube-scheduler try again."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from extender.api.core_v1 import Pod
from extender.api.wellknown import (
    BESIDE_LABEL,
    DOMAIN_LABEL,
    GANG_GATE,
    TOPOLOGY_GATE,
    WOKEN_ANNOTATION,
)
from extender.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from extender.kube.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from extender.kube.watch import decoded

_encode = msgspec.json.Encoder().encode
_decode_pod = msgspec.json.Decoder(Pod).decode


@dataclass(frozen=True, slots=True)
class PodRef:
    """One pod; the UID separates it from another of the same name."""

    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """The pod's URL path."""
        namespace, name = quote(self.namespace, safe=""), quote(self.name, safe="")
        return f"/api/v1/namespaces/{namespace}/pods/{name}"


class PodWriter:
    """Writes pods, for the roles of both processes; every method raises ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def bind(self, pod: PodRef, node: str) -> None:
        """Put a pod on a node; a pod that is there already is a success.

        The UID is a precondition, so a namesake that came later is never bound. Raises ApiError;
        UnavailableError also for a conflict with nothing: the API server answers 409 for whatever
        goes wrong between it and etcd (`assignPod` of its pod storage).
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.post(f"{pod.path}/binding", _encode(binding))
        except (ConflictError, UnknownOutcomeError) as error:
            found = await self._find(pod)
            if found is not None and found.spec.node_name == node:
                return
            if found is None or found.spec.node_name or found.metadata.deletion_timestamp:
                raise
            if isinstance(error, ConflictError):
                raise UnavailableError(str(error), status=error.status) from error
            raise

    async def _find(self, pod: PodRef) -> Pod | None:
        """Return that very pod, None where it is gone."""
        try:
            found = decoded(_decode_pod, await self._client.request("GET", pod.path))
        except NotFoundError:
            return None
        return found if found.metadata.uid == pod.uid else None

    async def wake(self, pod: PodRef, *, at: str) -> None:
        """Change a pod's metadata, so that kube-scheduler tries it again, if it still exists.

        Raises ApiError.
        """
        metadata: dict[str, Any] = {"uid": pod.uid, "annotations": {WOKEN_ANNOTATION: at}}
        await self._patch(pod.path, _encode({"metadata": metadata}), MERGE_PATCH)

    async def try_beside(self, pod: PodRef, *, at: int, node: str | None) -> None:
        """Have kube-scheduler try a pod again that it refused itself, if it still exists.

        Its plugin for affinity between pods hears of a label; `at` is another number each time.
        Where a `node` is nominated, and not any more, its plugin for spread takes that for a pod
        that has left, and has all pods tried again that the constraints of this one are about and
        whose priority is no higher. Raises ApiError.
        """
        metadata: dict[str, Any] = {"uid": pod.uid, "labels": {BESIDE_LABEL: str(at)}}
        await self._patch(pod.path, _encode({"metadata": metadata}), MERGE_PATCH)
        for name in (node, None) if node is not None else ():
            body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": name}}
            await self._patch(f"{pod.path}/status", _encode(body), MERGE_PATCH)

    async def release(self, pod: PodRef, label: str, domain: str) -> None:
        """Remove our gate, and have the pod ask for nodes with this label. Raises ApiError.

        A label of the pod says that we have written that.
        """
        labels = {DOMAIN_LABEL: domain}
        await self._open(pod, {label: domain}, gate=GANG_GATE, labels=labels)

    async def ungate(self, pod: PodRef) -> None:
        """Remove our gate, the only gate of the pod. Raises ApiError."""
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GANG_GATE},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
        with suppress(InvalidError):  # a test failed: the gate is gone already
            await self._patch(pod.path, _encode(patch), JSON_PATCH)

    async def open(self, pod: PodRef, selector: Mapping[str, str]) -> None:
        """Give a pod a node selector and remove the gate of its topology. Raises ApiError.

        A pod that is gone, or has no such gate any more, is left as it is.
        """
        await self._open(pod, selector, gate=TOPOLOGY_GATE, labels={})

    async def _open(
        self, pod: PodRef, selector: Mapping[str, str], *, gate: str, labels: Mapping[str, str]
    ) -> None:
        body = _encode({
            "metadata": {"uid": pod.uid, "labels": labels},
            "spec": {
                "nodeSelector": dict(selector),
                "schedulingGates": [{"$patch": "delete", "name": gate}],
            },
        })  # fmt: skip
        with suppress(InvalidError):
            await self._patch(pod.path, body, STRATEGIC_PATCH)

    async def _patch(self, path: str, body: bytes, content_type: str) -> None:
        try:
            await self._client.request("PATCH", path, body=body, content_type=content_type)
        except (NotFoundError, ConflictError):
            return  # gone, or a namesake: nothing waits for it any more
