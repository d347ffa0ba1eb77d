"""Sets of equal pods: what a workload is made of, and what it is given."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import ATOMIC, CheckName, by, rules
from extender.api.kueue.taints import Toleration
from extender.api.meta_v1 import Count, DnsLabel, DnsName, Positive, Quantity, Read, Written

MOST: Final = 18
"""How many pod sets a workload may have."""

_OPEN: Final = ConfigDict(extra="allow", strict=False)
_MAIN: Final[dict[str, Any]] = {"default": "main"}


class Amounts(Written):
    """The requests and limits of a container."""

    model_config = ConfigDict(
        extra="allow",
        strict=False,
        json_schema_extra=rules({
            "requests and limits cannot be for the resource pods, which is counted by itself": (
                "(!has(self.requests) || !('pods' in self.requests)) "
                "&& (!has(self.limits) || !('pods' in self.limits))"
            )
        }),
    )  # fmt: skip

    requests: dict[str, Quantity] | None = Field(default=None, description="What it asks for.")
    limits: dict[str, Quantity] | None = Field(default=None, description="What it gets at most.")


class Container(Written):
    """A container of the template."""

    model_config = _OPEN

    name: str = Field(description="The name of the container.")
    resources: Amounts | None = Field(default=None, description="What the container needs.")


_Containers = Annotated[list[Container], Field(max_length=256)]


class PodSpec(Written):
    """The pods' spec, of which only the containers are looked at here."""

    model_config = _OPEN

    containers: _Containers = Field(description="The containers.")
    init_containers: _Containers | None = Field(
        default=None, description="The containers that run before the others."
    )


class PodTemplate(Written):
    """The template of equal pods; everything that a pod may have is kept."""

    model_config = _OPEN

    spec: PodSpec = Field(description="The pods' spec.")


class TopologyRequest(Written):
    """Where the pods should be next to each other. Not honoured."""

    model_config = _OPEN


class PodSet(Written):
    """A number of equal pods."""

    model_config = ConfigDict(
        json_schema_extra=rules({
            "minCount is at most count": "!has(self.minCount) || self.minCount <= self.count"
        })
    )  # fmt: skip

    name: DnsLabel = Field(default="main", description="The name of the set in this workload.")
    template: PodTemplate = Field(description="What the pods are made from.")
    count: Count = Field(default=1, description="How many pods there are.")
    min_count: Positive | None = Field(
        default=None,
        description="With how many pods the job could start too, if there is no quota for all. "
        "Only one set of a workload may say this.",
    )
    topology_request: TopologyRequest | None = Field(
        default=None, description="Where the pods should be next to each other. Not honoured."
    )


class TopologyAssignment(Read):
    """Where the pods go. Not written."""

    model_config = _OPEN


class PodSetAssignment(Read):
    """What a pod set was given."""

    name: DnsLabel = Field(default="main", description="The name of the pod set.")
    flavors: dict[str, DnsName] | None = Field(
        default=None, description="The flavor that each resource comes from."
    )
    resource_usage: dict[str, Quantity] | None = Field(
        default=None,
        description="What all pods of the set need together. Stays when some are reclaimed.",
    )
    count: Count | None = Field(
        default=None, description="For how many pods. Stays when some are reclaimed."
    )
    topology_assignment: TopologyAssignment | None = Field(
        default=None, description="Where the pods go. Not written."
    )
    delayed_topology_request: Literal["Pending", "Ready"] | None = Field(
        default=None, description="Whether that is still to be found. Not written."
    )


class Admission(Read):
    """What quota the workload has, and from whom."""

    cluster_queue: DnsName = Field(description="The ClusterQueue that gave it.")
    pod_set_assignments: Annotated[list[PodSetAssignment], Field(max_length=MOST)] | None = Field(
        default=None,
        description="What each pod set was given.",
        json_schema_extra=by("name"),
    )


class ReclaimablePod(Read):
    """Pods of a set that need their quota no more."""

    name: DnsLabel = Field(description="The name of the pod set.")
    count: Count = Field(description="How many of its pods are done with.")


class PodSetRequest(Read):
    """What a pod set asked for when it was last looked at."""

    name: DnsLabel = Field(description="The name of the pod set.")
    resources: dict[str, Quantity] | None = Field(
        default=None, description="What all its pods need together."
    )


class PodSetUpdate(Read):
    """What an admission check adds to pods. Not written."""

    name: DnsLabel = Field(description="The name of the pod set.")
    labels: dict[str, str] | None = Field(default=None, description="Labels to add.")
    annotations: dict[str, str] | None = Field(default=None, description="Annotations to add.")
    node_selector: dict[str, str] | None = Field(
        default=None, description="Labels that the nodes must have."
    )
    tolerations: Annotated[list[Toleration], Field(max_length=8)] | None = Field(
        default=None, description="Tolerations to add.", json_schema_extra=ATOMIC
    )


class AdmissionCheckState(Read):
    """How far an admission check is. Not written."""

    name: CheckName = Field(description="The name of the check.")
    state: Literal["Pending", "Ready", "Retry", "Rejected"] = Field(description="How far it is.")
    last_transition_time: datetime = Field(description="When the state last changed.")
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="The state told to a person."
    )
    pod_set_updates: Annotated[list[PodSetUpdate], Field(max_length=MOST)] | None = Field(
        default=None, description="What is added to the pods.", json_schema_extra=ATOMIC
    )
    retry_count: Count | None = Field(default=None, description="How often it was tried again.")
    requeue_after_seconds: Count | None = Field(
        default=None, description="How long to wait before it is tried again."
    )
