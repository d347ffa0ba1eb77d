"""The parts of queue objects, workloads and namespaces that decisions read, decoded by msgspec.

They are lenient: the CRDs say what is valid, and these types read what is stored. A type without a
docstring is the API's type with its name.
"""

from datetime import datetime

from msgspec import Raw, field

from extender.api.core_v1 import (
    Amount,
    AnnotatedMeta,
    Condition,
    LabelSelector,
    Taint,
    Toleration,
    Wire,
)


class Metadata(AnnotatedMeta, frozen=True):
    """metav1.ObjectMeta with the fields that the queue reads."""

    finalizers: list[str] | None = None


class OnlyMetadata(Wire, frozen=True):
    """The metadata of any object."""

    metadata: Metadata = Metadata()


class Properties(Wire, frozen=True):
    """The fields of the spec of any object."""

    spec: dict[str, Raw] | None = None


class FlavorSpec(Wire, frozen=True):
    """ResourceFlavorSpec."""

    node_labels: dict[str, str] | None = None
    node_taints: list[Taint] | None = None
    tolerations: list[Toleration] | None = None
    topology_name: str | None = None


class Flavor(OnlyMetadata, frozen=True):
    """ResourceFlavor."""

    spec: FlavorSpec = FlavorSpec()


class Level(Wire, frozen=True):
    """TopologyLevel."""

    node_label: str = ""


class TopologySpec(Wire, frozen=True):
    levels: list[Level] = field(default_factory=list)


class Topology(OnlyMetadata, frozen=True):
    spec: TopologySpec = TopologySpec()


class ResourceQuota(Wire, frozen=True):
    """Quota of one resource."""

    name: str
    nominal_quota: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuota(Wire, frozen=True):
    """Quotas of one flavor."""

    name: str
    resources: list[ResourceQuota] = field(default_factory=list)


class Group(Wire, frozen=True):
    """ResourceGroup."""

    covered_resources: list[str] = field(default_factory=list)
    flavors: list[FlavorQuota] = field(default_factory=list)


class FlavorFungibility(Wire, frozen=True):
    """The conditions under which the search for a flavor may stop before the last one."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class BorrowWithinCohort(Wire, frozen=True):
    policy: str = "Never"
    max_priority_threshold: int | None = None


class QueuePreemption(Wire, frozen=True):
    """ClusterQueuePreemption."""

    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class Check(Wire, frozen=True):
    """AdmissionCheckStrategyRule."""

    name: str = ""
    on_flavors: list[str] | None = None


class ChecksStrategy(Wire, frozen=True):
    """AdmissionChecksStrategy."""

    admission_checks: list[Check] | None = None


class ClusterQueueSpec(Wire, frozen=True):
    resource_groups: list[Group] | None = None
    cohort_name: str | None = None
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: QueuePreemption | None = None
    stop_policy: str | None = None
    admission_checks_strategy: ChecksStrategy | None = None


class Conditions(Wire, frozen=True):
    """The part that is read from a status that is written as a whole."""

    conditions: list[Condition] | None = None


class ClusterQueue(OnlyMetadata, frozen=True):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: Raw = Raw()


class CheckParameters(Wire, frozen=True):
    """AdmissionCheckParametersReference."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Wire, frozen=True):
    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheck(OnlyMetadata, frozen=True):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: Conditions = Conditions()


class RetryStrategy(Wire, frozen=True):
    """ProvisioningRequestRetryStrategy."""

    backoff_limit_count: int = 3
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 1800


class ProvisioningConfigSpec(Wire, frozen=True):
    """ProvisioningRequestConfigSpec."""

    provisioning_class_name: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    managed_resources: list[str] = field(default_factory=list)
    retry_strategy: RetryStrategy = RetryStrategy()
    pod_set_merge_policy: str = ""
    pod_set_updates: dict[str, list[dict[str, str]]] = field(default_factory=dict)


class ProvisioningConfig(OnlyMetadata, frozen=True):
    """ProvisioningRequestConfig."""

    spec: ProvisioningConfigSpec = ProvisioningConfigSpec()


class RequestedPods(Wire, frozen=True):
    """autoscaling.x-k8s.io PodSet."""

    pod_template_ref: dict[str, str] = field(default_factory=dict)


class ProvisioningRequestSpec(Wire, frozen=True):
    provisioning_class_name: str = ""
    pod_sets: list[RequestedPods] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)


class ProvisioningRequestStatus(Conditions, frozen=True):
    provisioning_class_details: dict[str, str] = field(default_factory=dict)


class ProvisioningRequest(OnlyMetadata, frozen=True):
    """The ProvisioningRequest of autoscaling.x-k8s.io."""

    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


class CohortSpec(Wire, frozen=True):
    parent_name: str | None = None
    resource_groups: list[Group] | None = None


class Cohort(OnlyMetadata, frozen=True):
    spec: CohortSpec = CohortSpec()


class LocalQueueSpec(Wire, frozen=True):
    cluster_queue: str = ""
    stop_policy: str | None = None


class LocalQueue(OnlyMetadata, frozen=True):
    spec: LocalQueueSpec = LocalQueueSpec()
    status: Raw = Raw()


class PriorityClass(OnlyMetadata, frozen=True):
    """PriorityClass, and WorkloadPriorityClass."""

    value: int = 0
    global_default: bool = False


class LimitRangeItem(Wire, frozen=True, eq=False):
    """One item of a LimitRange, for each container or for a pod; quantities as they are written."""

    per: str = field(default="", name="type")
    """`Container` or `Pod`."""
    limits: dict[str, Amount] = field(default_factory=dict, name="default")
    """The limit of a container that sets none."""
    requests: dict[str, Amount] = field(default_factory=dict, name="defaultRequest")
    """The request of a container that sets none."""
    least: dict[str, Amount] = field(default_factory=dict, name="min")
    most: dict[str, Amount] = field(default_factory=dict, name="max")
    ratio: dict[str, Amount] = field(default_factory=dict, name="maxLimitRequestRatio")
    """The largest number of times that a limit may be the request."""


class LimitRangeSpec(Wire, frozen=True):
    limits: list[LimitRangeItem] | None = None


class LimitRange(OnlyMetadata, frozen=True):
    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Wire, frozen=True):
    pod_fixed: dict[str, Amount] | None = None


class RuntimeClass(OnlyMetadata, frozen=True):
    overhead: Overhead | None = None


class JobSpec(Wire, frozen=True):
    completion_mode: str | None = None


class Job(Wire, frozen=True):
    """batchv1.Job, its completion mode alone."""

    spec: JobSpec = JobSpec()


class TopologyRequest(Wire, frozen=True):
    """PodSetTopologyRequest."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: list[Raw] | None = None


class PodSet(Wire, frozen=True):
    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: Raw = Raw(b"{}")
    topology_request: TopologyRequest | None = None


class ClassRef(Wire, frozen=True):
    """PriorityClassRef."""

    group: str = ""
    kind: str = ""
    name: str = ""


class PreemptionGate(Wire, frozen=True):
    """PreemptionGate, and PreemptionGateState."""

    name: str = ""
    position: str = "Closed"


class WorkloadSpec(Wire, frozen=True):
    pod_sets: list[PodSet] = field(default_factory=list)
    queue_name: str = ""
    priority: int | None = None
    priority_class_ref: ClassRef | None = None
    active: bool = True
    maximum_execution_time_seconds: int | None = None
    preemption_gates: list[PreemptionGate] | None = None


class PodSetAssignment(Wire, frozen=True):
    name: str = "main"
    flavors: dict[str, str] | None = None
    resource_usage: dict[str, Amount] | None = None
    count: int | None = None
    topology_assignment: Raw = Raw()


class WorkloadAdmission(Wire, frozen=True):
    """Admission."""

    cluster_queue: str = ""
    pod_set_assignments: list[PodSetAssignment] = field(default_factory=list)


class Requeue(Wire, frozen=True):
    """RequeueState."""

    count: int | None = None
    requeue_at: datetime | None = None


class Reclaimable(Wire, frozen=True):
    """ReclaimablePod."""

    name: str
    count: int = 0


class Eviction(Wire, frozen=True):
    """The number of times that a workload was evicted for a reason."""

    reason: str = ""
    cause: str = field(default="", name="underlyingCause")
    count: int = 0


class PodSetUpdate(Wire, frozen=True):
    """The additions of an admission check to the pods of one pod set."""

    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Toleration] = field(default_factory=list)


class AdmissionCheckState(Wire, frozen=True):
    name: str = ""
    state: str = "Pending"
    message: str = ""
    last_transition_time: datetime | None = None
    pod_set_updates: list[PodSetUpdate] | None = None
    requeue_after_seconds: int | None = None
    retry_count: int | None = None


class SchedulingStats(Wire, frozen=True):
    evictions: list[Eviction] | None = None


class WorkloadStatus(Wire, frozen=True):
    admission: WorkloadAdmission | None = None
    conditions: list[Condition] | None = None
    requeue_state: Requeue | None = None
    reclaimable_pods: list[Reclaimable] | None = None
    scheduling_stats: SchedulingStats | None = None
    accumulated_past_execution_time_seconds: int | None = None
    preemption_gates: list[PreemptionGate] | None = None
    admission_checks: list[AdmissionCheckState] | None = None


class Workload(OnlyMetadata, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class WorkloadParts(OnlyMetadata, frozen=True):
    """A Workload whose parts are decoded separately."""

    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")
