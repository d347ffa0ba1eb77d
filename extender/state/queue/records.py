"""The facts about queues, quota and workloads: one frozen record for each object.

Amounts are integers as in `extender.resources.quantity`, times are seconds since the epoch.
Source: the API `kueue.x-k8s.io/v1beta2`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from extender.api.core_v1 import LabelSelector, Taint, Toleration
from extender.api.queue_wire import (
    Eviction,
    FlavorFungibility,
    LimitRangeItem,
    PodSetUpdate,
    ProvisioningConfigSpec,
    ProvisioningRequestSpec,
)
from extender.api.reasons import EvictionReason
from extender.api.wellknown import (
    ADMISSION_GATED_BY,
    IN_USE_FINALIZER,
    JOB_UID_LABEL,
    PREBUILT_LABEL,
    WORKLOAD_PRIORITY_CLASS,
    WorkloadCondition,
)
from extender.resources.quantity import Quantity
from extender.state.cluster.records import ConditionInfo, DomainAssignment, Shape

FlavorResource = tuple[str, str]
"""A flavor's name and a resource's: what quota is counted by."""
Usage = dict[FlavorResource, int]
_NONE: Final[Mapping[str, int]] = {}
Order = tuple[int, float, int, str, str]
"""The place of a workload among all that wait, lowest first: negated priority, time, arrival, UID,
`namespace/name`. The API server stores whole seconds, so the arrival decides within one second."""

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata that the state keeps of any object."""

    name: str
    namespace: str = ""
    uid: str = ""
    version: int = 0
    """The resourceVersion: a higher one is newer."""
    generation: int = 0
    created: float = 0.0
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """The fields, labels and annotations of Kueue on the object that have no effect."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class FlavorInfo:
    """A ResourceFlavor: a kind of node."""

    meta: Meta
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True)
class TopologyInfo:
    """A Topology: where nodes are."""

    meta: Meta
    levels: tuple[str, ...] = ()
    """Labels of nodes, from the largest unit to the smallest."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one resource of one flavor; a limit of None is no limit."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotasInfo:
    """The quotas of one flavor, by resource."""

    flavor: str
    resources: Mapping[str, Quota]


@dataclass(frozen=True, slots=True)
class ResourceGroupInfo:
    """Resources that come from one flavor together; flavors in the order of preference."""

    covered: tuple[str, ...]
    flavors: tuple[FlavorQuotasInfo, ...]


def quotas_of(groups: Iterable[ResourceGroupInfo]) -> dict[FlavorResource, Quota]:
    """Return the quota of each flavor and resource, in the order of the spec."""
    return {
        (quotas.flavor, resource): quota
        for group in groups
        for quotas in group.flavors
        for resource, quota in quotas.resources.items()
    }


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """The workloads that a ClusterQueue's workloads may preempt."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: Literal["Never", "LowerPriority"] = "Never"
    borrow_max_priority: int | None = None


@dataclass(frozen=True, slots=True)
class CheckRule:
    """An admission check that a ClusterQueue lists."""

    name: str
    flavors: frozenset[str] = frozenset()
    """The flavors whose workloads need the check; none for all workloads."""


@dataclass(frozen=True, slots=True)
class ClusterQueueInfo:
    """A ClusterQueue: quota, and which workloads may use it."""

    meta: Meta
    resource_groups: tuple[ResourceGroupInfo, ...] = ()
    cohort: str | None = None
    strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    """None selects nothing, an empty one everything."""
    fungibility: FlavorFungibility = field(default_factory=FlavorFungibility)
    preemption: PreemptionPolicy = PreemptionPolicy()
    stop_policy: StopPolicy = "None"
    admission_checks: tuple[CheckRule, ...] = ()
    status: bytes = field(default=b"", compare=False)
    """The stored status as JSON: compared with what is to be written."""
    conditions: tuple[ConditionInfo, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The name."""
        return self.meta.name

    @property
    def flavors(self) -> list[str]:
        """The names of its flavors, in the order of the spec."""
        return [quotas.flavor for group in self.resource_groups for quotas in group.flavors]


@dataclass(frozen=True, slots=True)
class AdmissionCheckInfo:
    """An AdmissionCheck: what another controller has to say before a workload is admitted."""

    meta: Meta
    controller: str
    """The name of the controller that writes its states."""
    parameters: tuple[str, str, str] | None = None
    """Group, kind and name of the object with its parameters."""
    conditions: tuple[ConditionInfo, ...] = ()

    @property
    def active(self) -> bool:
        """True if its controller says that it can be passed."""
        return any((each.type, each.status) == ("Active", "True") for each in self.conditions)


@dataclass(frozen=True, slots=True)
class ProvisioningConfigInfo:
    """A ProvisioningRequestConfig: how nodes are asked for."""

    meta: Meta
    spec: ProvisioningConfigSpec


@dataclass(frozen=True, slots=True)
class ProvisioningRequestInfo:
    """A ProvisioningRequest that was made for a workload."""

    meta: Meta
    workload: str
    """`namespace/name`."""
    spec: ProvisioningRequestSpec
    details: Mapping[str, str] = field(default_factory=dict)
    """The details of the nodes that the autoscaler reports (`status.provisioningClassDetails`)."""
    conditions: tuple[ConditionInfo, ...] = ()

    def condition(self, kind: str) -> ConditionInfo | None:
        """Return the condition of a type if it is True."""
        return next((e for e in self.conditions if (e.type, e.status) == (kind, "True")), None)


@dataclass(frozen=True, slots=True)
class CohortInfo:
    """A Cohort: ClusterQueues that share quota, perhaps inside another cohort."""

    meta: Meta
    parent: str | None = None
    resource_groups: tuple[ResourceGroupInfo, ...] = ()

    @property
    def name(self) -> str:
        """The name."""
        return self.meta.name


@dataclass(frozen=True, slots=True)
class LocalQueueInfo:
    """A LocalQueue: a namespace's way to a ClusterQueue."""

    meta: Meta
    cluster_queue: str
    stop_policy: StopPolicy = "None"
    status: bytes = field(default=b"", compare=False)
    conditions: tuple[ConditionInfo, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.meta.key


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace, for its labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadPriorityClassInfo:
    """A WorkloadPriorityClass."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class PriorityClassInfo:
    """A PriorityClass of pods."""

    name: str
    value: int
    is_default: bool = False
    """True if pods get it that name none."""


@dataclass(frozen=True, slots=True)
class LimitRangeInfo:
    """A LimitRange: what pods of its namespace ask for and may ask for."""

    meta: Meta
    items: tuple[LimitRangeItem, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeClassInfo:
    """A RuntimeClass, for what it adds to a pod; quantities as they are written."""

    name: str
    overhead: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DomainRequest:
    """The domain where the pods of a pod set are to be; levels are labels of nodes."""

    required: str | None = None
    """They go to one domain of this level."""
    preferred: str | None = None
    """They go to one domain of this level, or else of one above, or else to few of the highest."""
    unconstrained: bool = False
    """They go to any domains with room."""
    slice_level: str | None = None
    """Each slice of them goes to one domain of this level."""
    slice_size: int = 1
    """The number of pods of subsequent indexes that are a slice."""
    index_label: str | None = None
    """The label of pods that says which one it is."""
    fault: str = ""
    """The part of it that cannot be honoured."""

    @property
    def is_explicit(self) -> bool:
        """True if it says where pods are to be, and not only how they are counted."""
        return bool(self.required or self.preferred or self.unconstrained or self.slice_level)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it names."""
        return tuple(filter(None, (self.required, self.preferred, self.slice_level)))


@dataclass(frozen=True, slots=True)
class PodSetInfo:
    """Equal pods of a workload."""

    name: str
    count: int
    shape: Shape
    """The resources that one pod asks for, with one `pods`."""
    min_count: int | None = None
    template: bytes = field(default=b"", compare=False, repr=False)
    """The pod template as JSON; equal ones share memory."""
    fault: str = ""
    """The reason why the API server would refuse its pods; empty if it would not."""
    resource_claims: bool = False
    """True if its pods have resource claims (dynamic resource allocation)."""
    topology: DomainRequest | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The quota that one pod set was given."""

    name: str
    flavors: Mapping[str, str]
    """Flavor by resource."""
    usage: Mapping[str, int]
    """Amount by resource, of all `count` pods together."""
    count: int
    topology: DomainAssignment | None = None
    """The domains where the pods go, in a flavor with a topology."""


@dataclass(frozen=True, slots=True)
class AdmissionInfo:
    """Quota that a workload holds in a ClusterQueue."""

    cluster_queue: str
    assignments: tuple[Assignment, ...]
    reserved_only: bool = False
    """True if the workload holds the quota and is not admitted: checks or nodes are awaited."""


@dataclass(frozen=True, slots=True)
class RequeueInfo:
    """The number of times a workload went back because its pods were not ready, and until when."""

    count: int = 0
    at: float | None = None


@dataclass(frozen=True, slots=True)
class CheckState:
    """The state of one admission check of a workload, as `status.admissionChecks` has it."""

    name: str
    state: str = "Pending"
    """`Pending`, `Ready`, `Retry` or `Rejected`."""
    message: str = ""
    last_transition: float = 0.0
    """Seconds since the epoch."""
    pod_set_updates: tuple[PodSetUpdate, ...] = ()
    requeue_after_seconds: int | None = None
    retry_count: int = 0


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """The owner of an object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = True

    @property
    def group_kind(self) -> str:
        """The kind without a version, as group/Kind."""
        return f"{self.api_version.rpartition('/')[0]}/{self.kind}"


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """A Workload: what asks for quota."""

    meta: Meta
    pod_sets: tuple[PodSetInfo, ...] = ()
    queue_name: str = ""
    priority: int = 0
    priority_class: tuple[str, str, str] | None = None
    """Group, kind and name of the class that the priority came from."""
    active: bool = True
    max_execution: int | None = None
    """Seconds."""
    owners: tuple[OwnerRef, ...] = ()
    """Its job, or the objects that are its job together."""
    admission: AdmissionInfo | None = None
    conditions: tuple[ConditionInfo, ...] = ()
    requeue: RequeueInfo | None = None
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    """Pods that are done, by pod set."""
    past_execution: int = 0
    """Seconds that it ran in earlier admissions."""
    evictions: tuple[Eviction, ...] = ()
    closed_gates: tuple[str, ...] = ()
    """The preemption gates that are closed. It preempts nothing while there are any."""
    open_gates: tuple[str, ...] = ()
    """The preemption gates that are open."""
    checks: tuple[CheckState, ...] = ()
    """The states of its admission checks."""
    unreadable: str = ""
    """The reason why a part could not be read; if there is one, it is not admitted."""
    arrival: int = field(default=0, compare=False)
    """The resourceVersion in which this process saw it first; the store sets it."""

    @property
    def owner(self) -> OwnerRef | None:
        """The job, where it is one object."""
        return next((owner for owner in self.owners if owner.controller), None)

    @property
    def workload_priority_class(self) -> str:
        """The name of the WorkloadPriorityClass that the priority came from, or nothing."""
        group, kind, name = self.priority_class or ("", "", "")
        return name if (group, kind) == WORKLOAD_PRIORITY_CLASS else ""

    @property
    def admission_gate(self) -> str:
        """The controllers that hold it back from its queue, as its annotation names them."""
        return self.meta.annotations.get(ADMISSION_GATED_BY, "").strip()

    @property
    def was_preempted(self) -> bool:
        """True if it has been preempted before, whether for quota, room or a gang."""
        return any(each.reason == EvictionReason.PREEMPTED for each in self.evictions)

    @property
    def queued_since(self) -> float:
        """The time when it was queued last: its creation, or its last requeueing."""
        requeued = self.condition(WorkloadCondition.REQUEUED)
        if requeued is not None and requeued.status == "True":
            return max(self.meta.created, requeued.transition)
        return self.meta.created

    @property
    def is_of_pods(self) -> bool:
        """True if its job is a group of pods, or one pod; no label names the UID of such a job."""
        if not self.owners:
            return self.lost_owners and JOB_UID_LABEL not in self.meta.labels
        return all(each.group_kind == "/Pod" for each in self.owners)

    @property
    def service(self) -> tuple[str, str] | None:
        """The service that it is for, as `JobObject.unit`; its pods name it as their group."""
        kind = SERVICES.get(self.owner.group_kind) if self.owner is not None else None
        return (kind, f"{self.meta.namespace}/{self.owner.name}") if kind and self.owner else None

    @property
    def lost_owners(self) -> bool:
        """True if a job had it that owns it no more, as after `kubectl delete --cascade=orphan`.

        A Workload that waits for the job that will bring it along never had one.
        """
        had_job = JOB_UID_LABEL in self.meta.labels or IN_USE_FINALIZER in self.meta.finalizers
        return had_job and not self.owners

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.meta.key

    @property
    def queue(self) -> str:
        """`namespace/name` of the LocalQueue."""
        return f"{self.meta.namespace}/{self.queue_name}"

    def condition(self, kind: str) -> ConditionInfo | None:
        """Return the condition of a type."""
        return next((each for each in self.conditions if each.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Return whether the condition of a type is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def finished(self) -> bool:
        """True if it has ended for good."""
        return self.holds(WorkloadCondition.FINISHED)

    @property
    def evicted(self) -> bool:
        """True if it was evicted, and not admitted since."""
        return self.holds(WorkloadCondition.EVICTED)

    @property
    def admitted(self) -> bool:
        """True if its job may run."""
        return self.holds(WorkloadCondition.ADMITTED)

    @property
    def has_passed(self) -> bool:
        """True if all of its admission checks are Ready."""
        return all(each.state == "Ready" for each in self.checks)

    @property
    def leaves(self) -> bool:
        """True if it has to give its quota back.

        One that was evicted before and is being admitted again has not: its status is not written
        yet.
        """
        return self.evicted and self.admission is not None


def usage(admission: AdmissionInfo, workload: WorkloadInfo) -> Usage:
    """Return what an admission takes once the pods that are done are taken off (KEP-78).

    Pods are taken off what the workload asks for. It may have been given fewer: because some were
    done already, or because a part of its request is enough.
    """
    taken: Usage = {}
    for assignment in admission.assignments:
        left = remaining(assignment, workload) if workload.reclaimable else assignment.count
        for resource, amount in assignment.usage.items():
            flavor = assignment.flavors.get(resource)
            if flavor is None or not assignment.count or not amount * left:
                continue
            key = (flavor, resource)
            taken[key] = taken.get(key, 0) + amount * left // assignment.count
    return taken


def remaining(
    assignment: Assignment, workload: WorkloadInfo, done: Mapping[str, int] = _NONE
) -> int:
    """Return how many of the pods that quota was given for have still to run.

    Pods that are `done` may have quota yet.
    """
    name = assignment.name
    asked = {each.name: each.count for each in workload.pod_sets}
    through = max(workload.reclaimable.get(name, 0), done.get(name, 0))
    return left_of(assignment.count, asked.get(name, assignment.count), through)


def left_of(given: int, asked: int, done: int) -> int:
    """Return how many pods have still to run of those that quota was given for.

    Those that are done are some of those that were asked for.
    """
    return max(0, min(given, asked - done))


CompletionMode = Literal["Indexed", "NonIndexed"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class JobObject:
    """A job of any kind, as the API server has it."""

    kind: str
    """The name of its integration, such as `batch/job`."""
    meta: Meta
    raw: bytes = field(repr=False)
    queue_name: str = ""
    owner: OwnerRef | None = None
    group: str = ""
    """The name that all objects have which are one job together; nothing for one alone."""
    completion_mode: CompletionMode | None = None
    """The completion mode of a Job; other kinds have none."""
    done: Mapping[str, int] = field(default_factory=dict)
    """Pods by pod set that no start makes any more, where their quota is not given back yet."""
    decoded: Any = field(default=None, repr=False, compare=False)
    """The object as `Integration.read` returns it, where its kind has that and it can be read."""

    @property
    def key(self) -> tuple[str, str]:
        """Integration, and `namespace/name`."""
        return self.kind, self.meta.key

    @property
    def prebuilt(self) -> str:
        """`namespace/name` of the workload that it brings along, or nothing."""
        said = self.meta.labels.get(PREBUILT_LABEL) or self.meta.annotations.get(PREBUILT_LABEL)
        return f"{self.meta.namespace}/{said}" if said else ""

    @property
    def unit(self) -> tuple[str, str]:
        """Integration, and what is one job: the object, or the group that it is a part of."""
        if self.group:
            return self.kind, f"{self.meta.namespace}/group/{self.group}"
        return self.key


SERVICES: Final = {
    "apps/StatefulSet": "statefulset",
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
}
"""The integrations of services, by GROUP/KIND."""


def group_unit(workload: str) -> tuple[str, str]:
    """Return the `JobObject.unit` of the group of pods that a Workload is named after."""
    namespace, _, name = workload.partition("/")
    return "pod", f"{namespace}/group/{name}"
