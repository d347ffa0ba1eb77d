"""Raw JSON of queues, workloads and jobs to the records of the state.

The facts of admission that `serve` reads come last: admitted Workloads, other jobs than Job, and
the setting for jobs without a queue name. That is the reconciler's, which keeps it for the extender
in a ConfigMap that no other client may write.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar, cast, get_args

import msgspec
from cachetools import LRUCache
from msgspec import Raw

from extender.api import queue_wire as wire
from extender.api.core_v1 import LabelSelector, ObjectMeta, OwnerReference, Wire
from extender.api.queue_wire import Workload
from extender.api.values import KNOWN_TEXTS, LONG_TEXT
from extender.api.wellknown import (
    INDEX_LABEL,
    JOB_UID_LABEL,
    POD_SET_FIELDS_WITHOUT_EFFECT,
    QUEUE_API_VERSION,
    QUEUE_LABEL,
    WorkloadCondition,
    fields_without_effect,
    names_without_effect,
)
from extender.kube import pod_templates
from extender.kube.decode import (
    UNREADABLE,
    DecodeError,
    Decoder,
    conditions_of,
    controller_of,
    deeply,
    readable,
    seconds_of,
)
from extender.kube.sizes import FREE_OF_A_JOB, JOBS, NamespaceBytes, SharedMappings, size_of
from extender.kube.stored import read_assignment
from extender.resources.quantity import amount, parse_resources
from extender.runtime.process import deep_stack
from extender.state.cluster.records import AdmittedPods, ConditionInfo, JobInfo, Shape
from extender.state.queue.events import Record
from extender.state.queue.records import (
    SERVICES,
    AdmissionCheckInfo,
    AdmissionInfo,
    Assignment,
    CheckRule,
    CheckState,
    ClusterQueueInfo,
    CohortInfo,
    CompletionMode,
    DomainRequest,
    FlavorInfo,
    FlavorQuotasInfo,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    Meta,
    NamespaceInfo,
    OwnerRef,
    PodSetInfo,
    PreemptionPolicy,
    PriorityClassInfo,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    Quota,
    RequeueInfo,
    ResourceGroupInfo,
    RuntimeClassInfo,
    StopPolicy,
    TopologyInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
    left_of,
    remaining,
)

T = TypeVar("T")
Labelled = dict[str, object]
"""An object, or as much of it as its labels."""
_MOST_BYTES: Final = KNOWN_TEXTS * LONG_TEXT
"""Bytes of the pod templates that are remembered, and of the pod sets: what many Workloads have is
in memory once."""
_NO_SHAPE: Final = Shape()
"""The shape of a template that cannot be read."""
_KUEUE: Final = b"kueue.x-k8s.io/"
_JOB: Final = "batch/job"


def _or(read: Callable[[bytes | Raw], T], raw: bytes | Raw, otherwise: T) -> T:
    try:
        return read(raw)
    except DecodeError:
        return otherwise


def _reader(kind: type[T]) -> Callable[[bytes | Raw], T]:
    return readable(kind.__name__)(msgspec.json.Decoder(kind).decode)


_flavor = _reader(wire.Flavor)
_topology = _reader(wire.Topology)
_cluster_queue = _reader(wire.ClusterQueue)
_admission_check = _reader(wire.AdmissionCheck)
_provisioning_config = _reader(wire.ProvisioningConfig)
_provisioning_request = _reader(wire.ProvisioningRequest)
_cohort = _reader(wire.Cohort)
_local_queue = _reader(wire.LocalQueue)
_priority_class = _reader(wire.PriorityClass)
_limit_range = _reader(wire.LimitRange)
_runtime_class = _reader(wire.RuntimeClass)
_workload = _reader(wire.Workload)
_workload_parts = _reader(wire.WorkloadParts)
_workload_spec = _reader(wire.WorkloadSpec)
_workload_status = _reader(wire.WorkloadStatus)
_conditions = _reader(wire.Conditions)
_metadata = _reader(wire.OnlyMetadata)
_properties = _reader(wire.Properties)
_job = _reader(wire.Job)
_object = _reader(dict[str, object])


class QueueDecoder:
    """Decodes objects; equal parts of Workloads share one object in memory.

    Every method raises DecodeError where the JSON is not what its API promises.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._templates: LRUCache[tuple[object, ...], tuple[bytes, Shape, str]] = LRUCache(
            _MOST_BYTES, lambda known: max(LONG_TEXT, len(known[0]))
        )
        self._pod_sets: LRUCache[tuple[object, ...], PodSetInfo] = LRUCache(
            _MOST_BYTES, lambda known: max(LONG_TEXT, len(known.template))
        )
        self._admissions: LRUCache[tuple[object, ...], AdmissionInfo] = LRUCache(KNOWN_TEXTS)
        self._mappings = SharedMappings()
        self._account = NamespaceBytes(JOBS, FREE_OF_A_JOB)

    @readable("ResourceFlavor")
    def flavor(self, raw: bytes | Raw) -> FlavorInfo:
        """Return a ResourceFlavor."""
        found = _flavor(raw)
        return FlavorInfo(
            meta=_meta_of("ResourceFlavor", found.metadata, raw),
            node_labels=found.spec.node_labels or {},
            node_taints=tuple(found.spec.node_taints or ()),
            tolerations=tuple(found.spec.tolerations or ()),
            topology=found.spec.topology_name,
        )

    @readable("Topology")
    def topology(self, raw: bytes | Raw) -> TopologyInfo:
        """Return a Topology."""
        found = _topology(raw)
        levels = tuple(each.node_label for each in found.spec.levels)
        return TopologyInfo(_meta(found.metadata), levels)

    @readable("ClusterQueue")
    def cluster_queue(self, raw: bytes | Raw) -> ClusterQueueInfo:
        """Return a ClusterQueue."""
        found = _cluster_queue(raw)
        spec = found.spec
        checks = spec.admission_checks_strategy
        preemption = spec.preemption or wire.QueuePreemption()
        borrow = preemption.borrow_within_cohort or wire.BorrowWithinCohort()
        return ClusterQueueInfo(
            meta=_meta_of("ClusterQueue", found.metadata, raw),
            resource_groups=_groups(spec.resource_groups),
            cohort=spec.cohort_name or None,
            strategy=cast(Any, spec.queueing_strategy),
            namespace_selector=spec.namespace_selector,
            fungibility=spec.flavor_fungibility or wire.FlavorFungibility(),
            preemption=PreemptionPolicy(
                cast(Any, preemption.within_cluster_queue),
                cast(Any, preemption.reclaim_within_cohort),
                cast(Any, borrow.policy),
                borrow.max_priority_threshold,
            ),
            stop_policy=_stop_policy(spec.stop_policy),
            admission_checks=tuple(
                CheckRule(check.name, frozenset(check.on_flavors or ()))
                for check in (checks.admission_checks if checks else None) or ()
            ),
            status=bytes(found.status),
            conditions=conditions_of(_conditions(found.status or b"{}").conditions),
        )

    @readable("AdmissionCheck")
    def admission_check(self, raw: bytes | Raw) -> AdmissionCheckInfo:
        """Return an AdmissionCheck."""
        found = _admission_check(raw)
        of = found.spec.parameters
        return AdmissionCheckInfo(
            _meta(found.metadata),
            found.spec.controller_name,
            (of.api_group, of.kind, of.name) if of is not None else None,
            conditions_of(found.status.conditions),
        )

    @readable("ProvisioningRequestConfig")
    def provisioning_config(self, raw: bytes | Raw) -> ProvisioningConfigInfo:
        """Return a ProvisioningRequestConfig."""
        found = _provisioning_config(raw)
        return ProvisioningConfigInfo(_meta(found.metadata), found.spec)

    @readable("ProvisioningRequest")
    def provisioning_request(self, raw: bytes | Raw) -> ProvisioningRequestInfo:
        """Return a ProvisioningRequest, with the Workload that owns it."""
        found = _provisioning_request(raw)
        meta, owners = _meta(found.metadata), found.metadata.owner_references or ()
        owner = next((each.name for each in owners if each.kind == "Workload"), "")
        details, said = found.status.provisioning_class_details, found.status.conditions
        named = f"{meta.namespace}/{owner}"
        return ProvisioningRequestInfo(meta, named, found.spec, details, conditions_of(said))

    @readable("Cohort")
    def cohort(self, raw: bytes | Raw) -> CohortInfo:
        """Return a Cohort."""
        found = _cohort(raw)
        return CohortInfo(
            meta=_meta_of("Cohort", found.metadata, raw),
            parent=found.spec.parent_name or None,
            resource_groups=_groups(found.spec.resource_groups),
        )

    @readable("LocalQueue")
    def local_queue(self, raw: bytes | Raw) -> LocalQueueInfo:
        """Return a LocalQueue."""
        found = _local_queue(raw)
        return LocalQueueInfo(
            meta=_meta_of("LocalQueue", found.metadata, raw),
            cluster_queue=found.spec.cluster_queue,
            stop_policy=_stop_policy(found.spec.stop_policy),
            status=bytes(found.status),
            conditions=conditions_of(_conditions(found.status or b"{}").conditions),
        )

    @readable("Namespace")
    def namespace(self, raw: bytes | Raw) -> NamespaceInfo:
        """Return a namespace."""
        found = _metadata(raw).metadata
        return NamespaceInfo(found.name, found.labels or {})

    @readable("PriorityClass")
    def priority_class(self, raw: bytes | Raw) -> PriorityClassInfo:
        """Return a PriorityClass of pods."""
        found = _priority_class(raw)
        return PriorityClassInfo(found.metadata.name, found.value, found.global_default)

    @readable("WorkloadPriorityClass")
    def workload_priority_class(self, raw: bytes | Raw) -> WorkloadPriorityClassInfo:
        """Return a WorkloadPriorityClass."""
        found = _priority_class(raw)
        return WorkloadPriorityClassInfo(found.metadata.name, found.value)

    @readable("LimitRange")
    def limit_range(self, raw: bytes | Raw) -> LimitRangeInfo:
        """Return a LimitRange."""
        found = _limit_range(raw)
        items = tuple(found.spec.limits or ())
        for each in items:
            for amounts in (each.limits, each.requests, each.least, each.most, each.ratio):
                parse_resources(amounts)  # they stay as they are written, and are to be readable
        return LimitRangeInfo(_meta(found.metadata), items)

    @readable("RuntimeClass")
    def runtime_class(self, raw: bytes | Raw) -> RuntimeClassInfo:
        """Return a RuntimeClass."""
        found = _runtime_class(raw)
        overhead = (found.overhead.pod_fixed if found.overhead else None) or {}
        parse_resources(overhead)  # it stays as it is written, and is to be readable
        return RuntimeClassInfo(found.metadata.name, overhead)

    def workload(self, raw: bytes | Raw) -> WorkloadInfo:
        """Return a Workload; of an unreadable one, the parts that can be read.

        Its `unreadable` then says why. It is not admitted, its quota stays counted, and it can be
        deleted. Raises DecodeError where its metadata cannot be read.
        """
        try:
            return self._workload(_workload(raw))
        except DecodeError as error:
            return self._partly(raw, error)

    @readable("Workload")
    def _partly(self, raw: bytes | Raw, why: DecodeError) -> WorkloadInfo:
        with deep_stack():
            parts = _workload_parts(raw)
            spec = _or(_workload_spec, parts.spec, wire.WorkloadSpec())
            status = _or(_workload_status, parts.status, wire.WorkloadStatus())
            try:
                found = self._workload(wire.Workload(parts.metadata, spec, status))
            except DecodeError:  # an amount or a time: what else there is may be just as wrong
                found = self._workload(wire.Workload(parts.metadata))
        return replace(found, unreadable=str(why))

    @readable("Workload")
    def _workload(self, found: wire.Workload) -> WorkloadInfo:
        spec, status, ref = found.spec, found.status, found.spec.priority_class_ref
        requeue, stats = status.requeue_state, status.scheduling_stats
        pod_sets = tuple(map(self._pod_set, spec.pod_sets))
        opened = {gate.name for gate in status.preemption_gates or () if gate.position == "Open"}
        gates = [gate.name for gate in spec.preemption_gates or ()]
        meta, conditions = _meta(found.metadata, self._mappings), conditions_of(status.conditions)
        unused = {path for each in spec.pod_sets for path in _unused(each)}.difference(meta.ignored)
        return WorkloadInfo(
            meta=replace(meta, ignored=(*meta.ignored, *sorted(unused))) if unused else meta,
            pod_sets=pod_sets,
            queue_name=intern(spec.queue_name),
            priority=spec.priority or 0,
            priority_class=(ref.group, ref.kind, ref.name) if ref else None,
            active=spec.active,
            max_execution=spec.maximum_execution_time_seconds,
            owners=tuple(map(_ref, found.metadata.owner_references or ())),
            admission=self._admission(status.admission, conditions),
            conditions=conditions,
            requeue=RequeueInfo(
                requeue.count or 0, seconds_of(requeue.requeue_at) if requeue.requeue_at else None
            )
            if requeue
            else None,
            reclaimable={pods.name: pods.count for pods in status.reclaimable_pods or ()},
            past_execution=status.accumulated_past_execution_time_seconds or 0,
            evictions=tuple((stats.evictions if stats else None) or ()),
            closed_gates=tuple(name for name in gates if name not in opened),
            open_gates=tuple(name for name in gates if name in opened),
            checks=tuple(map(_check, status.admission_checks or ())),
            unreadable=next((each.fault for each in pod_sets if each.fault), ""),
        )

    @readable("job")
    def job(
        self,
        raw: bytes | Raw,
        *,
        kind: str,
        group_of: Callable[[Labelled], str] | None = None,
        done: Callable[[Labelled], Mapping[str, int]] | None = None,
        concerns: Callable[[bytes], bool] | None = None,
        read: Callable[[bytes], object] | None = None,
    ) -> JobObject:
        """Return a job of any kind.

        `group_of` names the job that an object belongs to, `done` counts pods that are done, and
        `read` returns what decisions about a job of several objects read of each.
        Of an object that is no job by `concerns` only metadata is kept: where pods are queued
        without a queue name, these are all pods of the cluster.
        """
        meta = deeply(_metadata, raw).metadata
        kept = bytes(raw)
        if concerns is not None and not concerns(kept):
            bare = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
            kept = msgspec.json.encode({"metadata": {**bare, "labels": meta.labels or {}}})
            meta = msgspec.structs.replace(meta, annotations=None)
        found = JobObject(
            kind=kind,
            meta=_meta(meta),
            raw=kept,
            queue_name=(meta.labels or {}).get(QUEUE_LABEL, ""),
            owner=next((_ref(o) for o in meta.owner_references or () if o.controller), None),
            group=group_of({"metadata": {"labels": meta.labels or {}}}) if group_of else "",
            done=done(_or(_object, raw, {})) if done else {},
            completion_mode=_completion_mode(raw) if kind == _JOB else None,
            decoded=_decoded(read, kept),
        )
        words = size_of(meta.labels or {}) + size_of(meta.annotations or {})
        self._account.charge(meta.namespace, found, len(kept) + words)
        return found

    def _pod_set(self, found: wire.PodSet) -> PodSetInfo:
        raw = bytes(found.template)
        try:
            template, shape, _ = self._template(raw, (), {})
        except DecodeError as error:
            why = f"pod set {found.name}: {error}"
            return PodSetInfo(found.name, found.count, _NO_SHAPE, found.min_count, raw, why)
        request = _topology_request(found.topology_request, found.count)
        made = PodSetInfo(
            found.name,
            found.count,
            shape,
            found.min_count,
            template,
            resource_claims=pod_templates.has_resource_claims(raw),
            topology=request,
        )
        if request is not None:
            return made
        return self._pod_sets.setdefault((found.name, found.count, found.min_count, template), made)

    def completed(
        self,
        pod_set: PodSetInfo,
        limits: Sequence[wire.LimitRangeItem],
        classes: Mapping[str, RuntimeClassInfo],
    ) -> PodSetInfo:
        """Return a pod set as its pods will be under these limits and with these RuntimeClasses."""
        try:
            template, shape, fault = self._template(pod_set.template, limits, classes)
        except DecodeError as error:
            return replace(pod_set, fault=str(error))
        if shape is pod_set.shape and fault == pod_set.fault:
            return pod_set
        return replace(pod_set, shape=shape, template=template, fault=fault)

    def _template(
        self,
        raw: bytes,
        limits: Sequence[wire.LimitRangeItem],
        classes: Mapping[str, RuntimeClassInfo],
    ) -> tuple[bytes, Shape, str]:
        """Return the first of equal templates, what its pods ask for, and what is wrong with it."""
        named = classes.values() if pod_templates.names_class(raw) else ()
        key = (raw, *limits, *named)
        known = self._templates.get(key)
        if known is None:
            complete = pod_templates.complete(raw, limits, classes)
            shape = self._decoder.template(complete)
            fault = pod_templates.fault(complete, limits)
            known = self._templates[key] = (raw, shape, fault)
        return known

    def _admission(
        self, found: wire.WorkloadAdmission | None, conditions: Iterable[ConditionInfo]
    ) -> AdmissionInfo | None:
        if found is None:
            return None
        given = found.pod_set_assignments
        admitted = (WorkloadCondition.ADMITTED, "True")
        waits = all((each.type, each.status) != admitted for each in conditions)
        made = AdmissionInfo(found.cluster_queue, tuple(map(_assignment, given)), waits)
        if any(bytes(each.topology_assignment) for each in given):
            return made
        return self._admissions.setdefault((found.cluster_queue, waits, *map(_words, given)), made)


class RecordKind(NamedTuple):
    """A kind of object that the queue is decided by."""

    path: str
    """The path of all its objects."""
    record: type[Record]
    decode: Callable[[QueueDecoder, bytes], Record]

    @property
    def plural(self) -> str:
        """The plural of its name."""
        return self.path.rpartition("/")[2]


_QUEUE: Final = f"/apis/{QUEUE_API_VERSION}"
RECORDS: Final = (
    RecordKind("/api/v1/namespaces", NamespaceInfo, QueueDecoder.namespace),
    RecordKind("/api/v1/limitranges", LimitRangeInfo, QueueDecoder.limit_range),
    RecordKind("/apis/node.k8s.io/v1/runtimeclasses", RuntimeClassInfo, QueueDecoder.runtime_class),
    RecordKind(
        "/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClassInfo, QueueDecoder.priority_class
    ),
    RecordKind(
        f"{_QUEUE}/workloadpriorityclasses",
        WorkloadPriorityClassInfo,
        QueueDecoder.workload_priority_class,
    ),
    RecordKind(f"{_QUEUE}/resourceflavors", FlavorInfo, QueueDecoder.flavor),
    RecordKind(f"{_QUEUE}/topologies", TopologyInfo, QueueDecoder.topology),
    RecordKind(f"{_QUEUE}/admissionchecks", AdmissionCheckInfo, QueueDecoder.admission_check),
    RecordKind(f"{_QUEUE}/cohorts", CohortInfo, QueueDecoder.cohort),
    RecordKind(f"{_QUEUE}/clusterqueues", ClusterQueueInfo, QueueDecoder.cluster_queue),
    RecordKind(f"{_QUEUE}/localqueues", LocalQueueInfo, QueueDecoder.local_queue),
    RecordKind(f"{_QUEUE}/workloads", WorkloadInfo, QueueDecoder.workload),
)
"""These kinds, in an order in which they can be read one after the other."""


def _words(found: wire.PodSetAssignment) -> tuple[object, ...]:
    flavors, usage = found.flavors or {}, found.resource_usage or {}
    return found.name, found.count, tuple(flavors.items()), tuple(usage.items())


def _assignment(found: wire.PodSetAssignment) -> Assignment:
    return Assignment(
        found.name,
        found.flavors or {},
        parse_resources(found.resource_usage),
        found.count or 0,
        read_assignment(found.topology_assignment),
    )


def _check(found: wire.AdmissionCheckState) -> CheckState:
    return CheckState(
        intern(found.name),
        intern(found.state),
        found.message,
        seconds_of(found.last_transition_time) if found.last_transition_time else 0.0,
        tuple(found.pod_set_updates or ()),
        found.requeue_after_seconds,
        found.retry_count or 0,
    )


def _topology_request(found: wire.TopologyRequest | None, count: int) -> DomainRequest | None:
    if found is None:
        return None
    size, level = found.pod_set_slice_size, found.pod_set_slice_required_topology or None
    return DomainRequest(
        required=found.required or None,
        preferred=found.preferred or None,
        unconstrained=bool(found.unconstrained),
        slice_level=level,
        slice_size=size if level and size and size > 0 else 1,
        index_label=found.pod_index_label,
        fault=_topology_fault(found, count),
    )


def _topology_fault(found: wire.TopologyRequest, count: int) -> str:
    """Return what of a request is not honoured, or contradicts the rest of it."""
    said = (found.required, found.preferred, found.unconstrained)
    if sum(map(bool, said)) > 1:
        return "of required, preferred and unconstrained it may say one"
    if found.pod_set_group_name:
        return "podSetGroupName is not honoured"
    if found.podset_slice_required_topology_constraints:
        return "podsetSliceRequiredTopologyConstraints is not honoured: slices have one layer"
    size = found.pod_set_slice_size
    if (size is None) != (not found.pod_set_slice_required_topology):
        return "podSetSliceRequiredTopology and podSetSliceSize belong together"
    if size is not None and not 1 <= size <= max(1, count):
        return f"podSetSliceSize is {size}: use a number from 1 to the pod set's {count} pods"
    return ""


def _meta(found: wire.Metadata, shared: SharedMappings | None = None) -> Meta:
    """Return metadata; with `shared` of one of many objects that have the same labels."""
    version, labels, annotations = found.resource_version, found.labels, found.annotations
    if labels and JOB_UID_LABEL in labels:
        shared = None  # no other object has these
    return Meta(
        name=found.name,
        namespace=intern(found.namespace),
        uid=found.uid,
        version=int(version) if version.isdecimal() else 0,
        generation=found.generation,
        created=seconds_of(found.creation_timestamp),
        terminating=found.deletion_timestamp is not None,
        labels=shared.of(labels) if shared else labels or {},
        annotations=shared.of(annotations) if shared else annotations or {},
        finalizers=tuple(found.finalizers or ()),
        ignored=names_without_effect(labels or (), annotations or ()),
    )


def _meta_of(kind: str, found: wire.Metadata, raw: bytes | Raw) -> Meta:
    """Return metadata, with the fields of the object's spec that have no effect."""
    meta = _meta(found)
    unused = fields_without_effect(kind, _properties(raw).spec or ())
    return replace(meta, ignored=(*unused, *meta.ignored)) if unused else meta


def _unused(found: wire.PodSet) -> Iterator[str]:
    """Yield what has no effect in a pod set: names in its template, fields of its topology."""
    if _KUEUE in bytes(found.template):
        metadata = deeply(_metadata, found.template).metadata
        yield from names_without_effect(metadata.labels or (), metadata.annotations or ())
    request = found.topology_request
    if request is None:
        return
    index = request.pod_index_label if request.pod_index_label != INDEX_LABEL else None
    said = (index, request.sub_group_index_label, request.sub_group_count)
    for name, value in zip(POD_SET_FIELDS_WITHOUT_EFFECT, said, strict=True):
        if value:
            yield f"spec.podSets[{found.name}].topologyRequest.{name}"


def _ref(owner: OwnerReference) -> OwnerRef:
    controller = bool(owner.controller)
    return OwnerRef(owner.api_version, owner.kind, owner.name, owner.uid, controller)


def _groups(found: Sequence[wire.Group] | None) -> tuple[ResourceGroupInfo, ...]:
    return tuple(
        ResourceGroupInfo(tuple(group.covered_resources), tuple(map(_quotas, group.flavors)))
        for group in found or ()
    )


def _quotas(found: wire.FlavorQuota) -> FlavorQuotasInfo:
    def limit(name: str, value: str | float | None) -> int | None:
        return None if value is None else amount(name, value)

    return FlavorQuotasInfo(
        found.name,
        {
            quota.name: Quota(
                amount(quota.name, quota.nominal_quota),
                limit(quota.name, quota.borrowing_limit),
                limit(quota.name, quota.lending_limit),
            )
            for quota in found.resources
        },
    )


def _stop_policy(word: str | None) -> StopPolicy:
    return cast("StopPolicy", word) if word in get_args(StopPolicy) else "None"


def _decoded(read: Callable[[bytes], object] | None, raw: bytes) -> object:
    try:
        return read(raw) if read is not None else None
    except UNREADABLE:
        return None  # the decision about the job reports the error


def _completion_mode(raw: bytes | Raw) -> CompletionMode | None:
    try:
        found = _job(raw).spec.completion_mode
    except DecodeError:
        return None  # the decision about the job reports the error
    return "Indexed" if found == "Indexed" else "NonIndexed"


MANAGED_JOBS: Final = "gang-managed-jobs"
MANAGED_JOBS_KEY: Final = "withoutQueueName"


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
        (bool(owners) and all((o.api_version, o.kind) == ("v1", "Pod") for o in owners))
        or any(_ref(o).group_kind in SERVICES for o in owners if o.controller),
    )


def admitted_pods_of(workload: WorkloadInfo) -> AdmittedPods:
    """Return the pods of a Workload that was read as a whole."""
    given = workload.admission.assignments if workload.admission is not None else ()
    runs = _may_run(each.type for each in workload.conditions if each.status == "True")
    return AdmittedPods(
        workload.key,
        tuple(each.uid for each in workload.owners),
        sum(remaining(each, workload) for each in given) if runs else 0,
        workload.is_of_pods or workload.service is not None,
    )


def _may_run(holding: Iterable[str]) -> bool:
    """Return whether pods may run: one that is evicted has its quota until they are gone."""
    conditions = set(holding)
    return WorkloadCondition.ADMITTED in conditions and WorkloadCondition.FINISHED not in conditions


@readable("job")
def read_job(raw: bytes | Raw, *, kind: str) -> JobInfo:
    """Return a job of another kind than Job. Raises DecodeError where the JSON is not one.

    A RayJob that selects a cluster needs no quota, and the RayCluster of a RayJob has that one's.
    """
    found = _decode_job(raw)
    meta = found.metadata
    owners = meta.owner_references or ()
    made = any(each.controller and each.kind == "RayJob" for each in owners)
    needs = not (made or found.spec.cluster_selector)
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


NOT_MANAGED: Final = ManagedJobs()


class _ConfigMap(Wire, frozen=True):
    data: dict[str, str] | None = None


_decode_config_map = msgspec.json.Decoder(_ConfigMap).decode


@readable("ConfigMap")
def read_managed_jobs(raw: bytes | Raw) -> ManagedJobs:
    """Return what the ConfigMap says. Raises DecodeError where the JSON is not one."""
    said = (_decode_config_map(raw).data or {}).get(MANAGED_JOBS_KEY, "{}")
    return msgspec.json.decode(said, type=ManagedJobs)


@readable("Namespace")
def read_namespace(raw: bytes | Raw) -> ObjectMeta:
    """Return the metadata of a Namespace. Raises DecodeError where the JSON is not one."""
    return _metadata(raw).metadata
