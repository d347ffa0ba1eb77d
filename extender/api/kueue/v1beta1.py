"""The queue's kinds in `v1beta1`, which most manifests still use.

Only the differences are here. `extender.webhooks.conversion` converts; v1beta2 is stored.
"""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue import cluster_queue as cluster_queues
from extender.api.kueue import cohort as cohorts
from extender.api.kueue import local_queue as local_queues
from extender.api.kueue import resource_flavor, topology, workload_priority_class
from extender.api.kueue import workload as workloads
from extender.api.kueue.cluster_queue import EMPTY, ClusterQueueStatus, QueueingSpec
from extender.api.kueue.fields import A_SET, ATOMIC, CheckName, by, ruled
from extender.api.kueue.quotas import limits_need
from extender.api.kueue.workload import (
    STATUS_RULES,
    STAYING_RULES,
    UNRESERVED,
    workload_rules,
)
from extender.api.meta_v1 import Count, DnsName, ObjectMeta, Read
from extender.api.wellknown import QUEUE_GROUP

VERSION: Final = "v1beta1"
API_VERSION: Final = f"{QUEUE_GROUP}/{VERSION}"
DEPRECATION: Final = f"{API_VERSION} is deprecated; say {QUEUE_GROUP}/v1beta2 in new manifests"

WORKLOAD_PRIORITY_SOURCE: Final = "kueue.x-k8s.io/workloadpriorityclass"
POD_PRIORITY_SOURCE: Final = "scheduling.k8s.io/priorityclass"


class FlavorFungibility(cluster_queues.FlavorFungibility):
    """When a workload takes a flavor, and when the next one is looked at."""

    when_can_borrow: Literal["Borrow", "MayStopSearch", "TryNextFlavor"] = "Borrow"  # type: ignore[assignment]
    """Whether a flavor is taken in which the workload must borrow. MayStopSearch is the newer word
    for Borrow."""
    when_can_preempt: Literal["Preempt", "MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"  # type: ignore[assignment]
    """Whether a flavor is taken in which others must be preempted. MayStopSearch is the newer word
    for Preempt."""


class ClusterQueueSpec(QueueingSpec):
    """The quotas of the queue and its rules."""

    model_config = ruled({
        **limits_need("cohort"),
        "admissionChecks and admissionChecksStrategy exclude each other": (
            "!has(self.admissionChecks) || size(self.admissionChecks) == 0 "
            "|| !has(self.admissionChecksStrategy)"
        ),
    })  # fmt: skip

    cohort: DnsName | None = None
    """The cohort whose members lend each other what they do not use. A Cohort object of the name is
    not needed."""
    flavor_fungibility: FlavorFungibility | None = Field(default=None, json_schema_extra=EMPTY)
    """When a flavor is taken, and when the next one is looked at."""
    admission_checks: Annotated[list[CheckName], Field(max_length=64)] | None = Field(
        default=None, json_schema_extra=A_SET
    )
    """Checks that workloads must pass in every flavor. Not honoured: a queue with checks is not
    active, with the reason AdmissionCheckNotFound."""


class PendingWorkload(Read):
    """One workload that waits."""

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""


class PendingWorkloadsStatus(Read):
    """The workloads that wait first. Not written, and not kept."""

    cluster_queue_pending_workload: list[PendingWorkload] | None = Field(
        default=None, json_schema_extra=ATOMIC
    )
    """The workloads."""
    last_change_time: datetime
    """When the order last changed."""


class OlderClusterQueueStatus(ClusterQueueStatus):
    """What was last seen of the queue."""

    pending_workloads_status: PendingWorkloadsStatus | None = None
    """The workloads that wait first. Not written, and not kept."""


class LocalQueueFlavor(Read):
    """A flavor that the ClusterQueue has. Not written, and not kept."""

    model_config = ConfigDict(extra="allow")

    name: DnsName
    """The name of the flavor."""


class LocalQueueStatus(local_queues.QueueCounts):
    """What was last seen of the queue."""

    flavor_usage: local_queues.LocalUsages | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """The quota of the workloads that are admitted."""
    flavors: Annotated[list[LocalQueueFlavor], Field(max_length=256)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """The flavors of the ClusterQueue. Not written, and not kept."""


_NAME: Final = "(has({0}.spec.priorityClassName) ? {0}.spec.priorityClassName : '')"
_SOURCE: Final = "(has({0}.spec.priorityClassSource) ? {0}.spec.priorityClassSource : '')"
_PRIORITY_RULES: Final = {
    "with priorityClassName there is a priority": (
        "!has(self.spec.priorityClassName) || self.spec.priorityClassName == '' "
        "|| has(self.spec.priority)"
    )
}
_STAYING_PRIORITY_RULES: Final = {
    "priorityClassSource cannot be changed while quota is reserved": (
        f"{UNRESERVED} || {_SOURCE.format('self')} == {_SOURCE.format('oldSelf')}"
    ),
    "another PriorityClass cannot be named while quota is reserved": (
        f"{UNRESERVED} || {_SOURCE.format('self')} == '{WORKLOAD_PRIORITY_SOURCE}' "
        f"|| {_NAME.format('self')} == {_NAME.format('oldSelf')}"
    ),
}


class WorkloadSpec(workloads.RequestSpec):
    """What the job needs."""

    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """The class that the priority is from."""
    priority_class_source: (
        Literal["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""]
        | None
    ) = Field(default=None, json_schema_extra={"default": ""})
    """The kind of that class; empty for none."""


class WorkloadStatus(workloads.GivenStatus):
    """What the job was given, and what became of it."""

    model_config = ruled(STATUS_RULES)

    # The misspelt name is what this version calls it.
    accumulated_past_exexcution_time_seconds: Count | None = None
    """For how long it was admitted in earlier times, together."""


class ResourceFlavor(resource_flavor.ResourceFlavor):
    """A kind of nodes, by their labels and taints, for which ClusterQueues have quotas."""

    api_version: Literal["kueue.x-k8s.io/v1beta1"]  # type: ignore[assignment]  # its name is all that differs


class Topology(topology.Topology):
    """Where nodes are: levels of domains, such as blocks, racks and hosts, by labels of nodes."""

    api_version: Literal["kueue.x-k8s.io/v1beta1"]  # type: ignore[assignment]  # its name is all that differs


class WorkloadPriorityClass(workload_priority_class.WorkloadPriorityClass):
    """A named priority in the queue, for its order and for preemption."""

    api_version: Literal["kueue.x-k8s.io/v1beta1"]  # type: ignore[assignment]  # its name is all that differs


class Cohort(cohorts.Cohort):
    """ClusterQueues, and cohorts of them, that lend each other what they do not use."""

    api_version: Literal["kueue.x-k8s.io/v1beta1"]  # type: ignore[assignment]  # its name is all that differs


class ClusterQueue(Read):
    """Quotas of the whole cluster, and the line in which workloads of many namespaces wait."""

    api_version: Literal["kueue.x-k8s.io/v1beta1"]
    kind: Literal["ClusterQueue"]
    metadata: ObjectMeta
    spec: ClusterQueueSpec | None = None
    """The quotas of the queue and its rules."""
    status: OlderClusterQueueStatus | None = None
    """What was last seen of the queue."""


class LocalQueue(Read):
    """The queue to which the users of a namespace submit."""

    api_version: Literal["kueue.x-k8s.io/v1beta1"]
    kind: Literal["LocalQueue"]
    metadata: ObjectMeta
    spec: local_queues.LocalQueueSpec | None = None
    """Which ClusterQueue is meant."""
    status: LocalQueueStatus | None = None
    """What was last seen of the queue."""


class Workload(Read):
    """What one job needs of a queue, and what it was given."""

    model_config = workload_rules({**STAYING_RULES, **_STAYING_PRIORITY_RULES}, _PRIORITY_RULES)

    api_version: Literal["kueue.x-k8s.io/v1beta1"]
    kind: Literal["Workload"]
    metadata: ObjectMeta
    spec: WorkloadSpec
    """What the job needs."""
    status: WorkloadStatus | None = None
    """What the job was given, and what became of it."""
