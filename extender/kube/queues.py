"""The writes of queues, workloads and jobs, and the look-up of the owners of workloads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
import structlog

from extender.api.core_v1 import Stored
from extender.api.queue_wire import PodSetUpdate
from extender.api.wellknown import (
    DONE_ANNOTATION,
    GROUP_X,
    QUEUE_GROUP,
    QUEUE_VERSION,
    TOPOLOGY_ASSIGNMENT,
    WorkloadCondition,
)
from extender.kube.client import APPLY_PATCH, MERGE_PATCH, KubeClient
from extender.kube.decode import DecodeError
from extender.kube.decode_queues import MANAGED_JOBS, MANAGED_JOBS_KEY, ManagedJobs, QueueDecoder
from extender.kube.errors import ForbiddenError, InvalidError, NotFoundError
from extender.kube.pod_groups import VERSION as POD_GROUP_VERSION
from extender.kube.pod_groups import as_condition, as_time
from extender.kube.reflector import identify
from extender.kube.stored import assignment_as_json, assignments_as_annotation, grant_as_json
from extender.kube.watch import decoded
from extender.resources.quantity import exact
from extender.state.cluster.records import DomainAssignment, Grant
from extender.state.queue.records import (
    AdmissionInfo,
    CheckState,
    JobObject,
    Meta,
    OwnerRef,
    WorkloadInfo,
)

FIELD_MANAGER: Final = "gang-extender-queue"
"""The manager of PodGroups that the queue makes for jobs."""
ROOM_FIELD_MANAGER: Final = "gang-extender-room"
"""The manager of `status.grantedRoom` of PodGroups."""
_POD_GROUP: Final = {"apiVersion": f"{GROUP_X}/{POD_GROUP_VERSION}", "kind": "PodGroup"}
Json = dict[str, Any]
_REQUIRED: Final = frozenset(("name", "state", "message", "lastTransitionTime"))
"""The fields of the state of an admission check that the API requires."""

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode
_decode_stored = msgspec.json.Decoder(Stored).decode


class WorkloadWriter:
    """Writes Workloads; every method raises ApiError, and ConflictError for what has changed."""

    def __init__(self, client: KubeClient, decoder: QueueDecoder) -> None:
        self._client = client
        self._decoder = decoder

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        """Make a workload's status what differs between the two; return it as it is stored."""
        change = _seen(before.meta, status=status_patch(before, after))
        path = f"{_path('workloads', before.meta)}/status"
        return self._decoded(await _merge(self._client, path, change))

    async def read(self, meta: Meta) -> WorkloadInfo:
        """Return a workload as it is stored."""
        return self._decoded(await self._client.request("GET", _path("workloads", meta)))

    async def create(self, workload: Json) -> WorkloadInfo:
        """Create a Workload; return it as it is stored."""
        path = collection("workloads", workload["metadata"]["namespace"])
        return self._decoded(await self._client.request("POST", path, body=_encode(workload)))

    async def patch(self, meta: Meta, change: Mapping[str, Any]) -> WorkloadInfo:
        """Merge a change of spec or metadata into a Workload; return it as it is stored."""
        path = _path("workloads", meta)
        return self._decoded(await _merge(self._client, path, _seen(meta, **change)))

    async def delete(self, meta: Meta) -> None:
        """Delete a Workload."""
        body = _encode({"preconditions": {"uid": meta.uid}, "propagationPolicy": "Background"})
        await self._client.request("DELETE", _path("workloads", meta), body=body)

    def _decoded(self, raw: bytes) -> WorkloadInfo:
        try:
            return self._decoder.workload(raw)
        except DecodeError as error:  # the API accepts it, the decoder does not
            raise InvalidError(str(error)) from error


class QueueWriter:
    """Writes the status and the finalizers of queues and flavors; every method raises ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def write_status(self, plural: str, meta: Meta, status: Json) -> None:
        """Replace the fields of a status that are given."""
        await _merge(self._client, f"{_path(plural, meta)}/status", _seen(meta, status=status))

    async def set_finalizers(self, plural: str, meta: Meta, finalizers: Sequence[str]) -> None:
        """Replace the finalizers."""
        change = {"metadata": {"finalizers": list(finalizers)}}
        await _merge(self._client, _path(plural, meta), _seen(meta, **change))


class JobWriter:
    """Writes jobs of any kind; every method raises ApiError."""

    def __init__(self, client: KubeClient, decode: Callable[[bytes, str], JobObject]) -> None:
        self._client = client
        self._decode = decode

    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        """Merge a change into a job or a subresource; return the job as it is stored."""
        return self._decode(await _merge(self._client, path, change), kind)

    async def read(self, path: str, *, kind: str) -> JobObject:
        """Return a job as it is stored."""
        return self._decode(await self._client.request("GET", path), kind)

    async def raw(self, path: str) -> bytes:
        """Return an object as it is stored, as JSON."""
        return await self._client.request("GET", path)

    async def merge(self, path: str, change: Mapping[str, Any]) -> None:
        """Merge a change into an object that is no job of its own."""
        await _merge(self._client, path, change)

    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        """Delete an object."""
        await self._client.request("DELETE", path, body=_encode(options))

    async def make_pod_group(  # noqa: PLR0913 - what it writes belongs together
        self,
        namespace: str,
        name: str,
        *,
        min_member: int,
        owners: Sequence[Mapping[str, Any]],
        done: int = 0,
        grant: Grant | None = None,
        domains: Mapping[str, DomainAssignment] | None = None,
    ) -> None:
        """Make or change a PodGroup, grant it room, and say to which domains its pods go.

        The room goes into its status, which users who may write PodGroups may not write. Where the
        API server refuses that write, the PodGroup has no room, and a warning is logged.
        """
        path = _pod_group(GROUP_X, namespace, name)
        named = {"name": name, "namespace": namespace}
        metadata: Json = {**named, "ownerReferences": list(owners)}
        said = {DONE_ANNOTATION: str(done)} if done else {}
        if domains:
            said[TOPOLOGY_ASSIGNMENT] = assignments_as_annotation(domains)
        if said:
            metadata["annotations"] = said
        spec = {"minMember": min_member}
        stored = await self._apply(path, FIELD_MANAGER, metadata=metadata, spec=spec)
        granted = grant_as_json(grant) if grant is not None else None
        if granted is not None:
            metadata = {**named, "uid": _decode_stored(stored).metadata.uid}
            status = {"grantedRoom": granted}
            try:
                await self._apply(
                    f"{path}/status", ROOM_FIELD_MANAGER, metadata=metadata, status=status
                )
            except (ForbiddenError, InvalidError) as error:  # the job may start without a promise
                _log.warning(
                    "no room is kept for a PodGroup: the write of its status is refused",
                    pod_group=f"{namespace}/{name}",
                    error=str(error),
                )

    async def _apply(self, path: str, manager: str, **parts: Json) -> bytes:
        """Apply the parts of a PodGroup that are a field manager's."""
        path = f"{path}?fieldManager={manager}&force=true"
        body = _encode({**_POD_GROUP, **parts})
        return await self._client.request("PATCH", path, body=body, content_type=APPLY_PATCH)

    async def drop_grant(self, namespace: str, name: str, *, api_group: str = GROUP_X) -> None:
        """Withdraw the room that a PodGroup was granted, by any field manager.

        Raises NotFoundError where it is gone.
        """
        path = f"{_pod_group(api_group, namespace, name)}/status?fieldManager={ROOM_FIELD_MANAGER}"
        await _merge(self._client, path, {"status": {"grantedRoom": None}})


def _pod_group(api_group: str, namespace: str, name: str) -> str:
    return f"{objects(api_group, POD_GROUP_VERSION, 'podgroups', namespace=namespace)}/{name}"


def collection(plural: str, namespace: str) -> str:
    """Return the path of our objects in a namespace, or of cluster-wide ones for ''."""
    return objects(QUEUE_GROUP, QUEUE_VERSION, plural, namespace=namespace)


def objects(group: str, version: str, plural: str, *, namespace: str = "") -> str:
    """Return the path of a resource's objects in a namespace, or in all of them."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{plural}"


def _path(plural: str, meta: Meta) -> str:
    return f"{collection(plural, meta.namespace)}/{meta.name}"


def _seen(meta: Meta, **change: Any) -> Json:  # noqa: ANN401
    """Return a change that holds only for the object as it was seen."""
    seen = {"uid": meta.uid, "resourceVersion": str(meta.version)}
    return {**change, "metadata": {**change.get("metadata", {}), **seen}}


async def _merge(client: KubeClient, path: str, change: Mapping[str, Any]) -> bytes:
    """Merge a change into an object; return the object as it is stored. Raises ApiError."""
    return await client.request("PATCH", path, body=_encode(change), content_type=MERGE_PATCH)


def status_patch(before: WorkloadInfo, after: WorkloadInfo) -> Json:
    """Return the merge patch that makes the one status the other."""
    patch: Json = {}
    if before.conditions != after.conditions:
        patch["conditions"] = [as_condition(each) for each in after.conditions]
    if before.admission != after.admission:
        patch["admission"] = _admission(after.admission)
    if before.requeue != after.requeue:
        state = after.requeue
        at = as_time(state.at) if state is not None and state.at is not None else None
        patch["requeueState"] = None if state is None else {"count": state.count, "requeueAt": at}
    if before.reclaimable != after.reclaimable:
        patch["reclaimablePods"] = [
            {"name": name, "count": count} for name, count in after.reclaimable.items()
        ] or None
    if before.past_execution != after.past_execution:
        patch["accumulatedPastExecutionTimeSeconds"] = after.past_execution
    if before.open_gates and not after.open_gates:
        said = after.condition(WorkloadCondition.EVICTED)
        since = as_time(said.transition) if said is not None else None
        patch["preemptionGates"] = [
            {"name": name, "position": "Closed", "lastTransitionTime": since}
            for name in after.closed_gates
        ]
    if before.checks != after.checks:
        patch["admissionChecks"] = [check_as_json(each) for each in after.checks] or None
    if before.evictions != after.evictions:
        patch["schedulingStats"] = {
            "evictions": [
                {"reason": each.reason, "underlyingCause": each.cause, "count": each.count}
                for each in after.evictions
            ]
        }
    return patch


def check_as_json(check: CheckState) -> Json:
    """Return the state of an admission check as the API has it."""
    found: Json = {
        "name": check.name,
        "state": check.state,
        "message": check.message,
        "lastTransitionTime": as_time(check.last_transition),
        "podSetUpdates": [_pod_set_update(each) for each in check.pod_set_updates],
        "requeueAfterSeconds": check.requeue_after_seconds,
        "retryCount": check.retry_count,
    }
    return {name: value for name, value in found.items() if value or name in _REQUIRED}


def _pod_set_update(update: PodSetUpdate) -> Json:
    tolerations = [each.as_json() for each in update.tolerations]
    found: Json = {**msgspec.to_builtins(update), "tolerations": tolerations}
    return {name: value for name, value in found.items() if value}


def _admission(admission: AdmissionInfo | None) -> Json | None:
    if admission is None:
        return None
    return {
        "clusterQueue": admission.cluster_queue,
        "podSetAssignments": [
            {
                "name": each.name,
                "flavors": dict(each.flavors),
                "resourceUsage": {n: exact(n, value) for n, value in each.usage.items()},
                "count": each.count,
                **(
                    {"topologyAssignment": assignment_as_json(each.topology)}
                    if each.topology is not None
                    else {}
                ),
            }
            for each in admission.assignments
        ],
    }


class Resource(msgspec.Struct, frozen=True, gc=False):
    """A resource that an API server serves."""

    name: str = ""
    kind: str = ""
    namespaced: bool = True


class _Resources(msgspec.Struct, frozen=True, gc=False):
    resources: list[Resource] | None = None


_decode_resources: Final = msgspec.json.Decoder(_Resources).decode


async def resources_of(client: KubeClient, api_version: str) -> list[Resource]:
    """Return the resources that the API server serves in a version of a group. Raises ApiError."""
    root = "apis" if "/" in api_version else "api"
    raw = await client.request("GET", f"/{root}/{quote(api_version)}")
    return decoded(_decode_resources, raw).resources or []


class Owners:
    """Asks the API server; how a kind is called in paths is asked once."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[tuple[str, str], Resource] = {}

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an owner is there, None where our role may not know.

        A kind that the API server does not serve has no objects. Raises ApiError.
        """
        try:
            resource = await self._resource(owner)
            if resource is None:
                return False
            group, _, version = owner.api_version.rpartition("/")
            where = namespace if resource.namespaced else ""
            path = objects(group, version, resource.name, namespace=where)
            found = await self._client.request("GET", f"{path}/{quote(owner.name)}")
            return identify(found).uid == owner.uid
        except NotFoundError:
            self._known.pop((owner.api_version, owner.kind), None)
            return False
        except (ForbiddenError, DecodeError):
            return None

    async def _resource(self, owner: OwnerRef) -> Resource | None:
        known = owner.api_version, owner.kind
        if known not in self._known:
            found = await resources_of(self._client, owner.api_version)
            own = (each for each in found if each.kind == owner.kind and "/" not in each.name)
            resource = next(own, None)
            if resource is None:
                return None
            self._known[known] = resource
        return self._known[known]


def config_maps(namespace: str) -> str:
    """Return the path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def write_managed_jobs(client: KubeClient, namespace: str, jobs: ManagedJobs) -> None:
    """Keep the setting. Raises ApiError."""
    body = {"data": {MANAGED_JOBS_KEY: msgspec.json.encode(jobs).decode()}}
    await client.request(
        "PATCH",
        f"{config_maps(namespace)}/{MANAGED_JOBS}?fieldManager=gang-extender-reconciler",
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
    )
