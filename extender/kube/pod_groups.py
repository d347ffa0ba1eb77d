"""Writes of groups: the status of PodGroups, conditions of pods, evictions, and preemptions.

Each side of a preemption has its own field manager, so neither undoes what the other wrote.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from extender.api.core_v1 import Job
from extender.api.wellknown import (
    GANG_READY,
    GROUP_NATIVE,
    MANAGED_BY_LABEL,
    MANAGER,
    NATIVE_VERSIONS,
    OF_ITSELF,
    QUEUE_LABEL,
    RESTARTING,
)
from extender.kube.client import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from extender.kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UndeclaredFieldsError,
)
from extender.kube.pods import PodRef
from extender.kube.recorder import ObjectRef
from extender.kube.stored import preemption_as_json
from extender.kube.watch import decoded
from extender.state.cluster.records import (
    BudgetInfo,
    ConditionInfo,
    PodGroupInfo,
    PodGroupStatusInfo,
    PreemptedRoom,
    Resumption,
)

FIELD_MANAGER: Final = "gang-extender-reconciler"
EXTENDER_FIELD_MANAGER: Final = "gang-extender"
VERSION: Final = "v1alpha1"
PREEMPTOR_FIELD_MANAGER: Final = "gang-extender-preemption"
CLAIMS_FIELD_MANAGER: Final = "gang-extender-claims"
VICTIM_FIELD_MANAGER: Final = "gang-extender-reconciler-preemption"
BY_SCHEDULER: Final = "PreemptionByScheduler"
"""The reason of kube-scheduler's own victims. A pod stays nominated while one of them ends."""

_encode = msgspec.json.Encoder().encode


class WrittenStatus(NamedTuple):
    """The answer to a write of a status, and whether all of its fields were written."""

    stored: bytes | None
    is_whole: bool


async def apply_part(
    client: KubeClient, pod_group: PodGroupInfo, status: Mapping[str, Any], *, manager: str
) -> WrittenStatus:
    """Apply the part of a PodGroup's status that a field manager owns.

    The UID is a precondition, so that a later PodGroup of the same name does not get the status of
    an earlier one. A PodGroup that is gone, or is another one, is no error. Nothing is written of a
    native one: its status has no such fields, and its conditions are kube-scheduler's.

    Fields that the CRD of another project lacks are left out. Raises ApiError.
    """
    if pod_group.api_group == GROUP_NATIVE:
        return WrittenStatus(None, is_whole=False)
    path = (
        f"/apis/{pod_group.api_group}/{VERSION}/namespaces/{pod_group.namespace}"
        f"/podgroups/{pod_group.name}/status?fieldManager={quote(manager)}&force=true"
    )
    metadata = {"name": pod_group.name, "namespace": pod_group.namespace, "uid": pod_group.uid}
    every = len(status)
    while True:
        body = _encode({
            "apiVersion": f"{pod_group.api_group}/{VERSION}",
            "kind": "PodGroup",
            "metadata": metadata,
            "status": status,
        })  # fmt: skip
        try:
            stored = await client.request("PATCH", path, body=body, content_type=APPLY_PATCH)
            return WrittenStatus(stored, is_whole=len(status) == every)
        except UndeclaredFieldsError as error:
            declared = {name: status[name] for name in status if name not in error.fields}
            if len(declared) == len(status):
                raise
            status = declared
        except (NotFoundError, ConflictError):
            return WrittenStatus(None, is_whole=True)


def about(pod_group: PodGroupInfo) -> ObjectRef:
    """Return what Events of a PodGroup point to."""
    native = pod_group.api_group == GROUP_NATIVE
    api_version = f"{pod_group.api_group}/{NATIVE_VERSIONS[-1] if native else VERSION}"
    where = pod_group.namespace, pod_group.name
    return ObjectRef(api_version, "PodGroup", *where, pod_group.uid)


def owned(pod_group: PodGroupInfo, name: str) -> dict[str, Any]:
    """Return the metadata of an object that we make for a PodGroup, and that goes with it."""
    of = about(pod_group)
    owner = {"apiVersion": of.api_version, "kind": of.kind, "name": of.name, "uid": of.uid}
    return {
        "name": name,
        "namespace": pod_group.namespace,
        "labels": {MANAGED_BY_LABEL: MANAGER},
        "ownerReferences": [owner],
    }


def as_json(status: PodGroupStatusInfo) -> dict[str, Any]:
    """Return a status as the API has it."""
    written: dict[str, Any] = {
        "phase": status.phase,
        "scheduled": status.scheduled,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "conditions": [as_condition(each) for each in status.conditions],
    }
    if status.occupied_by:
        written["occupiedBy"] = status.occupied_by
    if status.started is not None:
        written["scheduleStartTime"] = as_time(status.started)
    return written


def as_time(seconds: float) -> str:
    """Return seconds since the epoch as the API has them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_condition(condition: ConditionInfo) -> dict[str, Any]:
    """Return a condition as the API has it."""
    written: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": as_time(condition.transition),
    }
    if condition.generation is not None:
        written["observedGeneration"] = condition.generation
    return written


class TooManyVictimsError(ValueError):
    """Raised if there are more victims than a status can hold."""


class NotStoredError(ValueError):
    """The API server does not keep the field that was written."""


class _Stored(msgspec.Struct, frozen=True):
    preemption: Any = None


class _PodGroupStored(msgspec.Struct, frozen=True):
    kind: str = ""
    status: _Stored = _Stored()


_decode_job = msgspec.json.Decoder(Job).decode
_JOB_CONTROLLERS: Final = frozenset(
    (None, "kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller")
)
_decode_stored = msgspec.json.Decoder(_PodGroupStored).decode


class PreemptorWriter:
    """Writes what the extender says of a group, and which victims leave for it; raises ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def apply_condition(self, pod_group: PodGroupInfo, condition: ConditionInfo) -> None:
        """Make this the one condition of a PodGroup that is the extender's."""
        status = {"conditions": [as_condition(condition)]}
        await apply_part(self._client, pod_group, status, manager=EXTENDER_FIELD_MANAGER)

    async def apply_kept(self, pod_group: PodGroupInfo, nodes: Sequence[str]) -> None:
        """Write the nodes that autoscalers are to count as taken for a PodGroup."""
        status = {"keptNodes": nodes} if nodes else {}
        await apply_part(self._client, pod_group, status, manager=CLAIMS_FIELD_MANAGER)

    async def apply(
        self, pod_group: PodGroupInfo, nomination: PreemptedRoom | None, condition: ConditionInfo
    ) -> None:
        """Make this the preemption of a PodGroup, with its condition.

        Raises TooManyVictimsError too, and NotStoredError.
        """
        status: dict[str, Any] = {"conditions": [as_condition(condition)]}
        if nomination is not None:
            written = preemption_as_json(nomination)
            if written is None:
                raise TooManyVictimsError(
                    f"{len(nomination.victims)} victims are too many for a status"
                )
            status["preemption"] = written
        answer, _ = await apply_part(
            self._client, pod_group, status, manager=PREEMPTOR_FIELD_MANAGER
        )
        stored = decoded(_decode_stored, answer or b"{}")
        if nomination is not None and stored.kind and stored.status.preemption is None:
            raise NotStoredError(
                f"the CustomResourceDefinition podgroups.{pod_group.api_group} has no field "
                "status.preemption, so no room can be made: apply the one in manifests/crds"
            )


class PodGroupWriter:
    """Writes for the reconciler; every method raises ApiError. A pod that is gone is no error."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def apply_status(self, pod_group: PodGroupInfo, status: PodGroupStatusInfo) -> bool:
        """Make the reconciler's part of a status this one; return whether all of it was written."""
        found = await apply_part(self._client, pod_group, as_json(status), manager=FIELD_MANAGER)
        return found.is_whole

    async def order_of(self, path: str, field: str) -> str | None:
        """Return the text of a field in the spec of an object; None where it cannot be read."""
        try:
            found = msgspec.json.decode(await self._client.request("GET", path))
            return str(found["spec"].get(field, ""))
        except (NotFoundError, ForbiddenError):
            return None

    async def set_gang_ready(
        self, pod: PodRef, *, ready: bool, reason: str, message: str, at: float
    ) -> None:
        """Write whether the gang of a pod is ready."""
        status = "True" if ready else "False"
        await self._set_condition(pod, ConditionInfo(GANG_READY, status, reason, message, at))

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
        found = ConditionInfo("DisruptionTarget", "True", BY_SCHEDULER, message, at)
        await self._set_condition(pod, found)

    async def _set_condition(self, pod: PodRef, condition: ConditionInfo) -> None:
        status = {"conditions": [as_condition(condition)]}
        body = _encode({"metadata": {"uid": pod.uid}, "status": status})
        with suppress(NotFoundError, ConflictError):
            path = f"{pod.path}/status"
            await self._client.request("PATCH", path, body=body, content_type=STRATEGIC_PATCH)

    async def evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
        """Evict a pod, or only ask whether that may be.

        While a disruption budget forbids it that is a BudgetError, an UnavailableError.
        """
        body = _encode({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        })  # fmt: skip
        with suppress(NotFoundError, ConflictError, InvalidError):
            path = f"{pod.path}/eviction{'?dryRun=All' if dry_run else ''}"
            await self._client.request("POST", path, body=body)

    async def suspend(self, key: str, uid: str, jobs: Mapping[str, str]) -> bool:
        """Suspend a Job, `namespace/name`, so that all of its pods go; return whether they do.

        With the `jobs` of a JobSet, by UID, it is the JobSet. One that a queue or an owner starts
        and stops is left alone. The object says who suspended it, and we never resume another.
        """
        path = _job_path(key, of_set=bool(jobs))
        found = await self._job(path)
        if found is None:
            return True
        meta, spec = found.metadata, found.spec
        if meta.uid != uid or meta.deletion_timestamp is not None or spec.suspend:
            return True
        owned = any(owner.controller for owner in meta.owner_references or ())
        if owned or QUEUE_LABEL in (meta.labels or {}) or spec.managed_by not in _JOB_CONTROLLERS:
            return False
        for each, job in jobs.items():
            await self._mark_job(_job_path(job), {"uid": each}, meta.name)
        precise = {"uid": uid, "resourceVersion": meta.resource_version}
        await self._mark_job(path, precise, OF_ITSELF, suspend=True)
        return True

    async def resume(self, uid: str, found: Resumption) -> bool:
        """Resume a Job, or its JobSet, if we have suspended it; return whether it runs on.

        One that is gone is no error.
        """
        goes_on = found.job_set is None
        with suppress(NotFoundError, ConflictError):
            if found.job_set is not None:
                path = _job_path(found.job_set, of_set=True)
                job_set = await self._job(path)
                said = job_set.metadata.annotations if job_set is not None else None
                if job_set is not None and said is not None and said.restarting is not None:
                    await self._mark_job(path, {"uid": job_set.metadata.uid}, None, suspend=False)
                    goes_on = True
            suspend = False if found.job_set is None else None
            await self._mark_job(_job_path(found.job), {"uid": uid}, None, suspend=suspend)
        return goes_on

    async def _job(self, path: str) -> Job | None:
        try:
            return decoded(_decode_job, await self._client.request("GET", path))
        except NotFoundError:
            return None

    async def _mark_job(
        self, path: str, meta: Mapping[str, str], said: str | None, *, suspend: bool | None = None
    ) -> None:
        spec = {"suspend": suspend} if suspend is not None else {}
        body = _encode({"metadata": {**meta, "annotations": {RESTARTING: said}}, "spec": spec})
        await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def apply_budget(self, pod_group: PodGroupInfo, budget: BudgetInfo) -> None:
        """Make or change the disruption budget of a group, which is the owner.

        One of the same name that someone else has made or changed is a ConflictError.
        """
        selector = budget.selector.match_labels if budget.selector is not None else None
        body = _encode({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": owned(pod_group, budget.name),
            "spec": {
                "minAvailable": budget.need,
                "selector": {"matchLabels": selector},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        })  # fmt: skip
        path = f"{_budget_path(budget)}?fieldManager={quote(FIELD_MANAGER)}"
        await self._client.request("PATCH", path, body=body, content_type=APPLY_PATCH)

    async def delete_budget(self, budget: BudgetInfo) -> None:
        """Delete a disruption budget; one that is gone is no error."""
        body = _encode({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": budget.uid},
        })  # fmt: skip
        with suppress(NotFoundError, ConflictError):
            await self._client.request("DELETE", _budget_path(budget), body=body)

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


def _job_path(key: str, *, of_set: bool = False) -> str:
    namespace, _, name = key.partition("/")
    api, plural = ("jobset.x-k8s.io/v1alpha2", "jobsets") if of_set else ("batch/v1", "jobs")
    return f"/apis/{api}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}"


def _budget_path(budget: BudgetInfo) -> str:
    where = quote(budget.namespace, safe="")
    name = quote(budget.name, safe="")
    return f"/apis/policy/v1/namespaces/{where}/poddisruptionbudgets/{name}"
