"""Workload: what one job needs, and what it was given."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import ATOMIC, ATOMIC_MAP, by, one_rule, ruled, rules
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
# where it is named by its path: hence `has` where an optional would be shorter, but where no more
# than the size is asked for. Every rule below `spec` and `status` is evaluated at every write, also
# where its part has not changed, and each field that a rule names costs as much as its object has
# fields. So there are few rules, they begin with what is cheap and mostly true, and all that look
# at the spec are left out at once where a write changes the status.


def _holds(condition: str, status: str = "self.status") -> str:
    """Return the CEL expression for: that condition of a status is True."""
    return (
        f"(has({status}.conditions) && {status}.conditions"
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
_ASSIGNED: Final = "self.status.admission.podSetAssignments"
_SETS: Final = "self.spec.podSets"
UNRESERVED: Final = f"!has(self.status) || !{_holds('QuotaReserved')}"
"""Holds for a spec that may change. A write of the spec leaves the status as it is."""
_UNADMITTED: Final = f"!has(self.status) || !{_holds('Admitted')}"
_SAME_SETS: Final = f"{_SETS} == oldSelf.spec.podSets"
_SAME_SPEC: Final = (
    "(!has(oldSelf.status) && has(self.status)) "
    "|| size(self.?status.?conditions.orValue([])) "
    "!= size(oldSelf.?status.?conditions.orValue([])) "
    "|| (has(self.status) && has(oldSelf.status) && self.status != oldSelf.status) "
    "|| self.spec == oldSelf.spec"
)
"""Holds where the spec is what it was. A write that changes the status cannot change the spec.

Most writes of a status add a condition, and two numbers of conditions are quickly compared.
"""

STAYING_RULES: Final = {
    "podSets cannot be changed while quota is reserved": f"{UNRESERVED} || {_SAME_SETS}",
    "queueName cannot be changed while quota is reserved": (
        f"{UNRESERVED} || {_same('queueName', _NOTHING)}"
    ),
    "maximumExecutionTimeSeconds cannot be changed while the workload is admitted": (
        f"{_UNADMITTED} || {_same('maximumExecutionTimeSeconds', '0')}"
    ),
}
"""The rules of what stays in a spec, in the words that both versions share."""

_STAYING_REF_RULES: Final = {
    "priorityClassRef cannot come or go while quota is reserved": (
        f"{UNRESERVED} || has(self.spec.priorityClassRef) == has(oldSelf.spec.priorityClassRef)"
    ),
    "group and kind of priorityClassRef cannot be changed while quota is reserved": (
        f"{UNRESERVED} || !has(self.spec.priorityClassRef) || "
        "(self.spec.priorityClassRef.group == oldSelf.spec.priorityClassRef.group "
        "&& self.spec.priorityClassRef.kind == oldSelf.spec.priorityClassRef.kind)"
    ),
    "another PriorityClass cannot be named while quota is reserved": (
        f"{UNRESERVED} || !has(self.spec.priorityClassRef) "
        "|| self.spec.priorityClassRef.kind != 'PriorityClass' "
        "|| self.spec.priorityClassRef.name == oldSelf.spec.priorityClassRef.name"
    ),
}
_REF_RULES: Final = {
    "with priorityClassRef there is a priority": (
        "!has(self.spec.priorityClassRef) || has(self.spec.priority)"
    )
}


def _counted_by_itself(containers: str) -> str:
    """Return the CEL expression for: no container of a pod set asks for the resource pods."""
    amounts = " && ".join(
        f"(!has(c.resources.{each}) || !('pods' in c.resources.{each}))"
        for each in ("requests", "limits")
    )
    return (
        f"(!has(p.template.spec.{containers}) || "
        f"p.template.spec.{containers}.all(c, !has(c.resources) || ({amounts})))"
    )


_EACH_SET: Final = {
    "minCount is at most count": "(!has(p.minCount) || p.minCount <= p.count)",
    "requests and limits cannot be for the resource pods, which is counted by itself": (
        f"{_counted_by_itself('containers')} && {_counted_by_itself('initContainers')}"
    ),
}
_SET_RULES: Final = {
    "only one pod set has a minCount": (
        f"size({_SETS}) == 1 || {_SETS}.filter(p, has(p.minCount)).size() <= 1"
    ),
    **{text: f"{_SETS}.all(p, {rule})" for text, rule in _EACH_SET.items()},
}

_PLACED: Final = (
    "QuotaReserved needs status.admission, and "
    "admission is for each of the pod sets, and for nothing else"
)
_PLACE_RULES: Final = {
    _PLACED: (
        f"{_ASSIGNED}.map(a, a.name) == {_SETS}.map(p, p.name) "
        f"|| !{_holds('QuotaReserved')} "
        f"|| (has(self.status.admission) && has({_ASSIGNED}) "
        f"&& size({_ASSIGNED}) == size({_SETS}) "
        f"&& {_ASSIGNED}.all(a, {_SETS}.exists(p, p.name == a.name)))"
    ),
    "reclaimablePods are of pod sets, and not more than those have": (
        "!has(self.status.reclaimablePods) || self.status.reclaimablePods.all(r, "
        f"{_SETS}.exists(p, p.name == r.name && r.count <= p.count))"
    ),
}
"""The rules of a status that look at the spec.

The first one begins with what nearly every admission fulfils, and asks nowhere else whether there
is one: without an admission the comparison is an error, and an error does not count where another
side of `||` is true. Where none is, the status is refused with the error and the rule's message.
"""


def workload_rules(staying: Mapping[str, str], of_spec: Mapping[str, str]) -> ConfigDict:
    """Return the configuration of a Workload with the rules of its whole object.

    `staying` are those of what stays in a spec, `of_spec` those of any spec. Pod sets that were
    stored before there was a rule for them may stay as they are.
    """
    of_sets = {text: f"({rule}) || {_SAME_SETS}" for text, rule in _SET_RULES.items()}
    made = one_rule({**_SET_RULES, **of_spec}, unless="oldSelf.hasValue()")
    changed = one_rule({**staying, **of_spec, **of_sets}, unless=_SAME_SPEC)
    placed = one_rule(_PLACE_RULES, unless="!has(self.status)") | {"message": _PLACED}
    whole: dict[str, Any] = {
        "x-kubernetes-validations": [{**made, "optionalOldSelf": True}, changed, placed]
    }
    return ConfigDict(json_schema_extra=whole)


STATUS_RULES: Final = {
    "clusterName and nominatedClusterNames exclude each other": (
        "!has(self.clusterName) || !has(self.nominatedClusterNames) "
        "|| size(self.nominatedClusterNames) == 0"
    ),
    "reclaimablePods cannot become fewer while quota is reserved": (
        "!has(oldSelf.reclaimablePods) || size(oldSelf.reclaimablePods) == 0 "
        "|| (has(self.reclaimablePods) "
        "&& oldSelf.reclaimablePods.all(o, self.reclaimablePods"
        ".exists(r, r.name == o.name && r.count >= o.count))) "
        f"|| !({_holds('QuotaReserved', 'oldSelf')} && {_holds('QuotaReserved', 'self')})"
    ),
}
"""The rules of a status that look at nothing else."""


class PriorityClassRef(Written):
    """The class that the priority is from."""

    model_config = ruled({
        "kind and group belong together": (
            f"(self.group == '{CORE_PRIORITY_GROUP}') == (self.kind == 'PriorityClass')"
        )
    })  # fmt: skip

    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    """The API group of the class."""
    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    """Its kind: WorkloadPriorityClass of kueue.x-k8s.io, or PriorityClass of scheduling.k8s.io."""
    name: Annotated[DnsName, Field(min_length=1)]
    """Its name."""


class PreemptionGate(Written):
    """A gate that has to open before others are preempted for the workload."""

    model_config = ConfigDict(extra="allow", strict=False)

    name: Annotated[str, Field(max_length=316)]
    """The name of the gate."""


class RequestSpec(Written):
    """What workloads of every version say in the same words."""

    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=MOST)] = Field(
        json_schema_extra=by("name")
    )
    """The pods of the job, by sets of equal ones."""  # fmt: skip
    queue_name: DnsName | None = None
    """The LocalQueue in which the workload waits."""
    priority: Int32 | None = None
    """Higher goes first, and may preempt lower."""
    active: bool | None = Field(default=None, json_schema_extra={"default": True})
    """Whether the workload may run. False evicts it and keeps it out of the queue."""
    maximum_execution_time_seconds: Positive | None = None
    """For how long it may be admitted, all times together, before it is deactivated."""
    preemption_gates: Annotated[list[PreemptionGate], Field(max_length=16)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """The gates that have to open before others are preempted for the workload. A gate is closed
    until `status.preemptionGates` says that it is open."""


class WorkloadSpec(RequestSpec):
    """What the job needs."""

    priority_class_ref: PriorityClassRef | None = None
    """The class that the priority is from."""


class RequeueState(Read):
    """How often the workload came back to the queue, and when it may again."""

    count: Count | None = None
    """How often it was evicted as not ready."""
    requeue_at: datetime | None = None
    """When it may be admitted again."""


class Evictions(Read):
    """How often the workload was evicted for one reason."""

    reason: Annotated[str, Field(max_length=316)]
    """The reason."""
    underlying_cause: Annotated[str, Field(max_length=316)]
    """What was behind it; may be empty."""
    count: Count
    """How often."""


class SchedulingStats(Read):
    """What became of the workload so far, in numbers."""

    evictions: Annotated[list[Evictions], Field(max_length=256)] | None = Field(
        default=None, json_schema_extra=by("reason", "underlyingCause")
    )
    """How often it was evicted, by reason."""


class UnhealthyNode(Read):
    """A node that failed under the workload. Not written."""

    name: Annotated[str, Field(max_length=253)]
    """The name of the node."""


class GateState(Read):
    """Whether a preemption gate is open, as its controller says."""

    model_config = ConfigDict(extra="allow", strict=False)

    name: Annotated[str, Field(max_length=316)]
    """The name of the gate."""
    position: Literal["Open", "Closed"] | None = None
    """Open or Closed. All gates close when the workload is evicted."""
    last_transition_time: datetime | None = None
    """When the position last changed."""


_GIVEN: Final = (
    "a.name",
    "a.?flavors",
    "a.?resourceUsage",
    "a.?count",
    "has(a.topologyAssignment)",
)
_SAME_QUOTA: Final = (
    "self == oldSelf || (self.clusterQueue == oldSelf.clusterQueue && "
    "has(self.podSetAssignments) && has(oldSelf.podSetAssignments) && "
    + " && ".join(
        f"self.podSetAssignments.map(a, {each}) == oldSelf.podSetAssignments.map(a, {each})"
        for each in _GIVEN
    )
    + ")"
)


class GivenStatus(Read):
    """The status that Workloads of every version have in common."""

    conditions: (
        Annotated[
            list[Annotated[Condition, Field(json_schema_extra=ATOMIC_MAP)]], Field(max_length=16)
        ]
        | None
    ) = Field(default=None, json_schema_extra=LIST_BY_TYPE)
    """How far the workload is: QuotaReserved, Admitted, PodsReady, Evicted, Finished and others."""
    admission: Admission | None = Field(
        default=None,
        json_schema_extra={
            **ATOMIC_MAP,
            **rules(
                {"admission is set or cleared, but not edited, apart from its domains": _SAME_QUOTA}
            ),
        },
    )
    """What quota the workload has. Set or cleared; only its domains change."""  # fmt: skip
    requeue_state: RequeueState | None = None
    """How often it came back to the queue, and when it may again."""
    reclaimable_pods: Annotated[list[ReclaimablePod], Field(max_length=MOST)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """Pods that need their quota no more, by pod set."""
    admission_checks: Annotated[list[AdmissionCheckState], Field(max_length=64)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """How far the admission checks are. Not written."""
    resource_requests: Annotated[list[PodSetRequest], Field(max_length=MOST)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """What was asked for when the workload was last looked at, while it has no admission."""
    scheduling_stats: SchedulingStats | None = None
    """What became of the workload so far, in numbers."""
    nominated_cluster_names: (
        Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=20)] | None
    ) = Field(default=None, json_schema_extra=ATOMIC)
    """Clusters that were asked. Not written."""
    cluster_name: Annotated[str, Field(max_length=256)] | None = Field(
        default=None,
        json_schema_extra=rules(
            {"clusterName cannot be changed once it is set": "self == oldSelf"}
        ),
    )
    """The cluster that it is in. Not written."""
    unhealthy_nodes: Annotated[list[UnhealthyNode], Field(max_length=64)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """Nodes that failed under the workload. Not written."""
    preemption_gates: Annotated[list[GateState], Field(max_length=16)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """Which preemption gates are open. Their controllers write it."""


class WorkloadStatus(GivenStatus):
    """What the job was given, and what became of it."""

    model_config = ruled(STATUS_RULES)

    accumulated_past_execution_time_seconds: Count | None = None
    """For how long it was admitted in earlier times, together."""


class Workload(Read):
    """What one job needs of a queue, and what it was given.

    Made for each job by the reconciler; a job starts when its workload is admitted.
    """

    model_config = workload_rules({**STAYING_RULES, **_STAYING_REF_RULES}, _REF_RULES)

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["Workload"]
    metadata: ObjectMeta
    spec: WorkloadSpec
    """What the job needs."""
    status: WorkloadStatus | None = None
    """What the job was given, and what became of it."""
