"""Answers about waiting workloads: `visibility.kueue.x-k8s.io/v1beta2`, and more than that.

The fields of PendingWorkload up to its positions are that API's; the others are ours. Amounts are
quantities as in manifests, positions count from 0.
"""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

API_VERSION: Final = "visibility.kueue.x-k8s.io/v1beta2"


class VisibilityModel(BaseModel):
    """What we say ourselves; it never changes."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, use_attribute_docstrings=True
    )


class OwnerReference(VisibilityModel):
    """The job of a workload, or one of the objects that are its job together."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


class PendingMeta(VisibilityModel):
    """Which workload."""

    name: str
    namespace: str
    creation_timestamp: datetime
    owner_references: list[OwnerReference] = []


class Holder(VisibilityModel):
    """A workload that has quota which another workload waits for."""

    namespace: str
    name: str
    job: str | None = None
    """Kind and name of its job, such as Job/train."""
    cluster_queue: str
    amount: str
    priority: int
    since: datetime | None = None
    """When it got the quota; null: just now."""
    leaving: bool
    """Whether it is evicted and about to give its quota back."""


class WaitingFor(VisibilityModel):
    """Quota that a workload lacks."""

    flavor: str
    resource: str
    missing: str
    holders: list[Holder]
    """The workloads that have it, those with the most first."""
    more_holders: int = 0
    """How many others have some."""


class PendingWorkload(VisibilityModel):
    """A workload that waits."""

    metadata: PendingMeta
    priority: int
    local_queue_name: str
    position_in_cluster_queue: int
    position_in_local_queue: int
    reason: str
    message: str
    waiting_for: list[WaitingFor]


class PendingWorkloadsSummary(VisibilityModel):
    """The workloads that wait in a queue, first to be served first."""

    api_version: Literal["visibility.kueue.x-k8s.io/v1beta2"] = API_VERSION
    kind: Literal["PendingWorkloadsSummary"] = "PendingWorkloadsSummary"
    metadata: dict[str, str] = {}
    items: list[PendingWorkload]


class PodSetAsked(VisibilityModel):
    """Equal pods of a workload, and what they ask for."""

    name: str
    count: int
    """Pods that have still to run."""
    each: dict[str, str]
    total: dict[str, str]
    flavors: dict[str, str] = {}
    """What it was given, by resource."""


class FlavorQuota(VisibilityModel):
    """What a ClusterQueue has of one resource of one flavor."""

    flavor: str
    resource: str
    asked: str
    nominal: str
    borrowing_limit: str | None = None
    """null: no limit."""
    used: str
    """By all workloads of the ClusterQueue."""
    available: str
    """What the ClusterQueue may still use, borrowing included."""
    missing: str
    unfit: str | None = None
    """Why its pods may not use the flavor at all."""


class TimedCondition(VisibilityModel):
    """A condition of the workload."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime


class GroupProgress(VisibilityModel):
    """How far the PodGroup of its pods is."""

    name: str
    phase: str
    min_member: int
    scheduled: int
    running: int


class Position(VisibilityModel):
    """A place in a queue, and how many wait in it."""

    index: int
    of: int


class Explanation(VisibilityModel):
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
    """How many of its pods each node has."""
    pod_group: GroupProgress | None = None


class Status(VisibilityModel):
    """An error, as the API server says it."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["Status"] = "Status"
    metadata: dict[str, str] = {}
    status: Literal["Failure"] = "Failure"
    message: str
    reason: str
    code: int
