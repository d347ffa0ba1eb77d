"""Raw JSON of the API server to the records of the state."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from itertools import chain
from typing import Final, ParamSpec, TypeVar

import msgspec
from msgspec import Raw

from extender.api import core_v1 as core
from extender.api.batch_v1 import count_below, pods_at_first, pods_left
from extender.api.selectors import matches_selector
from extender.api.values import whole
from extender.api.wellknown import (
    DONE_ANNOTATION,
    GANG_READY,
    INDEX_LABEL,
    ON_PARTIAL_ANNOTATION,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
    PODSET_LABEL,
    QUEUE_LABEL,
)
from extender.kube import grants
from extender.kube.patterns import Patterns
from extender.kube.resizes import as_counted, is_sidecar, may_be_resized
from extender.resources.ignored import (
    IGNORE_NOTHING,
    IgnoredResources,
    is_extended,
    stands_for_device_class,
)
from extender.resources.pod_requests import ContainerRequests, pod_requests
from extender.resources.quantity import QuantityError, Resources, parse_resources
from extender.runtime.deep import deep_stack
from extender.state.cluster.records import (
    ConditionInfo,
    HostPort,
    JobInfo,
    NodeInfo,
    Pattern,
    PodGroupInfo,
    PodGroupStatusInfo,
    PodInfo,
    PodTerm,
    Shape,
)

HOSTNAME_LABEL = "kubernetes.io/hostname"
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - no socket listens on it here
_NO_FEATURES: Final[frozenset[str]] = frozenset()
_TOO_MANY = 10**10
"""No index is so large."""
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
"""What the content of an object may raise while it is decoded; any other error is a bug."""

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


_decode_pod = msgspec.json.Decoder(core.Pod).decode
_decode_node = msgspec.json.Decoder(core.Node).decode
_decode_job = msgspec.json.Decoder(core.Job).decode
_decode_pod_group = msgspec.json.Decoder(core.PodGroup).decode
_decode_affinity = msgspec.json.Decoder(core.Affinity | None).decode
_decode_spread = msgspec.json.Decoder(list[core.TopologySpreadConstraint] | None).decode
_decode_tolerations = msgspec.json.Decoder(list[core.Toleration] | None).decode


def group_of(namespace: str, labels: Mapping[str, str] | None) -> str | None:
    """Return the `namespace/name` of the PodGroup that the labels name, the newer label first."""
    if not labels:
        return None
    name = labels.get(POD_GROUP_LABEL) or labels.get(POD_GROUP_LABEL_SIGS)
    return f"{namespace}/{name}" if name else None


class Decoder:
    """Decodes objects; pods of one template come out with one Shape.

    Resources that kube-scheduler ignores are no part of what a pod asks a node for. With `patterns`
    the members of gangs that wait for a node have theirs.
    """

    def __init__(
        self, ignored: IgnoredResources = IGNORE_NOTHING, patterns: Patterns | None = None
    ) -> None:
        self._ignored = ignored
        self._patterns = patterns
        self._shapes: weakref.WeakValueDictionary[tuple[object, ...], Shape] = (
            weakref.WeakValueDictionary()
        )

    @readable("Pod")
    def pod(self, raw: bytes | Raw) -> PodInfo:
        """Return a pod. Raises DecodeError where the JSON is not one."""
        pod = _decode_pod(raw)
        shape = self._shape(as_counted(pod, raw) if may_be_resized(pod) else pod)
        meta, spec = pod.metadata, pod.spec
        holding = {c.type for c in pod.status.conditions or () if c.status == "True"}
        group = group_of(meta.namespace, meta.labels)
        waits = group is not None and not (spec.node_name or spec.scheduling_gates)
        return PodInfo(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            shape=shape,
            group=group,
            node=spec.node_name or None,
            nominated=pod.status.nominated_node_name or None,
            priority=spec.priority or 0,
            gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
            terminating=meta.deletion_timestamp is not None,
            finished=pod.status.phase in _FINISHED,
            created=seconds_of(meta.creation_timestamp),
            unschedulable=None if spec.node_name else _unschedulable(pod.status),
            scheduler=spec.scheduler_name,
            phase=pod.status.phase or "Pending",
            ready="ContainersReady" in holding,
            owners=tuple(f"{meta.namespace}/{o.name}" for o in meta.owner_references or ()),
            controller=_controller(meta),
            only_node=_only_node(meta, shape),
            readiness_gate=any(g.condition_type == GANG_READY for g in spec.readiness_gates or ()),
            pod_set=(meta.labels or {}).get(PODSET_LABEL),
            workload=_workload(meta),
            gang_ready=GANG_READY in holding,
            index=_index(meta),
            pattern=self._pattern(raw, meta, shape) if waits else None,
        )

    def _pattern(self, raw: bytes | Raw, meta: core.ObjectMeta, shape: Shape) -> Pattern | None:
        return self._patterns.of(raw, meta, shape) if self._patterns is not None else None

    @readable("Node")
    def node(self, raw: bytes | Raw) -> NodeInfo:
        """Return a node. Raises DecodeError where the JSON is not one."""
        node = _decode_node(raw)
        allocatable = parse_resources(node.status.allocatable)
        ready = (c.status == "True" for c in node.status.conditions or () if c.type == "Ready")
        return NodeInfo(
            name=node.metadata.name,
            allocatable=allocatable,
            labels=node.metadata.labels or {},
            taints=tuple(node.spec.taints or ()),
            unschedulable=node.spec.unschedulable,
            ready=all(ready),
            features=frozenset(node.status.declared_features or ()),
        )

    @readable("Job")
    def job(self, raw: bytes | Raw) -> JobInfo:
        """Return a Job. Raises DecodeError where the JSON is not one."""
        job = _decode_job(raw)
        group = group_of(job.metadata.namespace, job.spec.template.metadata.labels)
        ended = any(c.type in _ENDED and c.status == "True" for c in job.status.conditions or ())
        if ended:
            return JobInfo(job.metadata.uid, group)
        begun, done, more = _pods_of(job.spec, job.status)
        queued = QUEUE_LABEL in (job.metadata.labels or {})
        key = f"{job.metadata.namespace}/{job.metadata.name}"
        held = key if queued else None
        maker = _controller(job.metadata)
        return JobInfo(job.metadata.uid, group, begun, done, more, held, maker)

    @readable("PodGroup")
    def pod_group(self, raw: bytes | Raw, *, api_group: str) -> PodGroupInfo:
        """Return a PodGroup of an API group. Raises DecodeError where the JSON is not one."""
        found = _decode_pod_group(raw)
        min_resources = parse_resources(found.spec.min_resources)
        timeout, said = found.spec.schedule_timeout_seconds, found.metadata.annotations or {}
        status = _status(found.status)
        return PodGroupInfo(
            namespace=found.metadata.namespace,
            name=found.metadata.name,
            api_group=api_group,
            min_member=found.spec.min_member,
            uid=found.metadata.uid,
            min_resources={
                what: amount
                for what, amount in min_resources.items()
                if not self._ignored.is_ignored_by_any(what)
            },
            schedule_timeout=float(timeout) if timeout and timeout > 0 else None,
            created=seconds_of(found.metadata.creation_timestamp),
            on_partial=said.get(ON_PARTIAL_ANNOTATION),
            grant=grants.read(found.status.granted_room),
            done=_count(said.get(DONE_ANNOTATION)) or 0,
            started=status.started,
            succeeded=status.succeeded,
            generation=found.metadata.generation,
            version=whole(found.metadata.resource_version) or 0,
            status=status,
        )

    @readable("pod template")
    def template(self, raw: bytes | Raw) -> Shape:
        """Return the shape of a pod template's pods. Raises DecodeError where it is none."""
        return self._shape(_decode_pod(raw))

    def _shape(self, pod: core.Pod) -> Shape:
        spec = pod.spec
        asked = _requests(spec)
        beside = {
            what: amount
            for what, amount in asked.items()
            if self._ignored.is_ignored(what, spec.scheduler_name)
        }
        affinity, tolerations = bytes(spec.affinity), bytes(spec.tolerations)
        # Labels decide only where a pod's anti-affinity may be to itself.
        whose = (pod.metadata.namespace, _frozen(pod.metadata.labels))
        labels = whose if b"odAntiAffinity" in affinity else ()
        ports = frozenset(_host_ports(spec))
        selector, features = _frozen(spec.node_selector), _features(spec)
        spread, extended = bytes(spec.topology_spread_constraints), _names_extended(spec)
        constrained = _is_individually_constrained(spec, affinity) or any(
            map(stands_for_device_class, beside)
        )
        key = (
            _frozen(asked),
            tuple(beside),
            selector,
            affinity,
            tolerations,
            labels,
            ports,
            features,
            constrained,
            spread,
            extended,
        )
        shape = self._shapes.get(key)
        if shape is None:
            parsed = _decode_affinity(affinity) if affinity else None
            shape = self._shapes[key] = Shape(
                requests={what: n for what, n in asked.items() if what not in beside},
                beside_nodes=beside,
                node_selector=spec.node_selector or {},
                affinity=parsed,
                tolerations=tuple(_decode_tolerations(tolerations) or ()) if tolerations else (),
                host_ports=ports,
                shuns=tuple(_terms(parsed.pod_anti_affinity if parsed else None)),
                seeks=tuple(chain(_terms(parsed.pod_affinity if parsed else None), _kept(spread))),
                extended=extended,
                features=features,
                individually_constrained=constrained,
                one_per_node=bool(ports) or _shuns_itself(parsed, pod.metadata),
            )
        return shape


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


def _requests(spec: core.PodSpec) -> dict[str, int]:
    """Return what a pod asks for. Raises QuantityError for an amount that no pod may have."""
    return pod_requests(
        _containers("containers", spec.containers),
        _containers("initContainers", spec.init_containers or ()),
        overhead=_amounts("spec.overhead", spec.overhead),
        pod_level=_amounts("spec.resources.requests", spec.resources.requests)
        if spec.resources
        else None,
    )


def _amounts(field: str, raw: Mapping[str, core.Amount] | None) -> Resources:
    found = parse_resources(raw)
    for name, value in found.items():
        if value < 0:
            raise QuantityError(f"{field}[{name}] is below zero: use zero or more")
    return found


def _features(spec: core.PodSpec) -> frozenset[str]:
    """Return what a node has to declare for a pod. Source: KEP-5328."""
    found = []
    if spec.host_network and spec.host_users is False:
        found.append("UserNamespacesHostNetworkSupport")
    containers = (*spec.containers, *(spec.init_containers or ()))
    rules = [rule for each in containers for rule in each.restart_policy_rules or ()]
    if rules and any(rule.action == "RestartAllContainers" for rule in rules):
        found.append("RestartAllContainersOnContainerExits")
    return frozenset(found) if found else _NO_FEATURES


def _names_extended(spec: core.PodSpec) -> bool:
    """Return whether a container names a resource that a `managedResources` may name."""
    containers = chain(spec.containers, spec.init_containers or ())
    return any(is_extended(name) for each in containers for name in each.resources.requests or ())


def _terms(affinity: core.PodAffinity | None) -> Iterator[PodTerm]:
    """Yield which pods the required terms are about."""
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required or ():
        by_labels = term.namespace_selector is not None
        yield PodTerm(term.label_selector, frozenset(term.namespaces or ()), by_labels)


def _kept(spread: bytes) -> Iterator[PodTerm]:
    """Yield which pods are counted for the spread constraints that must be kept."""
    for each in (_decode_spread(spread) if spread else None) or ():
        if each.when_unsatisfiable == "DoNotSchedule":
            yield PodTerm(each.label_selector)


def _host_ports(spec: core.PodSpec) -> Iterator[HostPort]:
    """Yield the host ports that are taken for as long as the pod runs: of sidecars too."""
    sidecars = (each for each in spec.init_containers or () if is_sidecar(each))
    for container in chain(spec.containers, sidecars):
        for port in container.ports or ():
            if port.host_port:
                address = "" if port.host_ip == _EVERY_ADDRESS else port.host_ip
                yield port.protocol, port.host_port, address


def _containers(field: str, found: Sequence[core.Container]) -> list[ContainerRequests]:
    return [
        ContainerRequests(
            _amounts(f"spec.{field}[{index}].resources.requests", each.resources.requests),
            sidecar=is_sidecar(each),
        )
        for index, each in enumerate(found)
    ]


def _is_individually_constrained(spec: core.PodSpec, affinity: bytes) -> bool:
    claims = (v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ())
    return bool(
        any(map(bytes, claims))
        or bytes(spec.resource_claims)
        or bytes(spec.topology_spread_constraints)
        or b'"podAffinity"' in affinity
        or b'"podAntiAffinity"' in affinity
    )


def _frozen(mapping: Mapping[str, object] | None) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(mapping.items())) if mapping else ()


def _shuns_itself(affinity: core.Affinity | None, meta: core.ObjectMeta) -> bool:
    """Return whether required anti-affinity keeps equal pods on different nodes."""
    namespace, labels = meta.namespace, meta.labels or {}
    anti = affinity.pod_anti_affinity if affinity else None
    terms = anti.required_during_scheduling_ignored_during_execution if anti else None
    return any(
        term.topology_key == HOSTNAME_LABEL
        and _covers(term, namespace)
        and matches_selector(term.label_selector, labels)
        for term in terms or ()
    )


def _covers(term: core.PodAffinityTerm, namespace: str) -> bool:
    """Return whether a term certainly includes the pod's own namespace."""
    everywhere = term.namespace_selector == core.LabelSelector()
    here = not term.namespaces and term.namespace_selector is None
    return everywhere or here or namespace in (term.namespaces or ())


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
    """Return the conditions of a status."""
    return tuple(
        ConditionInfo(
            c.type,
            c.status,
            c.reason,
            c.message,
            seconds_of(c.last_transition_time),
            c.observed_generation,
        )
        for c in conditions or ()
    )


def seconds_of(moment: datetime | None) -> float:
    """Return seconds since the epoch; 0 for no time."""
    return moment.timestamp() if moment else 0.0


def _controller(meta: core.ObjectMeta) -> str | None:
    return next((o.uid for o in meta.owner_references or () if o.controller), None)


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


def _workload(meta: core.PodMeta) -> str | None:
    name = meta.annotations.workload if meta.annotations else ""
    return f"{meta.namespace}/{name}" if name else None


def _index(meta: core.PodMeta) -> int | None:
    """Return the completion index; clusters before 1.28 have it in the annotation alone."""
    said = (meta.labels or {}).get(INDEX_LABEL)
    if said is None and meta.annotations is not None:
        said = meta.annotations.completion_index
    return _count(said)


def _count(said: str | None) -> int | None:
    found = whole(said) if said is not None else None
    return found if found is not None and found < _TOO_MANY else None


def _unschedulable(status: core.PodStatus) -> str | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            failed = condition.status == "False" and condition.reason == "Unschedulable"
            return condition.message if failed else None
    return None
