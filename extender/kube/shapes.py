"""The values that all pods of a template share: the Shape, and the Pattern of equal ones.

The Shape of a pod decides where it fits. Reading amounts, terms and ports takes longer than
everything else of a pod. Pods of one template say them in the same bytes, and so does one pod in
all its events: what these bytes mean is read once.

Pods of one Pattern are equal for kube-scheduler by spec and labels, less a list. The list has what
differs from one pod of a template to the next and is read by no scheduler plugin. So a field that
comes with a later release makes pods unequal: that is slower, and not wrong. The API server writes
fields in one order, so equal fields are equal bytes.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from extender.api import core_v1 as core
from extender.api.core_v1 import ObjectMeta, matches_selector
from extender.api.values import KNOWN_TEXTS
from extender.api.wellknown import (
    BESIDE_LABEL,
    INDEX_LABEL,
    JOB_SET_INDEX_LABEL,
    POD_GROUP_LABEL,
    POD_GROUP_LABEL_SIGS,
)
from extender.kube.sizes import MOST_NAMES, NamespaceBytes, check_names, checked_size
from extender.resources.ignored import IgnoredResources, is_extended, stands_for_device_class
from extender.resources.quantity import (
    ContainerRequests,
    QuantityError,
    Resources,
    parse,
    parse_resources,
    pod_requests,
)
from extender.state.cluster.records import EVERY_PORT, HostPort, Pattern, PodTerm, Shape

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - no socket listens on it here
_NO_FEATURES: Final[frozenset[str]] = frozenset()

_decode_pod = msgspec.json.Decoder(core.Pod).decode
_decode_affinity = msgspec.json.Decoder(core.Affinity | None).decode
_decode_spread = msgspec.json.Decoder(list[core.TopologySpreadConstraint] | None).decode
_decode_tolerations = msgspec.json.Decoder(list[core.Toleration] | None).decode
_decode_resized = msgspec.json.Decoder(core.ResizedPod).decode
_Amounts = Mapping[str, core.Amount] | None


class Shapes:
    """Pods that are equal in what decides where they fit have one Shape.

    One that no pod has is forgotten. Errors of `decode.UNREADABLE` are raised for what cannot be
    read.
    """

    def __init__(self, ignored: IgnoredResources, account: NamespaceBytes) -> None:
        self._ignored = ignored
        self._account = account
        self._shapes: weakref.WeakValueDictionary[tuple[object, ...], Shape] = (
            weakref.WeakValueDictionary()
        )
        self._known: weakref.WeakValueDictionary[bytes, Shape] = weakref.WeakValueDictionary()
        """The shapes by the hash of what pods say, unread."""

    def __len__(self) -> int:
        return len(self._shapes)

    def of(self, pod: core.UnreadPod, raw: bytes | Raw, *, charged: bool = True) -> Shape:
        """Return the shape of a pod that was decoded from some JSON.

        Raises OversizedError where it is beyond what is read of one, or kept for its namespace.
        """
        namespace = pod.metadata.namespace if charged else ""
        if may_be_resized(pod):  # its status counts too
            size = checked_size(pod.spec)
            return self._read(as_counted(_decode_pod(raw), raw), namespace, size)
        text = _text(pod)
        shape = self._known.get(text)
        if shape is None:
            size = checked_size(pod.spec)
            if len(self._known) >= KNOWN_TEXTS:
                self._known.clear()
            shape = self._known[text] = self._read(_decode_pod(raw), namespace, size)
        return shape

    def taken(self, pod: core.UnreadPod, raw: bytes | Raw) -> Shape:
        """Return what a pod takes of its node, of one that is too large to be read as it is.

        It counts as one that takes every host port, and repels every pod, where it has any ports
        or repels any: nothing is put where it must not be.
        """
        found = _decode_pod(raw)
        asked = _requests((as_counted(found, raw) if may_be_resized(pod) else found).spec)
        amounts = sorted(((name, n) for name, n in asked.items() if n), key=lambda e: "/" in e[0])
        requests = dict(islice(amounts, MOST_NAMES))
        ports = frozenset((EVERY_PORT,) if any(_host_ports(found.spec)) else ())
        repels = b"odAntiAffinity" in bytes(pod.spec.affinity)
        key = (_frozen(requests), ports, repels)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(
                requests=requests,
                host_ports=ports,
                shuns=(PodTerm(core.LabelSelector(), by_labels=True),) if repels else (),
                individually_constrained=True,
                one_per_node=bool(ports) or repels,
            )
        return shape

    def _read(self, pod: core.Pod, namespace: str, size: int) -> Shape:
        spec = pod.spec
        asked = _requests(spec)
        check_names("the sum of its requests", asked)
        beside = {
            what: amount
            for what, amount in asked.items()
            if self._ignored.is_ignored(what, spec.scheduler_name)
        }
        affinity, tolerations = bytes(spec.affinity), bytes(spec.tolerations)
        labels = _whose(pod.metadata, affinity)
        ports = frozenset(_host_ports(spec))
        selector, features = _frozen(spec.node_selector), _features(spec)
        spread = bytes(spec.topology_spread_constraints)
        every = chain(spec.containers, spec.init_containers or ())
        # One of these is what a `managedResources` of kube-scheduler may name.
        extended = any(is_extended(name) for c in every for name in c.resources.requests or ())
        constrained = bool(
            spread
            or b'"podAffinity"' in affinity
            or b'"podAntiAffinity"' in affinity
            or _has_claims(spec)
            or any(map(stands_for_device_class, beside))
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
            shape = Shape(
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
            self._account.charge(namespace, shape, size)
            self._shapes[key] = shape
        return shape


def _text(pod: core.UnreadPod) -> bytes:
    """Return the hash of all that `_read` reads of a pod: equal texts have one meaning."""
    spec, affinity = pod.spec, bytes(pod.spec.affinity)
    text = (
        spec.scheduler_name,
        spec.host_network,
        spec.host_users,
        tuple(map(_container_text, spec.containers)),
        tuple(map(_container_text, spec.init_containers or ())),
        bytes(spec.overhead),
        bytes(spec.resources),
        bytes(spec.node_selector),
        affinity,
        bytes(spec.tolerations),
        bytes(spec.topology_spread_constraints),
        _has_claims(spec),
        _whose(pod.metadata, affinity),
    )
    return blake2b(msgspec.msgpack.encode(text), digest_size=32).digest()


def _container_text(container: core.UnreadContainer) -> tuple[object, ...]:
    return (
        bytes(container.resources),
        container.restart_policy,
        bytes(container.restart_policy_rules),
        bytes(container.ports),
    )


def _whose(meta: core.ObjectMeta, affinity: bytes) -> tuple[object, ...]:
    """Return the labels of a pod where they count: where its anti-affinity may be to itself."""
    if b"odAntiAffinity" not in affinity:
        return ()
    labels = {name: value for name, value in (meta.labels or {}).items() if name != BESIDE_LABEL}
    return meta.namespace, _frozen(labels)


def _has_claims(spec: core.PodSpecHead) -> bool:
    """Return whether a pod has volumes or devices that it claims."""
    claims = (v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ())
    return any(map(bytes, claims)) or bool(bytes(spec.resource_claims))


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
            yield PodTerm(each.label_selector, spread=True)


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


def may_be_resized(pod: core.Pod | core.UnreadPod) -> bool:
    """Return whether the spec of a pod on a node has changed; a resize is one of few reasons."""
    return pod.metadata.generation > 1 and bool(pod.spec.node_name)


def as_counted(pod: core.Pod, raw: bytes | Raw) -> core.Pod:
    """Return a pod with the requests that count for its node, in place of those of its spec.

    The spec says what is wanted. The status says what the kubelet has set aside
    (`allocatedResources`) and what the containers have by now (`resources`). kube-scheduler counts
    the largest of the three, and leaves out the spec of a resize that its node can never do.
    Source: KEP-1287, KEP-5419.
    """
    found = _decode_resized(raw)
    status, spec = found.status, pod.spec
    pending = (c.reason for c in status.conditions or () if c.type == "PodResizePending")
    spec_counts = next(pending, None) != "Infeasible"
    reported = {
        each.name: each
        for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    }
    containers = zip(spec.containers, found.spec.containers, strict=True)
    first = zip(spec.init_containers or (), found.spec.init_containers or (), strict=True)
    whole = spec.resources
    if whole is not None and whole.requests and status.resources is not None:
        asked = whole.requests if spec_counts else None
        largest = _largest(asked, status.resources.requests, status.allocated_resources)
        # Of the pod as a whole counts what its spec names.
        named = {r: n for r, n in largest.items() if r in whole.requests}
        whole = core.ResourceRequirements(named)
    changed = replace(
        spec,
        containers=[
            _resized_container(c, reported.get(n.name), spec_counts=spec_counts)
            for c, n in containers
        ],
        # Other init containers are never resized: they end.
        init_containers=[
            _resized_container(c, reported.get(n.name), spec_counts=spec_counts)
            if is_sidecar(c)
            else c
            for c, n in first
        ],
        resources=whole,
    )
    return replace(pod, spec=changed)


def is_sidecar(container: core.Container) -> bool:
    """Return whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def _resized_container(
    container: core.Container, status: core.ContainerStatus | None, *, spec_counts: bool
) -> core.Container:
    if status is None or status.resources is None:
        return container
    asked = container.resources.requests if spec_counts else None
    largest = _largest(asked, status.resources.requests, status.allocated_resources)
    return replace(container, resources=core.ResourceRequirements(largest))


def _largest(*lists: _Amounts) -> dict[str, core.Amount]:
    """Return the largest amount of each resource. Raises QuantityError where one is none."""
    largest: dict[str, core.Amount] = {}
    for amounts in lists:
        for name, amount in (amounts or {}).items():
            if name not in largest or parse(amount) > parse(largest[name]):
                largest[name] = amount
    return largest


NUMBERED: Final = frozenset(
    (
        INDEX_LABEL,
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        JOB_SET_INDEX_LABEL,
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-group-index",
        "jobset.sigs.k8s.io/job-key",
        "jobset.sigs.k8s.io/restart-attempt",
        "training.kubeflow.org/replica-index",
        "training.kubeflow.org/job-role",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
    )
)
"""Labels that controllers number their pods by."""
IDENTITY: Final = frozenset(
    (
        POD_GROUP_LABEL,
        POD_GROUP_LABEL_SIGS,
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
    )
)
"""Labels that say which gang or Job a pod belongs to."""
_DROPPED: Final = NUMBERED | IDENTITY
_OF_CONTAINERS: Final = frozenset(("env", "envFrom", "command", "args", "volumeMounts"))
_LISTS: Final = {
    "containers": _OF_CONTAINERS,
    "initContainers": _OF_CONTAINERS,
    "volumes": frozenset(("name",)),
}
"""Lists in the spec, and what is left out of their items."""
_VOLUMES: Final = frozenset(
    (
        *("name", "emptyDir", "configMap", "secret", "downwardAPI"),
        *("projected", "hostPath", "image"),
    )
)
"""Volumes that no scheduler plugin reads."""


class _Pod(Struct, frozen=True, gc=False):
    spec: dict[str, Raw] = {}


_decode = msgspec.json.Decoder(_Pod).decode
_decode_list = msgspec.json.Decoder(list[dict[str, Raw]] | None).decode
_NONE: Final = Raw(b"null")


class Patterns:
    """Pods that are equal have one Pattern; one that no pod has is forgotten."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[tuple[object, ...], Pattern] = (
            weakref.WeakValueDictionary()
        )

    def __len__(self) -> int:
        return len(self._known)

    def of(self, raw: bytes | Raw, meta: ObjectMeta, shape: Shape) -> Pattern | None:
        """Return the pattern of a pod; None for one that kube-scheduler has to judge by itself.

        Raises msgspec.MsgspecError.
        """
        if shape.individually_constrained or shape.beside_nodes:
            return None
        spec = _spec(raw)
        if spec is None:
            return None
        have = meta.labels or {}
        labels = {name: value for name, value in have.items() if name not in _DROPPED}
        dropped = _DROPPED.intersection(have)
        key = (shape, meta.namespace, tuple(labels.items()), dropped, spec)
        found = self._known.get(key)
        if found is None:
            found = Pattern(shape, meta.namespace, labels, dropped)
            self._known[key] = found
        return found


def _spec(raw: bytes | Raw) -> bytes | None:
    """Return a hash of what is compared; None where that is not enough.

    With a hash of which two specs can be found a wrong pod might be bound.
    """
    spec = _decode(raw).spec
    if "schedulingGroup" in spec:
        return None
    spec.pop("hostname", None)
    lists = [(name, _decode_list(spec.pop(name, _NONE)) or ()) for name in _LISTS]
    names, values = [*spec], [*spec.values()]
    for name, items in lists:
        left_out = _LISTS[name]
        for item in items:
            if name == "volumes" and not item.keys() <= _VOLUMES:
                return None
            for field in left_out:
                item.pop(field, None)
            names += (name, *item)
            values += item.values()
    return blake2b(msgspec.json.encode((names, values)), digest_size=32).digest()
