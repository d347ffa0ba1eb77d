"""For how many pods Workloads are admitted, and the jobs of all kinds that these are for."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, field

from extender.api.core_v1 import Condition, ObjectMeta, Wire
from extender.api.queue_wire import Reclaimable
from extender.api.wellknown import QUEUE_LABEL, WorkloadCondition
from extender.kube.decode import controller_of, readable
from extender.state.cluster.records import AdmittedPods, JobInfo
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.usage import left_of, remaining


class _PodCount(Wire, frozen=True):
    name: str = "main"
    count: int | None = None


class _AskedPods(Wire, frozen=True):
    pod_sets: list[_PodCount] = field(default_factory=list)


class _Admission(Wire, frozen=True):
    pod_set_assignments: list[_PodCount] = field(default_factory=list)


class _AdmittedStatus(Wire, frozen=True):
    admission: _Admission | None = None
    conditions: list[Condition] | None = None
    reclaimable_pods: list[Reclaimable] | None = None


class _WorkloadPods(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _AskedPods = _AskedPods()
    status: _AdmittedStatus = _AdmittedStatus()


class _JobSpec(Wire, frozen=True):
    cluster_selector: dict[str, str] | None = None


class _OtherJob(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _JobSpec = _JobSpec()


_decode_workload = msgspec.json.Decoder(_WorkloadPods).decode
_decode_job = msgspec.json.Decoder(_OtherJob).decode


@readable("Workload")
def read(raw: bytes | Raw) -> AdmittedPods:
    """Return the pods of a Workload. Raises DecodeError where the JSON is not one."""
    found = _decode_workload(raw)
    meta, status = found.metadata, found.status
    owners = meta.owner_references or ()
    given = status.admission.pod_set_assignments if status.admission is not None else ()
    asked = {each.name: each.count or 0 for each in found.spec.pod_sets}
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


def of_workload(workload: WorkloadInfo) -> AdmittedPods:
    """Return the same of a Workload that was read as a whole."""
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
