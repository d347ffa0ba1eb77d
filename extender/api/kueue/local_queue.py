"""LocalQueue: the door of a namespace to a ClusterQueue."""

from typing import Annotated, Literal

from pydantic import Field

from extender.api.kueue.cluster_queue import StopPolicy
from extender.api.kueue.fields import ResourceName, by, ruled
from extender.api.kueue.quotas import FairSharing, FairSharingStatus
from extender.api.meta_v1 import (
    LIST_BY_TYPE,
    Condition,
    Count,
    DnsName,
    ObjectMeta,
    Quantity,
    Read,
    Written,
)


class LocalQueueSpec(Written):
    """Which ClusterQueue is meant."""

    model_config = ruled({
        "clusterQueue cannot be changed": (
            "!has(oldSelf.clusterQueue) "
            "|| (has(self.clusterQueue) && self.clusterQueue == oldSelf.clusterQueue)"
        )
    })  # fmt: skip

    cluster_queue: DnsName | None = None
    """The ClusterQueue in which the workloads wait."""
    stop_policy: StopPolicy | None = Field(default=None, json_schema_extra={"default": "None"})
    """None: workloads are admitted. Hold: no more of them. HoldAndDrain: and those that run are
    evicted."""
    fair_sharing: FairSharing | None = None
    """The weight in fair sharing. Not honoured."""


class LocalQueueResourceUsage(Read):
    """How much of one resource is used."""

    name: ResourceName
    """The resource."""
    total: Quantity | None = None
    """What is used."""


class LocalQueueFlavorUsage(Read):
    """How much of one flavor is used."""

    name: DnsName
    """The flavor."""
    resources: Annotated[list[LocalQueueResourceUsage], Field(max_length=64)] = Field(
        json_schema_extra=by("name")
    )
    """What is used, by resource."""


LocalUsages = Annotated[list[LocalQueueFlavorUsage], Field(max_length=256)]


class QueueCounts(Read):
    """The status that LocalQueues of every version have in common."""

    conditions: Annotated[list[Condition], Field(max_length=16)] | None = Field(
        default=None, json_schema_extra=LIST_BY_TYPE
    )
    """Whether the queue is Active, and why."""
    pending_workloads: Count | None = None
    """How many workloads wait for quota."""
    reserving_workloads: Count | None = None
    """How many workloads have reserved quota."""
    admitted_workloads: Count | None = None
    """How many workloads are admitted and have not finished."""
    flavors_reservation: LocalUsages | None = Field(default=None, json_schema_extra=by("name"))
    """The quota that workloads have reserved."""
    fair_sharing: FairSharingStatus | None = None
    """The share in what is used. Not written."""


class LocalQueueStatus(QueueCounts):
    """What was last seen of the queue."""

    flavors_usage: LocalUsages | None = Field(default=None, json_schema_extra=by("name"))
    """The quota of the workloads that are admitted."""


class LocalQueue(Read):
    """The queue to which the users of a namespace submit.

    A job names it with the label `kueue.x-k8s.io/queue-name: NAME`.
    """

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["LocalQueue"]
    metadata: ObjectMeta
    spec: LocalQueueSpec | None = None
    """Which ClusterQueue is meant."""
    status: LocalQueueStatus | None = None
    """What was last seen of the queue."""
