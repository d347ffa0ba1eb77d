"""Answers about PodGroups and pods: why each is where it is. The form is ours, and stays.

Fields may be added; none is taken away or gets another meaning. Amounts are quantities as in
manifests, positions count from 0.
"""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from extender.api.visibility_v1beta2 import Position, TimedCondition

GateAnswer = Literal["Passed", "Refused", "NotAsked", "Unknown"]
GroupState = Literal["Waiting", "Planned", "Held", "Binding", "Started", "Finished"]
MemberState = Literal[
    "Bound", "Binding", "Held", "Planned", "Gated", "GatedByUs", "Refused", "Unschedulable",
    "Waiting", "Leaving", "Finished",
]  # fmt: skip
KeptKind = Literal["Plan", "Held", "Claim", "Grant", "Preemption"]


class GangModel(BaseModel):
    """What we say ourselves; it never changes."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, use_attribute_docstrings=True
    )


class PassedGate(GangModel):
    """A gate that a group passes before it starts, and how it stands there."""

    gate: str
    """`Admission`, `PodGroup`, `Annotations`, `Pods`, `SchedulingGates`, `RecentFailure`, `Turn`,
    `Topology`, `MinResources`, `AblePods`, `Room`, `Quorum`: in this order."""
    answer: GateAnswer
    """After a gate that refuses none is asked. `Unknown`: the extender alone knows."""
    reason: str | None = None
    """Of a refusal: as in conditions, Events and metrics."""
    message: str
    have: int | None = None
    """So many pods are there,"""
    need: int | None = None
    """of so many."""


class MemberCounts(GangModel):
    """How many pods of a group are where. Each pod counts in one of these, but for `exist`."""

    exist: int = 0
    """All that have not ended."""
    bound: int = 0
    binding: int = 0
    """Their Bindings are being written."""
    held: int = 0
    """They wait with a node for the others."""
    planned: int = 0
    """A plan keeps room for them."""
    gated: int = 0
    """Behind scheduling gates of others."""
    gated_by_us: int = 0
    """Behind our gate alone."""
    leaving: int = 0
    """They are being deleted."""
    waiting: int = 0
    """All others."""


class ExplainedMember(GangModel):
    """One pod of a group."""

    name: str
    state: MemberState
    node: str | None = None
    """Where it is, or where room is taken or kept for it."""
    reason: str | None = None
    """Why the extender refused it last, where it knows."""
    message: str | None = None
    """What its condition `PodScheduled` says."""
    gates: list[str] = []


class GroupAhead(GangModel):
    """A group that goes first."""

    namespace: str
    name: str
    priority: int
    needed: int
    """How many more pods it needs room for."""


class RoomFound(GangModel):
    """What the planner finds now for the pods that a group still needs."""

    wanted: int
    fit: int
    """How many of them fit now."""
    fit_if_nothing_were_kept: int | None = None
    """If no room were kept for other groups."""
    fit_on_empty_nodes: int | None = None
    """If no other pod were on the nodes; null where kube-scheduler alone can say."""
    short: dict[str, str] = {}
    """What the nodes lack for the others; empty where no node has room for another one."""
    within: str | None = None
    """The label of the domains to one of which all pods go."""
    nodes: dict[str, int] = {}
    """How many would go to each node."""
    usable_nodes: int
    """Nodes that their selectors, affinity and tolerations let them use."""
    all_nodes: int


class RoomKept(GangModel):
    """Room that is kept for a group."""

    kind: KeptKind
    namespace: str
    name: str
    pods: int | None = None
    """For how many pods, where it is kept for pods."""
    nodes: list[str]
    amounts: dict[str, str]
    """On all these nodes together."""
    until: datetime | None = None
    """When it ends by itself, where that is a time."""
    ends: str
    """What ends it."""


class PreemptionCourse(GangModel):
    """Room that pods of lower priority make for a group."""

    since: datetime
    gangs: int
    """How many gangs go whole."""
    pods: int
    """How many pods go, in all."""
    leaving: int
    """How many of them are still on nodes."""
    nodes: dict[str, int]
    """How many of the group's pods are to go to each node."""


class GroupExplanation(GangModel):
    """Everything that says why a group is where it is."""

    namespace: str
    name: str
    api_group: str | None = None
    """Of its PodGroup; null where there is none."""
    source: Literal["Extender", "ApiServer"]
    """What it was read from: the extender's own state, or what the API server stores, in which
    plans, held binds and failures of the last seconds are not."""
    state: GroupState
    phase: str | None = None
    """As its status has it."""
    reason: str
    message: str
    priority: int
    min_member: int
    needed: int
    """How many pods it needs now: fewer than `minMember` where some are done."""
    created: datetime | None = None
    waits_since: datetime | None = None
    """Since when a group that lacks room has its pods."""
    claim_due: datetime | None = None
    """When nodes are set aside for it, if it still waits then."""
    pods: MemberCounts
    gates: list[PassedGate]
    position: Position | None = None
    """Among the groups that wait for room."""
    ahead: list[GroupAhead] = []
    """The first of those that go before it."""
    more_ahead: int = 0
    """How many others do."""
    room: RoomFound | None = None
    """Where it was asked for."""
    would_help: list[str] = []
    """What would make it start, as far as that is known."""
    kept: list[RoomKept] = []
    """Room that is kept for it."""
    kept_from_it: list[RoomKept] = []
    """Room that is kept for other groups and that it may not use."""
    more_kept: int = 0
    """For how many other groups room is kept from it."""
    preemption: PreemptionCourse | None = None
    notes: list[str] = []
    conditions: list[TimedCondition] = []
    members: list[ExplainedMember] = []
    more_members: int = 0
    """How many pods are not listed."""


class PodOutlook(GangModel):
    """Why a pod is where it is, as far as gangs have to do with it."""

    namespace: str
    name: str
    state: MemberState
    node: str | None = None
    priority: int
    scheduler_name: str
    gates: list[str] = []
    reason: str | None = None
    """Why the extender refuses it."""
    message: str
    said: str | None = None
    """What its condition `PodScheduled` says."""
    group: GroupExplanation | None = None
    """Of the group that its label names; null where there is no such label."""


class GroupLine(GangModel):
    """A group in a list."""

    namespace: str
    name: str
    state: GroupState
    phase: str | None = None
    reason: str | None = None
    """Why it waits, as far as that is known without a look."""
    priority: int
    min_member: int
    needed: int
    pods: MemberCounts
    position: int | None = None
    """Among the groups that wait for room."""


class GroupList(GangModel):
    """Groups by namespace and name: those with a PodGroup or with pods."""

    items: list[GroupLine]
    more: int = 0
    """How many come after these."""
