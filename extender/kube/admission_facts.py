"""The facts of admission that `serve` reads: admitted Workloads, jobs and jobs that are held back.

The setting for jobs without a queue name is the reconciler's. It keeps it for the extender in a
ConfigMap that no other client may write.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from extender.api.core_v1 import LabelSelector, ObjectMeta, Wire
from extender.api.queue_wire import Workload
from extender.api.wellknown import QUEUE_LABEL, WorkloadCondition
from extender.kube.client import MERGE_PATCH, KubeClient
from extender.kube.decode import controller_of, readable
from extender.state.cluster.records import AdmittedPods, JobInfo
from extender.state.queue.records import WorkloadInfo, left_of, remaining

MANAGED_JOBS: Final = "gang-managed-jobs"
_MANAGED_JOBS_KEY: Final = "withoutQueueName"


class _JobSpec(Wire, frozen=True):
    cluster_selector: dict[str, str] | None = None


class _OtherJob(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _JobSpec = _JobSpec()


_decode_workload = msgspec.json.Decoder(Workload).decode
_decode_job = msgspec.json.Decoder(_OtherJob).decode


@readable("Workload")
def read_workload(raw: bytes | Raw) -> AdmittedPods:
    """Return the pods of a Workload. Raises DecodeError where the JSON is not one."""
    found = _decode_workload(raw)
    meta, status = found.metadata, found.status
    owners = meta.owner_references or ()
    given = status.admission.pod_set_assignments if status.admission is not None else ()
    asked = {each.name: each.count for each in found.spec.pod_sets}
    done = {each.name: each.count for each in status.reclaimable_pods or ()}
    runs = _may_run(each.type for each in status.conditions or () if each.status == "True")
    return AdmittedPods(
        f"{meta.namespace}/{meta.name}",
        tuple(each.uid for each in owners),
        sum(
            left_of(each.count or 0, asked.get(each.name, 0), done.get(each.name, 0))
            for each in given
            if runs
        ),
        bool(owners) and all((o.api_version, o.kind) == ("v1", "Pod") for o in owners),
    )


def admitted_pods_of(workload: WorkloadInfo) -> AdmittedPods:
    """Return the pods of a Workload that was read as a whole."""
    given = workload.admission.assignments if workload.admission is not None else ()
    runs = _may_run(each.type for each in workload.conditions if each.status == "True")
    return AdmittedPods(
        workload.key,
        tuple(each.uid for each in workload.owners),
        sum(remaining(each, workload) for each in given) if runs else 0,
        workload.is_of_pods,
    )


def _may_run(holding: Iterable[str]) -> bool:
    """Return whether pods may run: one that is evicted has its quota until they are gone."""
    conditions = set(holding)
    return WorkloadCondition.ADMITTED in conditions and WorkloadCondition.FINISHED not in conditions


@readable("job")
def read_job(raw: bytes | Raw, *, kind: str, has_quota: bool) -> JobInfo:
    """Return a job of another kind than Job. Raises DecodeError where the JSON is not one.

    A kind that no queue admits by itself `has_quota` from what made it, and a RayJob that selects a
    cluster needs none.
    """
    found = _decode_job(raw)
    meta = found.metadata
    needs = not has_quota and not found.spec.cluster_selector
    queued = needs and QUEUE_LABEL in (meta.labels or {})
    return JobInfo(
        meta.uid,
        held_by_queue=f"{meta.namespace}/{meta.name}" if queued else None,
        maker=controller_of(meta),
        kind=kind,
        needs_quota=needs,
    )


class ManagedJobs(Wire, frozen=True):
    """Kinds whose jobs are held back in some namespaces."""

    kinds: tuple[str, ...] = ()
    """The kinds, as GROUP/KIND."""
    namespaces: LabelSelector = LabelSelector()


NOTHING: Final = ManagedJobs()


class _ConfigMap(Wire, frozen=True):
    data: dict[str, str] | None = None


class _Namespace(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_decode_config_map = msgspec.json.Decoder(_ConfigMap).decode
_decode_namespace = msgspec.json.Decoder(_Namespace).decode


@readable("ConfigMap")
def read_managed_jobs(raw: bytes | Raw) -> ManagedJobs:
    """Return what the ConfigMap says. Raises DecodeError where the JSON is not one."""
    said = (_decode_config_map(raw).data or {}).get(_MANAGED_JOBS_KEY, "{}")
    return msgspec.json.decode(said, type=ManagedJobs)


@readable("Namespace")
def read_namespace(raw: bytes | Raw) -> ObjectMeta:
    """Return the metadata of a Namespace. Raises DecodeError where the JSON is not one."""
    return _decode_namespace(raw).metadata


def config_maps(namespace: str) -> str:
    """Return the path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def write_managed_jobs(client: KubeClient, namespace: str, jobs: ManagedJobs) -> None:
    """Keep the setting. Raises ApiError."""
    body = {"data": {_MANAGED_JOBS_KEY: msgspec.json.encode(jobs).decode()}}
    await client.request(
        "PATCH",
        f"{config_maps(namespace)}/{MANAGED_JOBS}?fieldManager=gang-extender-reconciler",
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
    )
