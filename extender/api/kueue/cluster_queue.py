"""ClusterQueue: quotas of the whole cluster, and how workloads wait for them."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import A_SET, CheckName, ResourceName, by, ruled
from extender.api.kueue.quotas import (
    GROUP_RULES,
    FairSharing,
    FairSharingStatus,
    ResourceGroups,
    limits_need,
)
from extender.api.kueue.selectors import LabelSelector
from extender.api.meta_v1 import (
    LIST_BY_TYPE,
    Condition,
    Count,
    DnsName,
    Int32,
    ObjectMeta,
    Quantity,
    Read,
    Written,
)

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
EMPTY: Final[dict[str, Any]] = {"default": {}}
_NEXT: Final = "TryNextFlavor"


class FlavorFungibility(Written):
    """When a workload takes a flavor, and when the next one is looked at."""

    model_config = ruled({
        "a preference is only for TryNextFlavor in both other fields": (
            "!has(self.preference) "
            f"|| (self.whenCanBorrow == '{_NEXT}' && self.whenCanPreempt == '{_NEXT}')"
        )
    })  # fmt: skip

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    """Whether a flavor is taken in which the workload must borrow."""
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    """Whether a flavor is taken in which others must be preempted."""
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    """What is better where every flavor needs one of both. Unset: BorrowingOverPreemption."""


class BorrowWithinCohort(Written):
    """Whether a workload may preempt others of the cohort while it borrows."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    """Never, or workloads of a lower priority."""
    max_priority_threshold: Int32 | None = None
    """Workloads above this priority are left alone. Unset: no limit."""


class ClusterQueuePreemption(Written):
    """Which workloads may be preempted for a workload."""

    model_config = ruled({
        "borrowWithinCohort needs reclaimWithinCohort other than Never": (
            "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) "
            "|| self.borrowWithinCohort.policy == 'Never'"
        )
    })  # fmt: skip

    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Which borrowers of the cohort may be preempted for a workload that fits into the queue's own
    nominal quota."""
    borrow_within_cohort: BorrowWithinCohort | None = Field(default=None, json_schema_extra=EMPTY)
    """Whether a workload that must borrow may preempt others of the cohort."""
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Which workloads of this queue may be preempted."""


class AdmissionCheckStrategyRule(Written):
    """One admission check and what it is for."""

    name: CheckName
    """The name of an AdmissionCheck."""
    on_flavors: Annotated[list[DnsName], Field(max_length=64)] | None = Field(
        default=None, json_schema_extra=A_SET
    )
    """The flavors that need the check. Empty: all."""


class AdmissionChecksStrategy(Written):
    """Which checks a workload must pass besides having quota."""

    admission_checks: Annotated[
        list[AdmissionCheckStrategyRule], Field(min_length=1, max_length=64)
    ] = Field(json_schema_extra=by("name"))
    """The checks."""


class AdmissionScope(Written):
    """How past use counts. Not honoured."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    """Whether LocalQueues that used less come first."""


class ConcurrentAdmissionPolicy(Written):
    """Several attempts of one workload at once. Not honoured."""

    model_config = ConfigDict(extra="allow")


class QueueingSpec(Written):
    """What ClusterQueues of every version say in the same words."""

    resource_groups: ResourceGroups | None = Field(default=None, json_schema_extra=GROUP_RULES)
    """The quotas, by groups of resources."""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """Within one priority older workloads come first. StrictFIFO: no workload passes the first one.
    BestEffortFIFO: a workload that fits may pass one that does not."""
    namespace_selector: LabelSelector | None = None
    """The namespaces whose workloads are admitted. Unset: none. Empty: all."""
    preemption: ClusterQueuePreemption | None = Field(default=None, json_schema_extra=EMPTY)
    """Which workloads may be preempted for a workload."""
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """Checks that workloads must pass. Not honoured: a queue with checks is not active, with the
    reason AdmissionCheckNotFound."""
    stop_policy: StopPolicy | None = Field(default=None, json_schema_extra={"default": "None"})
    """None: workloads are admitted. Hold: no more of them. HoldAndDrain: and those that run are
    evicted."""
    fair_sharing: FairSharing | None = None
    """The weight in fair sharing. Not honoured."""
    admission_scope: AdmissionScope | None = None
    """How past use counts. Not honoured."""
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    """Several attempts of one workload at once. Not honoured."""


class ClusterQueueSpec(QueueingSpec):
    """The quotas of the queue and its rules."""

    model_config = ruled(limits_need("cohortName"))

    cohort_name: DnsName | None = None
    """The cohort whose members lend each other what they do not use. A Cohort object of the name is
    not needed."""
    flavor_fungibility: FlavorFungibility | None = Field(default=None, json_schema_extra=EMPTY)
    """When a flavor is taken, and when the next one is looked at."""


class ResourceUsage(Read):
    """How much of one resource is used."""

    name: ResourceName
    """The resource."""
    total: Quantity | None = None
    """What is used, borrowed or not."""
    borrowed: Quantity | None = None
    """How much of it is beyond the nominal quota."""


class FlavorUsage(Read):
    """How much of one flavor is used."""

    name: DnsName
    """The flavor."""
    resources: Annotated[list[ResourceUsage], Field(max_length=64)] = Field(
        json_schema_extra=by("name")
    )
    """What is used, by resource."""


_Usages = Annotated[list[FlavorUsage], Field(max_length=256)]


class ClusterQueueStatus(Read):
    """What was last seen of the queue."""

    conditions: Annotated[list[Condition], Field(max_length=16)] | None = Field(
        default=None, json_schema_extra=LIST_BY_TYPE
    )
    """Whether the queue is Active, and why."""
    flavors_reservation: _Usages | None = Field(default=None, json_schema_extra=by("name"))
    """The quota that workloads have reserved."""
    flavors_usage: _Usages | None = Field(default=None, json_schema_extra=by("name"))
    """The quota of the workloads that are admitted."""
    pending_workloads: Count | None = None
    """How many workloads wait for quota."""
    reserving_workloads: Count | None = None
    """How many workloads have reserved quota."""
    admitted_workloads: Count | None = None
    """How many workloads are admitted and have not finished."""
    fair_sharing: FairSharingStatus | None = None
    """The share in what is borrowed. Not written."""


class ClusterQueue(Read):
    """Quotas of the whole cluster, and the line in which workloads of many namespaces wait.

    Users submit to a LocalQueue of their namespace that names this queue.
    """

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["ClusterQueue"]
    metadata: ObjectMeta
    spec: ClusterQueueSpec | None = None
    """The quotas of the queue and its rules."""
    status: ClusterQueueStatus | None = None
    """What was last seen of the queue."""
