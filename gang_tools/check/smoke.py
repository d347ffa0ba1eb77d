"""A gang of two, sent through a cluster in a namespace of its own, which is deleted in any case."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from extender.api.wellknown import GROUP_X, POD_GROUP_LABEL
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError, UnknownOutcomeError
from extender.runtime.clock import Clock
from gang_tools.check.findings import Finding, failure, ok, warning
from gang_tools.check.reading import ApiReader

Object = Mapping[str, Any]

NAME: Final = "smoke.gang"
IMAGE: Final = "registry.k8s.io/pause:3.10"
"""The pods need not run: they are done when they have a node."""
LOOK_SECONDS: Final = 0.1
_GROUP: Final = "two"


class Smoke:
    """One gang; `seconds` is how long each of its two steps, and its deletion, may take."""

    def __init__(
        self, reader: ApiReader, clock: Clock, *, scheduler_name: str, seconds: float
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._scheduler_name = scheduler_name
        self._seconds = seconds
        self.namespace = f"gang-extender-check-{uuid4().hex[:8]}"
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self._groups = f"/apis/{GROUP_X}/v1alpha1/namespaces/{self.namespace}/podgroups"

    async def run(self) -> list[Finding]:
        """Return what became of the gang; leaves nothing behind."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        found, what, is_made = list[Finding](), "a namespace for it", True
        try:
            await self._reader.post("/api/v1/namespaces", namespace)
            what = "the gang"
            found.append(await self._gang())
        except ApiError as error:
            is_made = what == "the gang" or isinstance(error, UnknownOutcomeError)
            mend = "use the kubeconfig of an administrator, and see what is wrong above"
            found.append(failure(NAME, f"{what} cannot be made: {error}", mend))
        finally:  # Ctrl-C too
            left = await self._clean() if is_made else []
        return [*found, *left]

    async def _gang(self) -> Finding:
        """Make the gang pod by pod, and return what became of it. Raises ApiError."""
        group = {
            "apiVersion": f"{GROUP_X}/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": _GROUP},
            "spec": {"minMember": 2},
        }
        await self._reader.post(self._groups, group)
        first = await self._step(0, lambda pods: _bound(pods) or any(map(is_refused, pods)))
        if first is None:
            return await self._hanging()
        if _bound(first):
            return failure(
                NAME,
                f"{first[0]['metadata']['name']} was bound alone, and its gang has two pods: "
                "kube-scheduler does not ask the extender",
                "give kube-scheduler the entries of scheduler-config/kube-scheduler.yaml; after "
                "kubeadm upgrade see whether --config is still there",
            )
        begun = self._clock.monotonic()
        if await self._step(1, lambda pods: len(_bound(pods)) == 2) is None:
            return await self._hanging()
        seconds = self._clock.monotonic() - begun
        both = f"both were bound {seconds:.1f} s after the second one came"
        return ok(NAME, f"the first pod waited, and {both}")

    async def _step(
        self, number: int, done: Callable[[list[dict[str, Any]]], object]
    ) -> list[dict[str, Any]] | None:
        """Make a pod; return the pods when that has had its effect, None where it is late."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._create(number)
                return await self._until(done)
        return None

    async def _until(self, done: Callable[[list[dict[str, Any]]], object]) -> list[dict[str, Any]]:
        while True:
            pods = await self._reader.items(self._pods)
            if done(pods):
                return pods
            await asyncio.sleep(LOOK_SECONDS)

    async def _create(self, number: int) -> None:
        pod = _pod(f"{_GROUP}-{number}", self._scheduler_name)
        while True:
            try:
                return await self._reader.post(self._pods, pod)
            except ForbiddenError as error:
                # A new namespace has its service account a moment later.
                if "serviceaccount" not in str(error):
                    raise
            await asyncio.sleep(LOOK_SECONDS)

    async def _hanging(self) -> Finding:
        group = await self._reader.get(f"{self._groups}/{_GROUP}")
        return hangs(self._seconds, group, await self._reader.items(self._pods))

    async def _clean(self) -> list[Finding]:
        """Delete the namespace, and with it all that is in it."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._reader.delete(f"/api/v1/namespaces/{self.namespace}")
        except NotFoundError:
            pass
        except (ApiError, TimeoutError) as error:
            found = f"the namespace {self.namespace} is left: {error}"
            return [warning("smoke.cleanup", found, f"kubectl delete namespace {self.namespace}")]
        return []


def hangs(seconds: float, pod_group: Object, pods: Sequence[Object]) -> Finding:
    """Return what a gang waits for that has not started in time."""
    by_extender = [
        _sentence(f"PodGroup {each['type']}", each)
        for each in (pod_group.get("status") or {}).get("conditions") or ()
        if each["type"] in {"Permitted", "Scheduled"} and each["status"] != "True"
    ]
    by_others = [
        _sentence(f"pod {pod['metadata']['name']}", condition)
        for pod in pods
        if (condition := _scheduled(pod)) is not None and condition["status"] != "True"
    ]
    said = dict.fromkeys([*by_extender, *by_others])
    why = "; ".join(said) or "neither the PodGroup nor a pod says why"
    # First of all: an extender that another scheduler asks gives the PodGroup a reason, too.
    if not any(_scheduled(pod) for pod in pods):
        mend = "no scheduler has looked at the pods: see that one of this schedulerName runs"
    elif by_extender:
        mend = "the extender says what the gang waits for: room on nodes, most of the time"
    else:
        mend = "see the message, the extender's log and /readyz"
    count = len(_bound(pods))
    return failure(NAME, f"{count} of 2 pods are bound after {seconds:.0f} s: {why}", mend)


def is_refused(pod: Object) -> bool:
    """Return whether a scheduler has looked at a pod and let it wait, or a gate has."""
    condition = _scheduled(pod)
    return condition is not None and condition["status"] == "False"


def _sentence(what: str, condition: Object) -> str:
    return f"{what}: {condition.get('reason', '')}: {condition.get('message', '')[:300]}"


def _scheduled(pod: Object) -> Object | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)


def _bound(pods: Sequence[Object]) -> list[Object]:
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
