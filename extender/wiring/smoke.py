"""A gang of two, sent through a cluster in a namespace of its own, which is deleted in any case."""

import asyncio
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from extender.api.wellknown import GROUP_X, POD_GROUP_LABEL
from extender.check import smoke
from extender.check.findings import Finding, warning
from extender.kube.client import KubeClient
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError, UnknownOutcomeError
from extender.runtime.clock import Clock
from extender.wiring.reading import ApiReader

IMAGE: Final = "registry.k8s.io/pause:3.10"
"""The pods need not run: they are done when they have a node."""
_GROUP: Final = "two"
_LOOK_SECONDS: Final = 0.1
_CLEAN_SECONDS: Final = 30.0


class Smoke:
    """One gang; `seconds` is how long each of its two steps may take."""

    def __init__(
        self, client: KubeClient, clock: Clock, *, scheduler_name: str, seconds: float
    ) -> None:
        self._reader = ApiReader(client)
        self._clock = clock
        self._scheduler_name = scheduler_name
        self._seconds = seconds
        self.namespace = f"gang-extender-check-{uuid4().hex[:8]}"

    async def run(self) -> list[Finding]:
        """Return what became of the gang; leaves nothing behind."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        found, left, is_made = list[Finding](), list[Finding](), True
        try:
            try:
                await self._reader.post("/api/v1/namespaces", namespace)
            except ApiError as error:
                is_made = isinstance(error, UnknownOutcomeError)
                found.append(smoke.refused("a namespace for it cannot be made", str(error)))
            else:
                found.append(await self._gang())
        except ApiError as error:
            found.append(smoke.refused("the gang cannot be made", str(error)))
        finally:  # Ctrl-C too
            if is_made:
                left = await self._clean()
        return [*found, *left]

    async def _gang(self) -> Finding:
        """Make the gang pod by pod, and return what became of it. Raises ApiError."""
        group = {
            "apiVersion": f"{GROUP_X}/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": _GROUP},
            "spec": {"minMember": 2},
        }
        await self._reader.post(f"{self._groups}", group)
        first = await self._step(0, lambda pods: _bound(pods) or any(map(smoke.is_refused, pods)))
        if first is None:
            return await self._hanging()
        if _bound(first):
            return smoke.alone(first[0]["metadata"]["name"])
        begun = self._clock.monotonic()
        both = await self._step(1, lambda pods: len(_bound(pods)) == 2)
        if both is None:
            return await self._hanging()
        return smoke.started(self._clock.monotonic() - begun)

    async def _step(
        self, number: int, done: Callable[[list[dict[str, Any]]], object]
    ) -> list[dict[str, Any]] | None:
        """Make a pod; return the pods when that has had its effect, None where it is late."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._create(number)
                return await self._until(done)
        except TimeoutError:
            return None

    async def _until(self, done: Callable[[list[dict[str, Any]]], object]) -> list[dict[str, Any]]:
        while True:
            pods = await self._list()
            if done(pods):
                return pods
            await asyncio.sleep(_LOOK_SECONDS)

    async def _create(self, number: int) -> None:
        pod = _pod(f"{_GROUP}-{number}", self._scheduler_name)
        while True:
            try:
                await self._reader.post(self._pods, pod)
            except ForbiddenError as error:
                # A new namespace has its service account a moment later.
                if "serviceaccount" not in str(error):
                    raise
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    async def _hanging(self) -> Finding:
        group = await self._reader.get(f"{self._groups}/{_GROUP}")
        return smoke.hangs(self._seconds, group, await self._list())

    async def _list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._reader.get(self._pods))["items"]
        return found

    async def _clean(self) -> list[Finding]:
        """Delete the namespace, and with it all that is in it."""
        try:
            async with asyncio.timeout(_CLEAN_SECONDS):
                await self._reader.delete(f"/api/v1/namespaces/{self.namespace}")
        except NotFoundError:
            return []
        except (ApiError, TimeoutError) as error:
            found = f"the namespace {self.namespace} is left: {error}"
            return [warning("smoke.cleanup", found, f"kubectl delete namespace {self.namespace}")]
        return []

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def _groups(self) -> str:
        return f"/apis/{GROUP_X}/v1alpha1/namespaces/{self.namespace}/podgroups"


def _bound(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def _pod(name: str, scheduler_name: str) -> dict[str, Any]:
    """Return a pod that every Pod Security Standard admits."""
    container = {
        "name": "pause",
        "image": IMAGE,
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    metadata = {"name": name, "labels": {POD_GROUP_LABEL: _GROUP}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
