"""ClusterQueue: quotas of the whole cluster, and how workloads wait for them."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import A_SET, CheckName, ResourceName, by, rules
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

    model_config = ConfigDict(
        json_schema_extra=rules({
            "a preference is only for TryNextFlavor in both other fields": (
                "!has(self.preference) "
                f"|| (self.whenCanBorrow == '{_NEXT}' && self.whenCanPreempt == '{_NEXT}')"
            )
        })
    )  # fmt: skip

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = Field(
        default="MayStopSearch",
        description="Whether a flavor is taken in which the workload must borrow.",
    )
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = Field(
        default="TryNextFlavor",
        description="Whether a flavor is taken in which others must be preempted.",
    )
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = Field(
        default=None,
        description="What is better where every flavor needs one of both. "
        "Unset: BorrowingOverPreemption.",
    )


class BorrowWithinCohort(Written):
    """Whether a workload may preempt others of the cohort while it borrows."""

    policy: Literal["Never", "LowerPriority"] = Field(
        default="Never", description="Never, or workloads of a lower priority."
    )
    max_priority_threshold: Int32 | None = Field(
        default=None, description="Workloads above this priority are left alone. Unset: no limit."
    )


class ClusterQueuePreemption(Written):
    """Whom a workload may send away in order to run."""

    model_config = ConfigDict(
        json_schema_extra=rules({
            "borrowWithinCohort needs reclaimWithinCohort other than Never": (
                "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) "
                "|| self.borrowWithinCohort.policy == 'Never'"
            )
        })
    )  # fmt: skip

    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = Field(
        default="Never",
        description="Which borrowers of the cohort may be preempted for a workload that fits "
        "into the queue's own nominal quota.",
    )
    borrow_within_cohort: BorrowWithinCohort | None = Field(
        default=None,
        description="Whether a workload that must borrow may preempt others of the cohort.",
        json_schema_extra=EMPTY,
    )
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = Field(
        default="Never", description="Which workloads of this queue may be preempted."
    )


class AdmissionCheckStrategyRule(Written):
    """One admission check and what it is for."""

    name: CheckName = Field(description="The name of an AdmissionCheck.")
    on_flavors: Annotated[list[DnsName], Field(max_length=64)] | None = Field(
        default=None,
        description="The flavors that need the check. Empty: all.",
        json_schema_extra=A_SET,
    )


class AdmissionChecksStrategy(Written):
    """Which checks a workload must pass besides having quota."""

    admission_checks: Annotated[
        list[AdmissionCheckStrategyRule], Field(min_length=1, max_length=64)
    ] = Field(description="The checks.", json_schema_extra=by("name"))


class AdmissionScope(Written):
    """How past use counts. Not honoured."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"] = Field(
        description="Whether LocalQueues that used less come first."
    )


class ConcurrentAdmissionPolicy(Written):
    """Several attempts of one workload at once. Not honoured."""

    model_config = ConfigDict(extra="allow")


class QueueingSpec(Written):
    """What ClusterQueues of every version say in the same words."""

    resource_groups: ResourceGroups | None = Field(
        default=None,
        description="The quotas, by groups of resources.",
        json_schema_extra=GROUP_RULES,
    )
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = Field(
        default="BestEffortFIFO",
        description="Within one priority older workloads come first. StrictFIFO: nobody passes the "
        "first one. BestEffortFIFO: who fits may pass who does not.",
    )
    namespace_selector: LabelSelector | None = Field(
        default=None,
        description="The namespaces whose workloads are admitted. Unset: none. Empty: all.",
    )
    preemption: ClusterQueuePreemption | None = Field(
        default=None,
        description="Whom a workload may send away in order to run.",
        json_schema_extra=EMPTY,
    )
    admission_checks_strategy: AdmissionChecksStrategy | None = Field(
        default=None,
        description="Checks that workloads must pass. Not honoured: a queue with checks is not "
        "active, with the reason AdmissionCheckNotFound.",
    )
    stop_policy: StopPolicy | None = Field(
        default=None,
        description="None: workloads are admitted. Hold: no more of them. HoldAndDrain: and those "
        "that run are evicted.",
        json_schema_extra={"default": "None"},
    )
    fair_sharing: FairSharing | None = Field(
        default=None, description="The weight in fair sharing. Not honoured."
    )
    admission_scope: AdmissionScope | None = Field(
        default=None, description="How past use counts. Not honoured."
    )
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = Field(
        default=None, description="Several attempts of one workload at once. Not honoured."
    )


class ClusterQueueSpec(QueueingSpec):
    """The quotas of the queue and its rules."""

    model_config = ConfigDict(json_schema_extra=rules(limits_need("cohortName")))

    cohort_name: DnsName | None = Field(
        default=None,
        description="The cohort whose members lend each other what they do not use. A Cohort "
        "object of the name is not needed.",
    )
    flavor_fungibility: FlavorFungibility | None = Field(
        default=None,
        description="When a flavor is taken, and when the next one is looked at.",
        json_schema_extra=EMPTY,
    )


class ResourceUsage(Read):
    """How much of one resource is used."""

    name: ResourceName = Field(description="The resource.")
    total: Quantity | None = Field(default=None, description="What is used, borrowed or not.")
    borrowed: Quantity | None = Field(
        default=None, description="How much of it is beyond the nominal quota."
    )


class FlavorUsage(Read):
    """How much of one flavor is used."""

    name: DnsName = Field(description="The flavor.")
    resources: Annotated[list[ResourceUsage], Field(max_length=64)] = Field(
        description="What is used, by resource.", json_schema_extra=by("name")
    )


_Usages = Annotated[list[FlavorUsage], Field(max_length=256)]


class ClusterQueueStatus(Read):
    """What was last seen of the queue."""

    conditions: Annotated[list[Condition], Field(max_length=16)] | None = Field(
        default=None,
        description="Whether the queue is Active, and why.",
        json_schema_extra=LIST_BY_TYPE,
    )
    flavors_reservation: _Usages | None = Field(
        default=None,
        description="The quota that workloads have reserved.",
        json_schema_extra=by("name"),
    )
    flavors_usage: _Usages | None = Field(
        default=None,
        description="The quota of the workloads that are admitted.",
        json_schema_extra=by("name"),
    )
    pending_workloads: Count | None = Field(
        default=None, description="How many workloads wait for quota."
    )
    reserving_workloads: Count | None = Field(
        default=None, description="How many workloads have reserved quota."
    )
    admitted_workloads: Count | None = Field(
        default=None, description="How many workloads are admitted and have not finished."
    )
    fair_sharing: FairSharingStatus | None = Field(
        default=None, description="The share in what is borrowed. Not written."
    )


class ClusterQueue(Read):
    """Quotas of the whole cluster, and the line in which workloads of many namespaces wait.

    Users submit to a LocalQueue of their namespace that names this queue.
    """

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["ClusterQueue"]
    metadata: ObjectMeta
    spec: ClusterQueueSpec | None = Field(
        default=None, description="The quotas of the queue and its rules."
    )
    status: ClusterQueueStatus | None = Field(
        default=None, description="What was last seen of the queue."
    )
