"""Sets of equal pods: what a workload is made of, and what it is given."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from extender.api.kueue.fields import ATOMIC, ATOMIC_MAP, CheckName, by
from extender.api.kueue.taints import Toleration
from extender.api.meta_v1 import Count, DnsLabel, DnsName, Positive, Quantity, Read, Written

MOST: Final = 18
"""How many pod sets a workload may have."""

_OPEN: Final = ConfigDict(extra="allow", strict=False)


class Amounts(Written):
    """The requests and limits of a container."""

    model_config = _OPEN

    requests: dict[str, Quantity] | None = None
    """What it asks for."""
    limits: dict[str, Quantity] | None = None
    """What it gets at most."""


class Container(Written):
    """A container of the template."""

    model_config = _OPEN

    name: str
    """The name of the container."""
    resources: Amounts | None = None
    """What the container needs."""


_Containers = Annotated[list[Container], Field(max_length=256)]


class PodSpec(Written):
    """The pods' spec, of which only the containers are looked at here."""

    model_config = _OPEN

    containers: _Containers
    """The containers."""
    init_containers: _Containers | None = None
    """The containers that run before the others."""


class PodTemplate(Written):
    """The template of equal pods; everything that a pod may have is kept."""

    model_config = _OPEN

    spec: PodSpec
    """The pods' spec."""


class SliceLayer(Written):
    """One of several layers of slices."""

    topology: Annotated[str, Field(min_length=1, max_length=63)]
    """The label of a level."""
    size: Positive
    """How many pods are a slice of this layer."""


_Level = Annotated[str, Field(max_length=63)]
_Label = Annotated[str, Field(max_length=317)]
_Roots = Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=100_000)]
_Numbers = Annotated[list[Positive], Field(min_length=1, max_length=100_000)]


class TopologyRequest(Written):
    """Where the pods should be next to each other: in which units of the flavor's Topology."""

    model_config = _OPEN

    required: _Level | None = None
    """The label of a level: all pods go to one domain of it."""
    preferred: _Level | None = None
    """The label of a level: all pods go to one domain of it, or else of one above, or else to few
    of the highest level."""
    unconstrained: bool | None = None
    """Whether the pods may go to any domains with room."""
    pod_index_label: _Label | None = None
    """The label of pods that says which one it is: pods of subsequent indexes go to the same or to
    neighbouring domains. Only that of Jobs' completion indexes is used."""
    sub_group_index_label: _Label | None = None
    """The label of pods that says which of several jobs it is of. Not used."""
    sub_group_count: Count | None = None
    """How many such jobs there are. Not used."""
    pod_set_group_name: Annotated[str, Field(max_length=256)] | None = None
    """The name of pod sets that go to the same domain. Not honoured: such a workload is not
    admitted, with the reason Misconfigured."""
    pod_set_slice_required_topology: _Level | None = None
    """The label of a level: the pods of each slice go to one domain of it."""
    pod_set_slice_size: Positive | None = None
    """How many pods of subsequent indexes are a slice."""
    podset_slice_required_topology_constraints: (
        Annotated[list[SliceLayer], Field(max_length=3)] | None
    ) = Field(default=None, json_schema_extra=ATOMIC)
    """Slices inside of slices. Not honoured: such a workload is not admitted, with the reason
    Misconfigured."""


class PodSet(Written):
    """A number of equal pods."""

    name: DnsLabel = "main"
    """The name of the set in this workload."""
    template: PodTemplate = Field(json_schema_extra=ATOMIC_MAP)
    """What the pods are made from."""
    count: Count = 1
    """How many pods there are."""
    min_count: Positive | None = None
    """With how many pods the job could start too, if there is no quota for all. Only one set of a
    workload may say this."""
    topology_request: TopologyRequest | None = None
    """Where the pods should be next to each other."""


class LevelRoots(Read):
    """A value of a label for each domain, without what all have in common."""

    prefix: _Level | None = None
    """How all values begin."""
    suffix: _Level | None = None
    """How all values end."""
    roots: _Roots = Field(json_schema_extra=ATOMIC)
    """What is between the two, for one domain after the other."""


class LevelValues(Read):
    """The values of one level's label."""

    universal: _Level | None = None
    """The value of all domains, where they have the same."""
    individual: LevelRoots | None = None
    """The values of the domains, where they differ."""


class DomainPodCounts(Read):
    """How many pods go to each domain."""

    universal: Positive | None = None
    """To all of them the same number."""
    individual: _Numbers | None = Field(default=None, json_schema_extra=ATOMIC)
    """The number for one domain after the other."""


class TopologyAssignmentSlice(Read):
    """Domains, and how many pods go to each."""

    domain_count: Positive
    """How many domains these are."""
    values_per_level: Annotated[list[LevelValues], Field(min_length=1, max_length=16)] = Field(
        json_schema_extra=ATOMIC
    )
    """The values of each level's label."""
    pod_counts: DomainPodCounts
    """How many pods go to each domain."""


class TopologyAssignment(Read):
    """Where the pods go: so many into each domain of nodes."""

    model_config = _OPEN

    levels: Annotated[list[_Label], Field(min_length=1, max_length=16)] = Field(
        json_schema_extra=ATOMIC
    )
    """The labels of the nodes, from the largest unit to the smallest. Only the last one where that
    is kubernetes.io/hostname."""
    slices: Annotated[list[TopologyAssignmentSlice], Field(max_length=1000)] = Field(
        json_schema_extra=ATOMIC
    )
    """The domains, in the order in which pods of growing index go there."""


class PodSetAssignment(Read):
    """What a pod set was given."""

    name: DnsLabel = "main"
    """The name of the pod set."""
    flavors: dict[str, DnsName] | None = None
    """The flavor that each resource comes from."""
    resource_usage: dict[str, Quantity] | None = None
    """What all pods of the set need together. Stays when some are reclaimed."""
    count: Count | None = None
    """For how many pods. Stays when some are reclaimed."""
    topology_assignment: TopologyAssignment | None = None
    """Where the pods go, in a flavor with a topology."""
    delayed_topology_request: Literal["Pending", "Ready"] | None = None
    """Whether that is still to be found. Not written."""


class Admission(Read):
    """The quota that the workload has, and its ClusterQueue."""

    cluster_queue: DnsName
    """The ClusterQueue that gave it."""
    pod_set_assignments: Annotated[list[PodSetAssignment], Field(max_length=MOST)] | None = Field(
        default=None, json_schema_extra=by("name")
    )
    """What each pod set was given."""


class ReclaimablePod(Read):
    """Pods of a set that need their quota no more."""

    name: DnsLabel
    """The name of the pod set."""
    count: Count
    """How many of its pods are done with."""


class PodSetRequest(Read):
    """What a pod set asked for when it was last looked at."""

    name: DnsLabel
    """The name of the pod set."""
    resources: dict[str, Quantity] | None = None
    """What all its pods need together."""


class PodSetUpdate(Read):
    """What an admission check adds to pods. Not written."""

    name: DnsLabel
    """The name of the pod set."""
    labels: dict[str, str] | None = None
    """Labels to add."""
    annotations: dict[str, str] | None = None
    """Annotations to add."""
    node_selector: dict[str, str] | None = None
    """Labels that the nodes must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=8)] | None = Field(
        default=None, json_schema_extra=ATOMIC
    )
    """Tolerations to add."""


class AdmissionCheckState(Read):
    """How far an admission check is. Not written."""

    name: CheckName
    """The name of the check."""
    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    """How far it is."""
    last_transition_time: datetime
    """When the state last changed."""
    message: Annotated[str, Field(max_length=32768)]
    """The state in words."""
    pod_set_updates: Annotated[list[PodSetUpdate], Field(max_length=MOST)] | None = Field(
        default=None, json_schema_extra=ATOMIC
    )
    """What is added to the pods."""
    retry_count: Count | None = None
    """How often it was tried again."""
    requeue_after_seconds: Count | None = None
    """How long to wait before it is tried again."""
