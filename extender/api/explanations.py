"""Answers about workloads, PodGroups and pods: why each is where it is.

PendingWorkloadsSummary is that of `visibility.kueue.x-k8s.io/v1beta2`; the fields of
PendingWorkload after its positions, and all other answers, are ours. Fields may be added; none is
taken away or gets another meaning. Amounts are quantities as in manifests, positions count from 0.
"""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

API_VERSION: Final = "visibility.kueue.x-k8s.io/v1beta2"


GateAnswer = Literal["Passed", "Refused", "NotAsked", "Unknown"]
GroupState = Literal["Waiting", "Planned", "Held", "Binding", "Started", "Finished"]
MemberState = Literal[
    "Bound", "Binding", "Held", "Planned", "Gated", "GatedByUs", "Refused", "Unschedulable",
    "Waiting", "Leaving", "Finished",
]  # fmt: skip
KeptKind = Literal["Plan", "Held", "Claim", "Grant", "Preemption"]


class AnswerModel(BaseModel):
    """A part of an answer, with the names of its fields in JSON in camel case."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, use_attribute_docstrings=True
    )


class OwnerReference(AnswerModel):
    """The job of a workload, or one of the objects that are its job together."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


class PendingMeta(AnswerModel):
    """The identity of a workload."""

    name: str
    namespace: str
    creation_timestamp: datetime
    owner_references: list[OwnerReference] = []


class Holder(AnswerModel):
    """A workload that has quota which another workload waits for."""

    namespace: str
    name: str
    job: str | None = None
    """Kind and name of its job, such as Job/train."""
    cluster_queue: str
    amount: str
    priority: int
    since: datetime | None = None
    """The time at which it got the quota; null: just now."""
    leaving: bool
    """True if it is evicted and about to give its quota back."""


class WaitingFor(AnswerModel):
    """Quota that a workload lacks."""

    flavor: str
    resource: str
    missing: str
    holders: list[Holder]
    """The workloads that have it, those with the most first."""
    more_holders: int = 0
    """The number of others that have some."""


class PendingWorkload(AnswerModel):
    """A workload that waits."""

    metadata: PendingMeta
    priority: int
    local_queue_name: str
    position_in_cluster_queue: int
    position_in_local_queue: int
    reason: str
    message: str
    waiting_for: list[WaitingFor]


class PendingWorkloadsSummary(AnswerModel):
    """The workloads that wait in a queue, first to be served first."""

    api_version: Literal["visibility.kueue.x-k8s.io/v1beta2"] = API_VERSION
    kind: Literal["PendingWorkloadsSummary"] = "PendingWorkloadsSummary"
    metadata: dict[str, str] = {}
    items: list[PendingWorkload]


class PodSetAsked(AnswerModel):
    """Equal pods of a workload, and what they ask for."""

    name: str
    count: int
    """The number of pods that have still to run."""
    each: dict[str, str]
    total: dict[str, str]
    flavors: dict[str, str] = {}
    """The flavors that it was given, by resource."""


class FlavorQuota(AnswerModel):
    """The quota of a ClusterQueue for one resource of one flavor."""

    flavor: str
    resource: str
    asked: str
    nominal: str
    borrowing_limit: str | None = None
    """null: no limit."""
    used: str
    """The amount that all workloads of the ClusterQueue use."""
    available: str
    """The amount that the ClusterQueue may still use, borrowing included."""
    missing: str
    unfit: str | None = None
    """The reason why its pods may not use the flavor at all."""


class TimedCondition(AnswerModel):
    """A condition of a workload or a PodGroup."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime


class GroupProgress(AnswerModel):
    """The progress of the PodGroup of its pods."""

    name: str
    phase: str
    min_member: int
    scheduled: int
    running: int


class Position(AnswerModel):
    """A place in a queue, and how many wait in it."""

    index: int
    of: int


class Explanation(AnswerModel):
    """Everything that says why a workload is where it is."""

    namespace: str
    name: str
    owners: list[OwnerReference]
    """Its job first."""
    local_queue: str
    cluster_queue: str | None
    cohort: str | None = None
    priority: int
    priority_class: str | None = None
    created: datetime
    state: Literal["Pending", "QuotaReserved", "Admitted", "Evicted", "Finished", "Terminating"]
    reason: str
    message: str
    position_in_cluster_queue: Position | None = None
    position_in_local_queue: Position | None = None
    pod_sets: list[PodSetAsked]
    quotas: list[FlavorQuota]
    waiting_for: list[WaitingFor]
    notes: list[str] = []
    """The workloads before it, those that leave for it, and those that could be preempted."""
    conditions: list[TimedCondition]
    nodes: dict[str, int] = {}
    """The number of its pods on each node."""
    pod_group: GroupProgress | None = None


class PassedGate(AnswerModel):
    """A gate that a group passes before it starts, and how it stands there."""

    gate: str
    """`Admission`, `PodGroup`, `Annotations`, `Pods`, `SchedulingGates`, `RecentFailure`, `Turn`,
    `Topology`, `MinResources`, `AblePods`, `Room`, `Quorum`: in this order."""
    answer: GateAnswer
    """After a gate that refuses none is asked. `Unknown`: the extender alone knows."""
    reason: str | None = None
    """The reason of a refusal, as in conditions, Events and metrics."""
    message: str
    have: int | None = None
    """The pods that count."""
    need: int | None = None
    """The pods that are required."""


class MemberCounts(AnswerModel):
    """The pods of a group, counted by where they are. All but `exist` add up to `exist`."""

    exist: int = 0
    """The pods that have not ended."""
    bound: int = 0
    binding: int = 0
    """The pods whose Bindings are being written."""
    held: int = 0
    """The pods that wait with a node for the others."""
    planned: int = 0
    """The pods for which a plan keeps room."""
    gated: int = 0
    """The pods behind scheduling gates of others."""
    gated_by_us: int = 0
    """The pods behind our gate alone."""
    leaving: int = 0
    """The pods that are being deleted."""
    waiting: int = 0
    """The pods that are nowhere yet."""


class ExplainedMember(AnswerModel):
    """One pod of a group."""

    name: str
    state: MemberState
    node: str | None = None
    """The node it is on, or on which room is taken or kept for it."""
    reason: str | None = None
    """The reason of the extender's last refusal, where it is known."""
    message: str | None = None
    """The message of its condition `PodScheduled`."""
    gates: list[str] = []


class GroupAhead(AnswerModel):
    """A group that goes first."""

    namespace: str
    name: str
    priority: int
    needed: int
    """The number of pods that it still needs room for."""


class RoomFound(AnswerModel):
    """The room that the planner finds now for the pods that a group still needs."""

    wanted: int
    fit: int
    """The number that fits now."""
    fit_if_nothing_were_kept: int | None = None
    """The number that would fit if no room were kept for other groups."""
    fit_on_empty_nodes: int | None = None
    """The number that would fit on empty nodes; null where kube-scheduler alone can say."""
    short: dict[str, str] = {}
    """The amounts that the nodes lack for the rest; empty where no node has room for one more."""
    within: str | None = None
    """The label of the domains to one of which all pods go."""
    nodes: dict[str, int] = {}
    """The number of pods that would go to each node."""
    usable_nodes: int
    """The number of nodes that their selectors, affinity and tolerations let them use."""
    all_nodes: int


class RoomKept(AnswerModel):
    """Room that is kept for a group."""

    kind: KeptKind
    namespace: str
    name: str
    pods: int | None = None
    """The number of pods, where it is kept for pods."""
    nodes: list[str]
    amounts: dict[str, str]
    """The amounts on all these nodes together."""
    until: datetime | None = None
    """The time at which it ends by itself, if there is one."""
    ends: str
    """A sentence about what ends it."""


class PreemptionCourse(AnswerModel):
    """Room that pods of lower priority make for a group."""

    since: datetime
    gangs: int
    """The number of gangs that go as a whole."""
    pods: int
    """The number of pods that go, in all."""
    leaving: int
    """The number of them that are still on nodes."""
    nodes: dict[str, int]
    """The number of the group's pods that are to go to each node."""


class GroupExplanation(AnswerModel):
    """Everything that says why a group is where it is."""

    namespace: str
    name: str
    api_group: str | None = None
    """The API group of its PodGroup; null where there is none."""
    source: Literal["Extender", "ApiServer"]
    """The extender's own state, or the objects of the API server, which have no plans, held binds
    and failures of the last seconds."""
    state: GroupState
    phase: str | None = None
    """The phase in its status."""
    reason: str
    message: str
    priority: int
    min_member: int
    needed: int
    """The number of pods that it needs now: fewer than `minMember` where some are done."""
    created: datetime | None = None
    waits_since: datetime | None = None
    """The time since which a group that lacks room has had its pods."""
    claim_due: datetime | None = None
    """The time at which nodes are set aside for it, if it still waits then."""
    pods: MemberCounts
    gates: list[PassedGate]
    position: Position | None = None
    """The place among the groups that wait for room."""
    ahead: list[GroupAhead] = []
    """The first of those that go before it."""
    more_ahead: int = 0
    """The number of others that do."""
    room: RoomFound | None = None
    """The room for its pods, where the planner was asked."""
    would_help: list[str] = []
    """The changes that would make it start, as far as they are known."""
    kept: list[RoomKept] = []
    """Room that is kept for it."""
    kept_from_it: list[RoomKept] = []
    """Room that is kept for other groups and that it may not use."""
    more_kept: int = 0
    """The number of other groups for which room is kept from it."""
    preemption: PreemptionCourse | None = None
    notes: list[str] = []
    conditions: list[TimedCondition] = []
    members: list[ExplainedMember] = []
    more_members: int = 0
    """The number of pods that are not listed."""


class PodOutlook(AnswerModel):
    """The explanation of a pod, as far as gangs have to do with it."""

    namespace: str
    name: str
    state: MemberState
    node: str | None = None
    priority: int
    scheduler_name: str
    gates: list[str] = []
    reason: str | None = None
    """The reason for which the extender refuses it."""
    message: str
    said: str | None = None
    """The message of its condition `PodScheduled`."""
    group: GroupExplanation | None = None
    """The group that its label names; null where there is no such label."""


class GroupLine(AnswerModel):
    """A group in a list."""

    namespace: str
    name: str
    state: GroupState
    phase: str | None = None
    reason: str | None = None
    """The reason why it waits, as far as that is known without a look."""
    priority: int
    min_member: int
    needed: int
    pods: MemberCounts
    position: int | None = None
    """The place among the groups that wait for room."""


class GroupList(AnswerModel):
    """Groups by namespace and name: those with a PodGroup or with pods."""

    items: list[GroupLine]
    more: int = 0
    """The number of groups after these."""


class Status(AnswerModel):
    """An error, as the API server says it."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["Status"] = "Status"
    metadata: dict[str, str] = {}
    status: Literal["Failure"] = "Failure"
    message: str
    reason: str
    code: int
