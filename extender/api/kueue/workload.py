"""Workload: what one job needs, and what it was given."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import ATOMIC, by, rules
from extender.api.kueue.pod_sets import (
    MOST,
    Admission,
    AdmissionCheckState,
    PodSet,
    PodSetRequest,
    ReclaimablePod,
)
from extender.api.meta_v1 import (
    LIST_BY_TYPE,
    Condition,
    Count,
    DnsName,
    Int32,
    ObjectMeta,
    Positive,
    Read,
    Written,
)

CORE_PRIORITY_GROUP: Final = "scheduling.k8s.io"


# The API server bounds the cost of a rule before it takes it, and knows the size of a list only
# where it is named by its path: hence `has` where an optional would be shorter. Every rule is
# evaluated at every write: what is cheap and mostly true comes first.


def _holds(condition: str, owner: str = "self") -> str:
    """Return the CEL expression for: that condition of the workload is True."""
    return (
        f"(has({owner}.status) && has({owner}.status.conditions) "
        f"&& {owner}.status.conditions"
        f".exists(c, c.type == '{condition}' && c.status == 'True'))"
    )


def _same(field: str, absent: str) -> str:
    """Return the CEL expression for: a field of the spec is what it was."""
    new, old = (
        f"(has({path}) ? {path} : {absent})"
        for path in (f"self.spec.{field}", f"oldSelf.spec.{field}")
    )
    return f"{new} == {old}"


_NOTHING: Final = "''"
_RESERVED: Final = _holds("QuotaReserved")
_WAS_RESERVED: Final = _holds("QuotaReserved", "oldSelf")
STAYS_RESERVED: Final = f"{_WAS_RESERVED} && {_RESERVED}"
_STAYS_ADMITTED: Final = f"{_holds('Admitted', 'oldSelf')} && {_holds('Admitted')}"
_ASSIGNED: Final = "self.status.admission.podSetAssignments"
_NONE_RECLAIMABLE: Final = "!has(self.status) || !has(self.status.reclaimablePods)"
_NONE_WERE: Final = "!has(oldSelf.status) || !has(oldSelf.status.reclaimablePods)"

RULES: Final = {
    "podSets cannot be changed while quota is reserved": (
        f"!{_WAS_RESERVED} || self.spec.podSets == oldSelf.spec.podSets"
    ),
    "queueName cannot be changed while quota is reserved": (
        f"{_same('queueName', _NOTHING)} || !({STAYS_RESERVED})"
    ),
    "maximumExecutionTimeSeconds cannot be changed while the workload is admitted": (
        f"{_same('maximumExecutionTimeSeconds', '0')} || !({_STAYS_ADMITTED})"
    ),
    "QuotaReserved needs status.admission": (
        f"(has(self.status) && has(self.status.admission)) || !{_RESERVED}"
    ),
    "admission is for each of the pod sets, and for nothing else": (
        f"!has(self.status) || !has(self.status.admission) || (has({_ASSIGNED}) "
        f"&& size({_ASSIGNED}) == size(self.spec.podSets) "
        f"&& {_ASSIGNED}.all(a, self.spec.podSets.exists(p, p.name == a.name))) || !{_RESERVED}"
    ),
    "reclaimablePods are of pod sets, and not more than those have": (
        f"{_NONE_RECLAIMABLE} || self.status.reclaimablePods.all(r, "
        "self.spec.podSets.exists(p, p.name == r.name && r.count <= p.count))"
    ),
    "reclaimablePods cannot become fewer while quota is reserved": (
        f"{_NONE_WERE} || size(oldSelf.status.reclaimablePods) == 0 "
        "|| (has(self.status) && has(self.status.reclaimablePods) "
        "&& oldSelf.status.reclaimablePods.all(o, self.status.reclaimablePods"
        f".exists(r, r.name == o.name && r.count >= o.count))) || !({STAYS_RESERVED})"
    ),
}
"""The rules of the whole object, in the words that both versions share."""

_OTHERWISE: Final = f" || !({STAYS_RESERVED})"
_BOTH: Final = "!has(self.spec.priorityClassRef) || !has(oldSelf.spec.priorityClassRef) || "

REF_RULES: Final = {
    "priorityClassRef cannot come or go while quota is reserved": (
        f"has(self.spec.priorityClassRef) == has(oldSelf.spec.priorityClassRef){_OTHERWISE}"
    ),
    "group and kind of priorityClassRef cannot be changed while quota is reserved": (
        f"{_BOTH}(self.spec.priorityClassRef.group == oldSelf.spec.priorityClassRef.group "
        f"&& self.spec.priorityClassRef.kind == oldSelf.spec.priorityClassRef.kind){_OTHERWISE}"
    ),
    "another PriorityClass cannot be named while quota is reserved": (
        f"{_BOTH}self.spec.priorityClassRef.kind != 'PriorityClass' "
        f"|| self.spec.priorityClassRef.name == oldSelf.spec.priorityClassRef.name{_OTHERWISE}"
    ),
}

STATUS_RULES: Final = {
    "clusterName cannot be changed once it is set": (
        "!has(self.clusterName) || !has(oldSelf.clusterName) "
        "|| self.clusterName == oldSelf.clusterName"
    ),
    "clusterName and nominatedClusterNames exclude each other": (
        "!has(self.clusterName) || !has(self.nominatedClusterNames) "
        "|| size(self.nominatedClusterNames) == 0"
    ),
}


class PriorityClassRef(Written):
    """The class that the priority is from."""

    model_config = ConfigDict(
        json_schema_extra=rules({
            "kind and group belong together": (
                f"(self.group == '{CORE_PRIORITY_GROUP}') == (self.kind == 'PriorityClass')"
            )
        })
    )  # fmt: skip

    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"] = Field(
        description="The API group of the class."
    )
    kind: Literal["WorkloadPriorityClass", "PriorityClass"] = Field(
        description="Its kind: WorkloadPriorityClass of kueue.x-k8s.io, or PriorityClass of "
        "scheduling.k8s.io."
    )
    name: Annotated[DnsName, Field(min_length=1)] = Field(description="Its name.")


class PreemptionGate(Written):
    """What must be gone before others are preempted for the workload. Not honoured."""

    model_config = ConfigDict(extra="allow", strict=False)

    name: Annotated[str, Field(max_length=316)] = Field(description="The name of the gate.")


class RequestSpec(Written):
    """What workloads of every version say in the same words."""

    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=MOST)] = Field(
        description="The pods of the job, by sets of equal ones.",
        json_schema_extra={
            **by("name"),
            **rules({
                "only one pod set has a minCount": "self.filter(p, has(p.minCount)).size() <= 1"
            }),
        },
    )  # fmt: skip
    queue_name: DnsName | None = Field(
        default=None, description="The LocalQueue in which the workload waits."
    )
    priority: Int32 | None = Field(
        default=None, description="Higher goes first, and may preempt lower."
    )
    active: bool | None = Field(
        default=None,
        description="Whether the workload may run. False evicts it and keeps it out of the queue.",
        json_schema_extra={"default": True},
    )
    maximum_execution_time_seconds: Positive | None = Field(
        default=None,
        description="For how long it may be admitted, all times together, before it is "
        "deactivated.",
    )
    preemption_gates: Annotated[list[PreemptionGate], Field(max_length=16)] | None = Field(
        default=None,
        description="What must be gone before others are preempted for the workload. Not honoured.",
        json_schema_extra=by("name"),
    )


class WorkloadSpec(RequestSpec):
    """What the job needs."""

    model_config = ConfigDict(
        json_schema_extra=rules({
            "with priorityClassRef there is a priority": (
                "!has(self.priorityClassRef) || has(self.priority)"
            )
        })
    )  # fmt: skip

    priority_class_ref: PriorityClassRef | None = Field(
        default=None, description="The class that the priority is from."
    )


class RequeueState(Read):
    """How often the workload came back to the queue, and when it may again."""

    count: Count | None = Field(default=None, description="How often it was evicted as not ready.")
    requeue_at: datetime | None = Field(default=None, description="When it may be admitted again.")


class Evictions(Read):
    """How often the workload was evicted for one reason."""

    reason: Annotated[str, Field(max_length=316)] = Field(description="The reason.")
    underlying_cause: Annotated[str, Field(max_length=316)] = Field(
        description="What was behind it; may be empty."
    )
    count: Count = Field(description="How often.")


class SchedulingStats(Read):
    """What became of the workload so far, in numbers."""

    evictions: Annotated[list[Evictions], Field(max_length=256)] | None = Field(
        default=None,
        description="How often it was evicted, by reason.",
        json_schema_extra=by("reason", "underlyingCause"),
    )


class UnhealthyNode(Read):
    """A node that failed under the workload. Not written."""

    name: Annotated[str, Field(max_length=253)] = Field(description="The name of the node.")


class GateState(Read):
    """How far a preemption gate is. Not written."""

    model_config = ConfigDict(extra="allow", strict=False)

    name: Annotated[str, Field(max_length=316)] = Field(description="The name of the gate.")


class GivenStatus(Read):
    """What is told of workloads of every version in the same words."""

    conditions: Annotated[list[Condition], Field(max_length=16)] | None = Field(
        default=None,
        description="How far the workload is: QuotaReserved, Admitted, PodsReady, Evicted, "
        "Finished and others.",
        json_schema_extra=LIST_BY_TYPE,
    )
    admission: Admission | None = Field(
        default=None,
        description="What quota the workload has. Set or cleared, never edited.",
        json_schema_extra=rules({
            "admission is set or cleared, but not edited": "self == oldSelf",
        }),
    )  # fmt: skip
    requeue_state: RequeueState | None = Field(
        default=None, description="How often it came back to the queue, and when it may again."
    )
    reclaimable_pods: Annotated[list[ReclaimablePod], Field(max_length=MOST)] | None = Field(
        default=None,
        description="Pods that need their quota no more, by pod set.",
        json_schema_extra=by("name"),
    )
    admission_checks: Annotated[list[AdmissionCheckState], Field(max_length=64)] | None = Field(
        default=None,
        description="How far the admission checks are. Not written.",
        json_schema_extra=by("name"),
    )
    resource_requests: Annotated[list[PodSetRequest], Field(max_length=MOST)] | None = Field(
        default=None,
        description="What was asked for when the workload was last looked at, while it has no "
        "admission.",
        json_schema_extra=by("name"),
    )
    scheduling_stats: SchedulingStats | None = Field(
        default=None, description="What became of the workload so far, in numbers."
    )
    nominated_cluster_names: (
        Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=10)] | None
    ) = Field(
        default=None,
        description="Clusters that were asked. Not written.",
        json_schema_extra=ATOMIC,
    )
    cluster_name: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="The cluster that it is in. Not written."
    )
    unhealthy_nodes: Annotated[list[UnhealthyNode], Field(max_length=64)] | None = Field(
        default=None,
        description="Nodes that failed under the workload. Not written.",
        json_schema_extra=by("name"),
    )
    preemption_gates: Annotated[list[GateState], Field(max_length=16)] | None = Field(
        default=None,
        description="How far the preemption gates are. Not written.",
        json_schema_extra=by("name"),
    )


class WorkloadStatus(GivenStatus):
    """What the job was given, and what became of it."""

    model_config = ConfigDict(json_schema_extra=rules(STATUS_RULES))

    accumulated_past_execution_time_seconds: Count | None = Field(
        default=None, description="For how long it was admitted in earlier times, together."
    )


class Workload(Read):
    """What one job needs of a queue, and what it was given.

    Made for each job by the reconciler; a job starts when its workload is admitted.
    """

    model_config = ConfigDict(json_schema_extra=rules({**RULES, **REF_RULES}))

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["Workload"]
    metadata: ObjectMeta
    spec: WorkloadSpec = Field(description="What the job needs.")
    status: WorkloadStatus | None = Field(
        default=None, description="What the job was given, and what became of it."
    )
