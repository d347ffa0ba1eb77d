"""The parts of Pod and Node that decisions read, decoded from raw JSON by msgspec.

What matches what comes last: labels and selectors, taints and tolerations, as Kubernetes has it:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/

The decoder skips all other fields, which saves most of the cost of a full model. A type without a
docstring is the API's type with its name. Parts that few pods have, or that many pods share
(affinity, tolerations), stay raw bytes until a decision needs them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Raw, Struct, field

from extender.api.wellknown import (
    INDEX_LABEL,
    MIRROR_ANNOTATION,
    PREEMPTION_COST,
    RESTARTING,
    WORKLOAD_ANNOTATION,
)

Amount = str | int | float


class Wire(Struct, frozen=True, gc=False, rename="camel"):
    """The base of all types: camel case on the wire, snake case here."""


class OwnerReference(Wire, frozen=True):
    """metav1.OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class PodAnnotations(Wire, frozen=True):
    """The annotations of a pod that are read."""

    workload: str = field(default="", name=WORKLOAD_ANNOTATION)
    completion_index: str | None = field(default=None, name=INDEX_LABEL)
    preemption_cost: str | None = field(default=None, name=PREEMPTION_COST)
    mirror: str | None = field(default=None, name=MIRROR_ANNOTATION)


class PodMeta(ObjectMeta, frozen=True):
    """metav1.ObjectMeta of a pod."""

    annotations: PodAnnotations | None = None


class ResourceRequirements(Wire, frozen=True):
    requests: dict[str, Amount] | None = None


class ContainerPort(Wire, frozen=True):
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Wire, frozen=True):
    """corev1.ContainerRestartRule."""

    action: str = ""


class Container(Wire, frozen=True):
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    ports: list[ContainerPort] | None = None


class SchedulingGate(Wire, frozen=True):
    """corev1.PodSchedulingGate."""

    name: str = ""


class ReadinessGate(Wire, frozen=True):
    """corev1.PodReadinessGate."""

    condition_type: str = ""


class Volume(Wire, frozen=True):
    """corev1.Volume, as far as it decides where a pod may go."""

    name: str = ""
    persistent_volume_claim: Raw = Raw()
    ephemeral: Raw = Raw()


class VolumeClaimSource(Wire, frozen=True):
    """corev1.PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""


class PodResourceClaim(Wire, frozen=True):
    """corev1.PodResourceClaim, and its status."""

    name: str = ""
    resource_claim_name: str | None = None


class SchedulingGroup(Wire, frozen=True):
    """corev1.PodSchedulingGroup."""

    pod_group_name: str = ""


class PodSpecHead(Wire, frozen=True):
    """The fields of corev1.PodSpec that are read in one form only."""

    node_name: str | None = None
    priority: int | None = None
    preemption_policy: str = ""
    scheduler_name: str = "default-scheduler"
    host_network: bool = False
    host_users: bool | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    readiness_gates: list[ReadinessGate] | None = None
    affinity: Raw = Raw()
    tolerations: Raw = Raw()
    volumes: list[Volume] | None = None
    resource_claims: Raw = Raw()
    topology_spread_constraints: Raw = Raw()


class PodSpec(PodSpecHead, frozen=True):
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: dict[str, Amount] | None = None
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None


class PodCondition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Raw = Raw()
    """Decoded for one condition only."""


class PodStatus(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    start_time: str = ""
    nominated_node_name: str = ""
    conditions: list[PodCondition] | None = None
    resource_claim_statuses: Raw = Raw()


class Pod(Wire, frozen=True):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class UnreadContainer(Wire, frozen=True):
    """corev1.Container, as it is written where a Shape is made of it."""

    resources: Raw = Raw()
    restart_policy: str | None = None
    restart_policy_rules: Raw = Raw()
    ports: Raw = Raw()


class UnreadSpec(PodSpecHead, frozen=True):
    """corev1.PodSpec, as it is written where a Shape is made of it."""

    containers: list[UnreadContainer] = field(default_factory=list)
    init_containers: list[UnreadContainer] | None = None
    overhead: Raw = Raw()
    resources: Raw = Raw()
    node_selector: Raw = Raw()


class UnreadPod(Wire, frozen=True):
    """corev1.Pod, as it is read from each of its events."""

    metadata: PodMeta = PodMeta()
    spec: UnreadSpec = UnreadSpec()
    status: PodStatus = PodStatus()


class NamedContainer(Wire, frozen=True):
    """corev1.Container, its name alone."""

    name: str = ""


class ContainerStatus(Wire, frozen=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Amount] | None = None


class ContainerNames(Wire, frozen=True):
    """corev1.PodSpec, the names of its containers alone."""

    containers: list[NamedContainer] = field(default_factory=list)
    init_containers: list[NamedContainer] | None = None


class ResizeStatus(Wire, frozen=True):
    """corev1.PodStatus, as far as a resize changes it."""

    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Amount] | None = None


class ResizedPod(Wire, frozen=True):
    """corev1.Pod, the further fields that are read if it may have been resized."""

    spec: ContainerNames = ContainerNames()
    status: ResizeStatus = ResizeStatus()


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def as_json(self) -> dict[str, object]:
        """Return it as the API has it, without fields that are empty."""
        return {
            name: value
            for name, value in msgspec.to_builtins(self).items()
            if value not in ("", None)
        }


class Requirement(Wire, frozen=True):
    """corev1.NodeSelectorRequirement, and metav1.LabelSelectorRequirement."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] = field(default_factory=list)


class NodeAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class PodAntiAffinity(PodAffinity, frozen=True):
    pass


class TopologySpreadConstraint(Wire, frozen=True):
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Taint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class BareCondition(Wire, frozen=True):
    """A condition of a Job."""

    type: str = ""
    status: str = ""


class NodeCondition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: Raw = Raw()
    """Decoded only for a node that is not ready."""


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(Wire, frozen=True):
    allocatable: dict[str, Amount] | None = None
    conditions: list[NodeCondition] | None = None
    declared_features: list[str] | None = None


class Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class TemplateSpec(Wire, frozen=True):
    """corev1.PodSpec of a template."""

    scheduling_group: SchedulingGroup | None = None


class PodTemplate(Wire, frozen=True):
    """corev1.PodTemplateSpec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()


class JobAnnotations(Wire, frozen=True):
    """The annotation of a Job that is read."""

    restarting: str | None = field(default=None, name=RESTARTING)


class JobMeta(ObjectMeta, frozen=True):
    """ObjectMeta of a Job."""

    annotations: JobAnnotations | None = None


class JobSpec(Wire, frozen=True):
    suspend: bool | None = None
    managed_by: str | None = None
    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplate = PodTemplate()


class JobStatus(Wire, frozen=True):
    active: int | None = None
    succeeded: int | None = None
    failed_indexes: str | None = None
    completion_time: datetime | None = None
    conditions: list[BareCondition] | None = None


class Job(Wire, frozen=True):
    metadata: JobMeta = JobMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PodGroupSpec(Wire, frozen=True):
    """PodGroupSpec, read leniently: objects older than the rules must still be readable."""

    min_member: Annotated[int, msgspec.Meta(ge=0)] = 0
    min_resources: dict[str, Amount] | None = None
    schedule_timeout_seconds: int | None = None


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


class PodGroupStatus(Wire, frozen=True):
    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: datetime | None = None
    conditions: list[Condition] | None = None
    granted_room: Raw = Raw()
    """Decoded separately: a value that cannot be read must not hide the PodGroup."""
    preemption: Raw = Raw()
    """Decoded separately, for the same reason."""
    kept_nodes: tuple[str, ...] | None = None


class DisruptionBudgetSpec(Wire, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None


class DisruptionBudgetStatus(Wire, frozen=True):
    """policy/v1 PodDisruptionBudgetStatus."""

    disruptions_allowed: int = 0


class DisruptionBudget(Wire, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class Stored(Wire, frozen=True):
    """The answer to a write of any object."""

    metadata: ObjectMeta = ObjectMeta()


class AnnotatedMeta(ObjectMeta, frozen=True):
    """metav1.ObjectMeta with annotations."""

    annotations: dict[str, str] | None = None


class PodGroup(Wire, frozen=True):
    """PodGroup of either API group."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# -- PodGroup of scheduling.k8s.io, in v1alpha2 and v1beta1: kube-scheduler may schedule it itself.
# The two versions differ in `disruptionMode`, which is not read.


class BasicPolicy(Wire, frozen=True):
    """The policy of a group whose pods are scheduled one by one."""


class GangPolicy(Wire, frozen=True):
    """The policy of a group whose pods start together."""

    min_count: Annotated[int, msgspec.Meta(ge=0)] = 0


class SchedulingPolicy(Wire, frozen=True):
    """The policy of a group, which is one of the two."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True):
    """The label that has the same value on all nodes of the group."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    """The constraints of the group as a whole, with at most one topology."""

    topology: list[TopologyConstraint] | None = None


class NativePodGroupSpec(Wire, frozen=True):
    """PodGroupSpec of `scheduling.k8s.io`."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None


class NativePodGroupStatus(Wire, frozen=True):
    """PodGroupStatus of `scheduling.k8s.io`."""

    conditions: list[Condition] | None = None


class NativePodGroup(Wire, frozen=True):
    """PodGroup of `scheduling.k8s.io`."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether tolerations allow a taint. PreferNoSchedule allows every pod."""
    if taint.effect == "PreferNoSchedule":
        return True
    return any(
        each.effect in ("", taint.effect)
        and each.key in ("", taint.key)
        and (each.operator == "Exists" or (each.key and each.value == taint.value))
        for each in tolerations
    )


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], *, name: str) -> bool:
    """Return whether a node with that name and labels meets a term. No node meets an empty one."""
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    by_field = {"metadata.name": name}
    return all(matches(requirement, labels) for requirement in expressions) and all(
        matches(requirement, by_field) for requirement in fields
    )


def matches_selector(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a selector. None meets no labels, an empty selector all."""
    if selector is None:
        return False
    exact = (selector.match_labels or {}).items()
    expressions = selector.match_expressions or []
    return all(labels.get(key) == value for key, value in exact) and all(
        matches(requirement, labels) for requirement in expressions
    )


def matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet one requirement of a node or label selector."""
    have, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return have is not None and have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, have, values)
        case _:
            return False


def _compares(operator: str, have: str | None, values: list[str]) -> bool:
    try:
        number, bound = int(have or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound
