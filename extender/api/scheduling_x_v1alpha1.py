"""PodGroup of `scheduling.x-k8s.io/v1alpha1`: so many pods run together, or none of them does.

The models read manifests that people write and are the source of the CRD (see `extender.api.crds`);
what the watch delivers is decoded elsewhere, in slim records. The descriptions are what
`kubectl explain podgroup` shows.
"""

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from extender.api.meta_v1 import (
    ATOMIC,
    LIST_BY_TYPE,
    Condition,
    Count,
    Int32,
    ObjectMeta,
    Positive,
    Quantity,
    Read,
    SignedQuantity,
    Written,
)
from extender.api.wellknown import GROUP_X, Phase

GROUP: Final = GROUP_X
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"


class PodGroupSpec(Written):
    """What the owner of the group asks for.

    No field is stricter than in the CRD of scheduler-plugins, whose clients write these objects.
    """

    min_member: Positive | None = None
    """How many pods must be able to run at the same time before any of them may start. Pods beyond
    this number are scheduled as room allows. Unset: each pod starts on its own."""
    min_resources: dict[str, SignedQuantity] | None = None
    """What the cluster must have free, all nodes together, before the group is tried: amount by
    resource name. An early check for groups whose pods are not all alike."""
    schedule_timeout_seconds: Int32 | None = None
    """How long the first members may wait for the others once they have a node. When the time is
    over all of them give their room back. Unset, zero or less: the extender's default."""


class GrantedRoom(Read):
    """Room on nodes that a queue has found for the group's pods before they are there."""

    until: datetime
    """When the room is free again, should the pods not come."""
    nodes: dict[str, dict[str, Quantity]]
    """What is kept: amount by resource name, by name of the node."""


class NominatedNode(Read):
    """A node on which room is kept for members of a group while its victims leave."""

    name: str
    """The name of the node."""
    pods: list[str]
    """Names of the members that are to go there."""
    room: dict[str, Quantity]
    """What is kept: amount by resource name."""


class PodGroupVictim(Read):
    """A PodGroup or a pod that leaves for a group of higher priority, by UID."""

    kind: Literal["PodGroup", "Pod"]
    """PodGroup: a whole gang. Pod: one that has no gang, or that its gang can do without."""
    uid: str
    """Its UID. It may be in a namespace of others, which the name would show."""
    pods: list[str] | None = None
    """Of a PodGroup: the UIDs of the pods that leave."""


class PodGroupPreemption(Read):
    """Victims that leave for this group, and where their room is kept for it."""

    since: datetime
    """When the victims were chosen."""
    nodes: list[NominatedNode]
    """Where room is kept until the group starts."""
    victims: list[PodGroupVictim]
    """What is evicted."""


class PodGroupStatus(Read):
    """What was last seen of the group. Written by gang-extender only."""

    phase: Phase | None = None
    """Where the group is in its life."""
    occupied_by: str | None = None
    """The owners of the group's pods: <namespace>/<name> of each, sorted, separated by commas."""
    scheduled: Count = 0
    """How many pods of the group have a node or have succeeded."""
    running: Count = 0
    """How many pods of the group are running."""
    succeeded: Count = 0
    """How many pods of the group have succeeded."""
    failed: Count = 0
    """How many pods of the group have failed."""
    schedule_start_time: datetime | None = None
    """When the group had enough pods and was first tried."""
    conditions: list[Condition] | None = Field(default=None, json_schema_extra=LIST_BY_TYPE)
    """The state of the group by aspect, each with a reason and a message."""
    granted_room: GrantedRoom | None = Field(default=None, json_schema_extra=ATOMIC)
    """Room on nodes that is kept for the pods of an admitted Workload until the group has its plan.
    Only gang-extender's reconciler writes it."""
    preemption: PodGroupPreemption | None = Field(default=None, json_schema_extra=ATOMIC)
    """What leaves for this group, which has a higher priority, and where the room is kept. It is
    there from the choice of the victims until the group starts, or gives up. Only the extender
    writes it."""


class PodGroup(Read):
    """A set of pods of which at least minMember must run together, or none may start.

    A pod joins with the label `scheduling.x-k8s.io/pod-group: NAME` in its own namespace.
    """

    api_version: Literal["scheduling.x-k8s.io/v1alpha1"]
    kind: Literal["PodGroup"]
    metadata: ObjectMeta
    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    """What the owner of the group asks for."""
    status: PodGroupStatus | None = None
    """What was last seen of the group."""
