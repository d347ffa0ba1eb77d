"""What is written of a preemption: the preemptor's status, nominated nodes, and victims.

Each side has a field manager of its own, so that neither undoes what the other has written.
"""

from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import msgspec

from extender.kube import nominations
from extender.kube.client import APPLY_PATCH, KubeClient
from extender.kube.errors import ConflictError, InvalidError, NotFoundError
from extender.kube.lists import decoded
from extender.kube.pod_groups import apply_part, as_condition, as_time
from extender.kube.pods import PodRef, evict, set_condition
from extender.state.cluster.records import ConditionInfo, PodGroupInfo, PreemptedRoom

PREEMPTOR_FIELD_MANAGER: Final = "gang-extender-preemption"
VICTIM_FIELD_MANAGER: Final = "gang-extender-reconciler-preemption"
BY_SCHEDULER: Final = "PreemptionByScheduler"
"""The reason of kube-scheduler's own victims. It nominates a pod for as long as such a one ends."""

_encode = msgspec.json.Encoder().encode


class TooManyVictimsError(ValueError):
    """More victims than a status can hold."""


class NotStoredError(ValueError):
    """The API server does not keep the field that was written."""


class _Stored(msgspec.Struct, frozen=True):
    preemption: Any = None


class _PodGroupStored(msgspec.Struct, frozen=True):
    kind: str = ""
    status: _Stored = _Stored()


_decode_stored = msgspec.json.Decoder(_PodGroupStored).decode


class PreemptorWriter:
    """Writes for the extender which victims leave for a group; raises ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def apply(
        self, pod_group: PodGroupInfo, nomination: PreemptedRoom | None, condition: ConditionInfo
    ) -> None:
        """Make this the preemption of a PodGroup, with its condition.

        Raises TooManyVictimsError too, and NotStoredError.
        """
        status: dict[str, Any] = {"conditions": [as_condition(condition)]}
        if nomination is not None:
            written = nominations.as_json(nomination)
            if written is None:
                raise TooManyVictimsError(
                    f"{len(nomination.victims)} victims are too many for a status"
                )
            status["preemption"] = written
        answer = await apply_part(self._client, pod_group, status, manager=PREEMPTOR_FIELD_MANAGER)
        stored = decoded(_decode_stored, answer or b"{}")
        if nomination is not None and stored.kind and stored.status.preemption is None:
            raise NotStoredError(
                f"the CustomResourceDefinition podgroups.{pod_group.api_group} has no field "
                "status.preemption, so no room can be made: apply the one in manifests/crds"
            )


class VictimWriter:
    """Writes for the reconciler; every method raises ApiError. A pod that is gone is no error."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def nominate(self, pod: PodRef, node: str | None) -> None:
        """Make a node the nominated one of a pod; None withdraws what was written so."""
        status = {"nominatedNodeName": node} if node is not None else {}
        body = _encode({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "status": status,
        })  # fmt: skip
        manager = quote(VICTIM_FIELD_MANAGER)
        path = f"{pod.path}/status?fieldManager={manager}&force=true"
        with suppress(NotFoundError, ConflictError, InvalidError):  # it has a node by now
            await self._client.request("PATCH", path, body=body, content_type=APPLY_PATCH)

    async def mark(self, pod: PodRef, message: str, *, at: float) -> None:
        """Write into a victim that it is preempted; `at` in seconds since the epoch."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": BY_SCHEDULER,
            "message": message,
            "lastTransitionTime": as_time(at),
        }
        await set_condition(self._client, pod, condition)

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
        """Evict a pod, or only ask whether that may be; BudgetError while a budget forbids it."""
        await evict(self._client, pod, dry_run=dry_run)

    async def delete(self, pod: PodRef) -> None:
        """Delete a pod that is marked, whatever its disruption budget says."""
        body = _encode({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid},
        })  # fmt: skip
        with suppress(NotFoundError, ConflictError):
            await self._client.request("DELETE", pod.path, body=body)

    async def apply_condition(self, pod_group: PodGroupInfo, condition: ConditionInfo) -> None:
        """Make this the condition of a PodGroup that says whether it was preempted."""
        status = {"conditions": [as_condition(condition)]}
        await apply_part(self._client, pod_group, status, manager=VICTIM_FIELD_MANAGER)
