"""Raw JSON of the API server to the records of the state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from itertools import islice
from sys import intern
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from extender.api import core_v1 as core
from extender.api.core_v1 import NativePodGroup
from extender.api.values import INDEX_END, count_below, pods_at_first, pods_left, whole
from extender.api.wellknown import (
    DISRUPTION_BUDGET,
    DONE_ANNOTATION,
    GANG_READY,
    GROUP_NATIVE,
    INDEX_LABEL,
    JOB_SET_LABEL,
    JOB_SET_RESTARTS_LABEL,
    MANAGED_BY_LABEL,
    MANAGER,
    MIN_RUN_SECONDS,
    ON_PARTIAL_ANNOTATION,
    PLACEMENT_ANNOTATION,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
    PODSET_LABEL,
    PREEMPTION_COST,
    PREFERRED_TOPOLOGY,
    QUEUE_LABEL,
    QUEUED_GROUPS,
    REQUIRED_TOPOLOGY,
    TOPOLOGY_ASSIGNMENT,
)
from extender.kube.shapes import Patterns, Shapes
from extender.kube.sizes import (
    MOST_CHARACTERS,
    MOST_ENTRIES,
    MOST_NAMES,
    NamespaceBytes,
    OversizedError,
    SharedLabels,
    WeakDict,
    check_lists,
    check_raw,
    size_of,
)
from extender.kube.stored import read_assignments, read_grant, read_preemption
from extender.resources.ignored import (
    IGNORE_NOTHING,
    IgnoredResources,
)
from extender.resources.quantity import parse_resources
from extender.runtime.process import deep_stack
from extender.state.cluster.records import (
    RESOURCE_CLAIMS,
    VOLUME_CLAIMS,
    BudgetInfo,
    ConditionInfo,
    DomainAssignment,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodGroupStatusInfo,
    PodInfo,
    Resumption,
    Shape,
)

_FINISHED = frozenset(("Succeeded", "Failed"))
_ENDED = frozenset(("Complete", "Failed"))


class DecodeError(ValueError):
    """An object does not have the shape that its API promises."""


UNREADABLE: Final = (
    msgspec.MsgspecError,
    ValueError,  # quantities, text that is no UTF-8, numbers of thousands of digits
    ArithmeticError,  # times and amounts beyond what a number holds
    RecursionError,  # nested too deeply
)
"""The errors of content that cannot be decoded; any other error is a bug."""

P = ParamSpec("P")
R = TypeVar("R")


def readable(kind: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decoder raise DecodeError for whatever an object of a kind may hold."""

    def guarded(decode: Callable[P, R]) -> Callable[P, R]:
        @wraps(decode)
        def read(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return decode(*args, **kwargs)
            except DecodeError:
                raise
            except UNREADABLE as error:
                raise DecodeError(f"not a readable {kind}: {error}") from error

        return read

    return guarded


def deeply(decode: Callable[[bytes | Raw], R], raw: bytes | Raw) -> R:
    """Return what a decoder reads, however deeply the fields are nested that it skips.

    Raises DecodeError.
    """
    try:
        return decode(raw)
    except (DecodeError, RecursionError):
        with deep_stack():
            return decode(raw)


_decode_pod = msgspec.json.Decoder(core.UnreadPod).decode
_decode_node = msgspec.json.Decoder(core.Node).decode
_decode_time = msgspec.json.Decoder(datetime | None).decode
_decode_volume_claim = msgspec.json.Decoder(core.VolumeClaimSource).decode
_decode_claims = msgspec.json.Decoder(list[core.PodResourceClaim] | None).decode
_decode_job = msgspec.json.Decoder(core.Job).decode
_decode_budget = msgspec.json.Decoder(core.DisruptionBudget).decode
_decode_pod_group = msgspec.json.Decoder(core.PodGroup).decode
_decode_native = msgspec.json.Decoder(NativePodGroup).decode


def group_of(namespace: str, labels: Mapping[str, str] | None) -> str | None:
    """Return the `namespace/name` of the PodGroup that the labels name, the newer label first."""
    if not labels:
        return None
    name = labels.get(POD_GROUP_LABEL) or labels.get(POD_GROUP_LABEL_SIGS)
    return f"{namespace}/{name}" if name else None


def native_of(namespace: str, group: core.SchedulingGroup | None) -> str | None:
    """Return the `namespace/name` of the native PodGroup that a pod or a template names."""
    return f"{namespace}/{group.pod_group_name}" if group and group.pod_group_name else None


class Decoder:
    """Decodes objects; pods of one template come out with one Shape.

    Resources that kube-scheduler ignores are no part of what a pod asks a node for. With `patterns`
    the members of gangs that wait for a node have theirs.
    """

    def __init__(
        self,
        ignored: IgnoredResources = IGNORE_NOTHING,
        patterns: Patterns | None = None,
        *,
        placement: str | None = None,
    ) -> None:
        """`placement` is that of PodGroups which say none."""
        self._placement = placement
        self._ignored = ignored
        self._patterns = patterns
        self._account = NamespaceBytes()
        self._shapes = Shapes(ignored, self._account)
        self._labels = SharedLabels(self._account)
        self._assignments = WeakValueDictionary[tuple[str, str], WeakDict[str, DomainAssignment]]()

    @readable("Pod")
    def pod(self, raw: bytes | Raw) -> PodInfo:
        """Return a pod. Raises DecodeError where the JSON is not one.

        One that is too large, and has a node, is read for what it takes there, and `unreadable`
        says why.
        """
        pod = _decode_pod(raw)
        meta, spec, unreadable = pod.metadata, pod.spec, ""
        try:
            check_lists(meta, spec)
            shape = self._shapes.of(pod, raw)
            labels = self._labels.of(meta.labels, meta.namespace)
        except OversizedError as error:
            if not spec.node_name:
                raise
            shape, labels, unreadable = self._shapes.taken(pod, raw), {}, str(error)
        conditions = pod.status.conditions or ()
        holding = {c.type for c in conditions if c.status == "True"}
        scheduled = next((c for c in conditions if c.type == "PodScheduled"), None)
        native = native_of(meta.namespace, spec.scheduling_group)
        group = group_of(meta.namespace, meta.labels) or native
        owners, said = meta.owner_references or (), meta.annotations or core.PodAnnotations()
        workload = f"{meta.namespace}/{said.workload[:MOST_CHARACTERS]}" if said.workload else None
        # Clusters before 1.28 have the completion index in the annotation alone.
        index = (meta.labels or {}).get(INDEX_LABEL, said.completion_index)
        waits = group is not None and not (spec.node_name or spec.scheduling_gates)
        return PodInfo(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            shape=shape,
            group=group,
            native=native,
            node=spec.node_name or None,
            nominated=pod.status.nominated_node_name or None,
            priority=spec.priority or 0,
            gates=tuple(gate.name for gate in (spec.scheduling_gates or ())[:MOST_NAMES]),
            terminating=meta.deletion_timestamp is not None,
            finished=pod.status.phase in _FINISHED,
            created=seconds_of(meta.creation_timestamp),
            unschedulable=_unschedulable(scheduled) if not spec.node_name else None,
            scheduler=spec.scheduler_name[:MOST_CHARACTERS],
            phase=pod.status.phase or "Pending",
            ready="ContainersReady" in holding,
            owners=tuple(f"{meta.namespace}/{o.name}" for o in owners[:MOST_NAMES]),
            controller=controller_of(meta),
            controller_kind=_controller_kind(meta),
            only_node=_only_node(meta, shape),
            readiness_gate=any(g.condition_type == GANG_READY for g in spec.readiness_gates or ()),
            pod_set=(meta.labels or {}).get(PODSET_LABEL),
            workload=workload,
            gang_ready=GANG_READY in holding,
            index=_count(index),
            preempts=spec.preemption_policy != "Never",
            cost=_cost(said.preemption_cost),
            mirror=said.mirror is not None,
            bound_at=seconds_of(_decode_time(scheduled.last_transition_time or b"null"))
            if spec.node_name and scheduled
            else 0.0,
            refused_at=_refused_at(pod.status, meta) if pod.status.phase == "Failed" else None,
            gone_by=_time(meta.deletion_timestamp) if meta.deletion_timestamp else None,
            labels=labels,
            unreadable=unreadable,
            pattern=self._patterns.of(raw, meta, shape)
            if waits and self._patterns is not None
            else None,
            claim_keys=tuple(islice(_claim_keys(pod), MOST_ENTRIES))
            if shape.individually_constrained
            else (),
        )

    @readable("Node")
    def node(self, raw: bytes | Raw) -> NodeInfo:
        """Return a node. Raises DecodeError where the JSON is not one."""
        node = _decode_node(raw)
        allocatable = parse_resources(node.status.allocatable)
        said = next((c for c in node.status.conditions or () if c.type == "Ready"), None)
        ready = said is None or said.status == "True"
        return NodeInfo(
            name=node.metadata.name,
            allocatable=allocatable,
            labels=node.metadata.labels or {},
            taints=tuple(node.spec.taints or ()),
            unschedulable=node.spec.unschedulable,
            ready=ready,
            unready_since=seconds_of(_decode_time(said.last_transition_time or b"null")) or None
            if said and not ready
            else None,
            features=frozenset(node.status.declared_features or ()),
        )

    @readable("Job")
    def job(self, raw: bytes | Raw) -> JobInfo:
        """Return a Job. Raises DecodeError where the JSON is not one."""
        job = _decode_job(raw)
        space, template = job.metadata.namespace, job.spec.template
        native = native_of(space, template.spec.scheduling_group)
        group = group_of(space, template.metadata.labels) or native
        ended = any(c.type in _ENDED and c.status == "True" for c in job.status.conditions or ())
        if ended and not job.status.completion_time:
            return JobInfo(job.metadata.uid, group)
        begun, done, more = _pods_of(job.spec, job.status)
        created = seconds_of(job.metadata.creation_timestamp)
        if ended:
            completed = seconds_of(job.status.completion_time)
            return JobInfo(
                job.metadata.uid, group, begun, begun, created=created, completed=completed
            )
        queued = QUEUE_LABEL in (job.metadata.labels or {})
        key = f"{job.metadata.namespace}/{job.metadata.name}"
        held = key if queued else None
        maker = controller_of(job.metadata)
        found = JobInfo(job.metadata.uid, group, begun, done, more, held, maker, created)
        resumes = _resumes(job, key, maker) if held is None else None
        return replace(found, resumes=resumes) if resumes is not None else found

    @readable("PodGroup")
    def pod_group(self, raw: bytes | Raw, *, api_group: str) -> PodGroupInfo:
        """Return a PodGroup of an API group. Raises DecodeError where the JSON is not one."""
        found = _decode_pod_group(raw)
        asked = parse_resources(found.spec.min_resources)
        ignored = self._ignored.is_ignored_by_any
        min_resources = WeakDict({name: n for name, n in asked.items() if not ignored(name)})
        self._account.charge(found.metadata.namespace, min_resources, size_of(min_resources))
        timeout, said = found.spec.schedule_timeout_seconds, _words(found.metadata.annotations)
        status = _status(found.status)
        return PodGroupInfo(
            namespace=found.metadata.namespace,
            name=found.metadata.name,
            api_group=api_group,
            min_member=found.spec.min_member,
            uid=found.metadata.uid,
            min_resources=min_resources,
            schedule_timeout=float(timeout) if timeout and timeout > 0 else None,
            created=seconds_of(found.metadata.creation_timestamp),
            on_partial=said.get(ON_PARTIAL_ANNOTATION),
            disruption_budget=said.get(DISRUPTION_BUDGET),
            required_topology=said.get(REQUIRED_TOPOLOGY),
            preferred_topology=said.get(PREFERRED_TOPOLOGY),
            cost=_cost(said.get(PREEMPTION_COST)),
            min_run=_count(said.get(MIN_RUN_SECONDS)),
            placement=said.get(PLACEMENT_ANNOTATION, self._placement),
            assigned=self._assigned(found.metadata.namespace, said.get(TOPOLOGY_ASSIGNMENT)),
            grant=read_grant(found.status.granted_room),
            nomination=read_preemption(found.status.preemption),
            kept_nodes=found.status.kept_nodes or (),
            done=_count(said.get(DONE_ANNOTATION)) or 0,
            started=status.started,
            succeeded=status.succeeded,
            generation=found.metadata.generation,
            version=whole(found.metadata.resource_version) or 0,
            status=status,
        )

    @readable("PodGroup")
    def native_pod_group(self, raw: bytes | Raw) -> PodGroupInfo:
        """Return a PodGroup of `scheduling.k8s.io`. Raises DecodeError where the JSON is not one.

        One without a gang policy has a `min_member` of 0: its pods are scheduled one by one.
        """
        found = _decode_native(raw)
        meta, said = found.metadata, _words(found.metadata.annotations)
        policy, constraints = found.spec.scheduling_policy, found.spec.scheduling_constraints
        topology = constraints.topology if constraints is not None else None
        return PodGroupInfo(
            namespace=meta.namespace,
            name=meta.name,
            api_group=GROUP_NATIVE,
            min_member=policy.gang.min_count if policy.gang is not None else 0,
            uid=meta.uid,
            created=seconds_of(meta.creation_timestamp),
            on_partial=said.get(ON_PARTIAL_ANNOTATION),
            required_topology=topology[0].key if topology else None,
            preferred_topology=said.get(PREFERRED_TOPOLOGY),
            cost=_cost(said.get(PREEMPTION_COST)),
            min_run=_count(said.get(MIN_RUN_SECONDS)),
            placement=said.get(PLACEMENT_ANNOTATION, self._placement),
            generation=meta.generation,
            version=whole(meta.resource_version) or 0,
            status=PodGroupStatusInfo(conditions=conditions_of(found.status.conditions)),
        )

    @readable("PodDisruptionBudget")
    def budget(self, raw: bytes | Raw) -> BudgetInfo:
        """Return a disruption budget. Raises DecodeError where the JSON is not one."""
        found = _decode_budget(raw)
        size = check_raw("spec.selector", msgspec.json.encode(found.spec.selector))
        meta, need = found.metadata, found.spec.min_available
        budget = BudgetInfo(
            namespace=meta.namespace,
            name=meta.name,
            selector=found.spec.selector,
            allowed=found.status.disruptions_allowed,
            uid=meta.uid,
        )
        owner = next((o for o in meta.owner_references or () if o.kind == "PodGroup"), None)
        if owner is not None and (meta.labels or {}).get(MANAGED_BY_LABEL) == MANAGER:
            need = need if isinstance(need, int) else None
            budget = replace(budget, gang=owner.name, gang_uid=owner.uid, need=need)
        self._account.charge(budget.namespace, budget, size)
        return budget

    @readable("pod template")
    def template(self, raw: bytes | Raw) -> Shape:
        """Return the shape of a pod template's pods. Raises DecodeError where it is none."""
        return self._shapes.of(_decode_pod(raw), raw, charged=False)

    def _assigned(self, namespace: str, text: str | None) -> Mapping[str, DomainAssignment]:
        """Return the assignments of an annotation: it is read with each change of a status."""
        if not text:
            return {}
        found = self._assignments.get((namespace, text))
        if found is None:
            found = WeakDict(read_assignments(text))
            domains = sum(len(each.domains) for each in found.values())
            self._account.charge(namespace, found, len(text) + 20 * domains)
            self._assignments[namespace, text] = found
        return found


def _pods_of(spec: core.JobSpec, status: core.JobStatus) -> tuple[int, int, int]:
    """Return how many pods a Job begins with, how many fewer it runs now, and how many come later.

    A Job without `completions` is a work queue: how many pods come later is unknown, and 0 here.
    """
    parallel = 1 if spec.parallelism is None else spec.parallelism
    wanted = spec.completions
    begun = pods_at_first(parallel, wanted)
    failed = count_below(wanted or 0, status.failed_indexes or "")
    done = (status.succeeded or 0) + failed
    left = pods_left(parallel, wanted, done=done, active=status.active or 0)
    return begun, begun - left, 0 if wanted is None else wanted - begun


def _status(status: core.PodGroupStatus) -> PodGroupStatusInfo:
    started = status.schedule_start_time
    return PodGroupStatusInfo(
        phase=status.phase,
        occupied_by=status.occupied_by,
        scheduled=status.scheduled,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        started=seconds_of(started) if started else None,
        conditions=conditions_of(status.conditions),
    )


def conditions_of(conditions: Sequence[core.Condition] | None) -> tuple[ConditionInfo, ...]:
    """Return the conditions of a status; equal texts are one in memory."""
    return tuple(
        ConditionInfo(
            intern(c.type),
            intern(c.status),
            intern(c.reason),
            intern(c.message),
            seconds_of(c.last_transition_time),
            c.observed_generation,
        )
        for c in conditions or ()
    )


def seconds_of(moment: datetime | None) -> float:
    """Return seconds since the epoch; 0 for no time."""
    return moment.timestamp() if moment else 0.0


_WORDS: Final = frozenset(
    (
        *(ON_PARTIAL_ANNOTATION, DISRUPTION_BUDGET),
        *(REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, PLACEMENT_ANNOTATION),
    )
)
"""The annotations of a PodGroup that are kept as they are."""


def _resumes(job: core.Job, key: str, maker: str | None) -> Resumption | None:
    """Return the object to resume: we have suspended it, and the Job has no pods or was resumed.

    A JobSet that restarts makes its Jobs anew, without our mark: only the JobSet has it then.
    """
    said = job.metadata.annotations.restarting if job.metadata.annotations else None
    labels = job.metadata.labels or {}
    ours = said is not None or labels.get(JOB_SET_RESTARTS_LABEL, "0") != "0"
    if maker is not None:
        said = said or labels.get(JOB_SET_LABEL)
    stopped = any(
        each.type == "Suspended" and each.status == "True" for each in job.status.conditions or ()
    )
    is_stopped = stopped and job.spec.suspend and not job.status.active
    if said is None or not (is_stopped or (maker is None and not job.spec.suspend)):
        return None
    job_set = f"{job.metadata.namespace}/{said}" if maker is not None else None
    return Resumption(key, job_set, ours)


def _words(annotations: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the annotations of a PodGroup. Words that mean nothing are cut where they are long."""
    said = dict(annotations or {})
    for name in _WORDS & said.keys():
        said[name] = said[name][:MOST_CHARACTERS]
    return said


def controller_of(meta: core.ObjectMeta) -> str | None:
    """Return the UID of the owner that makes others in an object's place."""
    return next((o.uid for o in meta.owner_references or () if o.controller), None)


def _claim_keys(pod: core.UnreadPod) -> Iterator[str]:
    """Yield the keys of the claims that a pod names, of volumes only where it has no node.

    A claim that is still to be made from a template has none: its key lacks the name.
    """
    meta, spec = pod.metadata, pod.spec
    for volume in (spec.volumes or ()) if not spec.node_name else ():
        if bytes(volume.persistent_volume_claim):
            name = _decode_volume_claim(volume.persistent_volume_claim).claim_name
            yield f"{VOLUME_CLAIMS}/{meta.namespace}/{name}"
        elif bytes(volume.ephemeral):
            yield f"{VOLUME_CLAIMS}/{meta.namespace}/{meta.name}-{volume.name}"
    if not bytes(spec.resource_claims):
        return
    said = bytes(pod.status.resource_claim_statuses)
    made = {each.name: each.resource_claim_name for each in _decode_claims(said or b"null") or ()}
    for claim in _decode_claims(spec.resource_claims) or ():
        found = claim.resource_claim_name or made.get(claim.name, "")
        if found is not None:  # its template asks for none
            yield f"{RESOURCE_CLAIMS}/{meta.namespace}/{found}"


def _controller_kind(meta: core.ObjectMeta) -> str | None:
    """Return the kind of that owner as GROUP/KIND, where a queue may admit such objects."""
    for owner in meta.owner_references or ():
        group = owner.api_version.partition("/")[0]
        if owner.controller and group in QUEUED_GROUPS:
            return intern(f"{group}/{owner.kind}")
    return None


def _only_node(meta: core.ObjectMeta, shape: Shape) -> str | None:
    """Return the node of a DaemonSet's pod: each is bound to one by a required node affinity.

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/
    """
    owners = (o for o in meta.owner_references or () if o.controller)
    if not any((o.api_version, o.kind) == ("apps/v1", "DaemonSet") for o in owners):
        return None
    node_affinity = shape.affinity.node_affinity if shape.affinity else None
    required = (
        node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    )
    terms = required.node_selector_terms if required else []
    named = {_named(term) for term in terms}
    return next(iter(named)) if len(named) == 1 else None


def _named(term: core.NodeSelectorTerm) -> str | None:
    for each in term.match_fields or ():
        if (each.key, each.operator) == ("metadata.name", "In") and len(each.values or ()) == 1:
            return (each.values or [""])[0]
    return None


def _count(said: str | None) -> int | None:
    found = whole(said) if said is not None else None
    return found if found is not None and found < INDEX_END else None


def _cost(said: str | None) -> int | None:
    """Return a whole number, which may be below zero; None for anything else."""
    if said is None:
        return None
    found = _count(said.removeprefix("-"))
    return -found if found is not None and said.startswith("-") else found


def _refused_at(status: core.PodStatus, meta: core.PodMeta) -> float | None:
    """Return when the kubelet refused a pod: then it writes `OutOf` and what the node lacks."""
    if not status.reason.startswith("OutOf"):
        return None
    return _time(status.start_time) if status.start_time else seconds_of(meta.creation_timestamp)


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _unschedulable(scheduled: core.PodCondition | None) -> str | None:
    if scheduled is None or (scheduled.status, scheduled.reason) != ("False", "Unschedulable"):
        return None
    return scheduled.message
