"""ResourceFlavor: which nodes a quota is for."""

from typing import Annotated, Literal

from pydantic import Field

from extender.api.kueue.fields import ATOMIC, ATOMIC_MAP, ruled
from extender.api.kueue.taints import UNIQUE_TAINTS, Taint, Toleration
from extender.api.meta_v1 import DnsName, ObjectMeta, Read, Written

_Labels = Annotated[dict[str, str], Field(max_length=8)]


class ResourceFlavorSpec(Written):
    """Which nodes are meant, and what pods need to run on them."""

    model_config = ruled({
        "a topology needs at least one node label": (
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)"
        ),
        "a flavor with a topology cannot be changed": (
            "!has(oldSelf.topologyName) || self == oldSelf"
        ),
    })  # fmt: skip

    node_labels: _Labels | None = Field(default=None, json_schema_extra=ATOMIC_MAP)
    """The labels of the nodes. A workload takes the flavor if its node selector and required
    affinity allow them; started pods get them as node selector."""
    node_taints: Annotated[list[Taint], Field(max_length=8)] | None = Field(
        default=None, json_schema_extra={**ATOMIC, **UNIQUE_TAINTS}
    )
    """The taints of the nodes. A workload takes the flavor if its pods, or the flavor for them,
    tolerate these. PreferNoSchedule does not count."""
    tolerations: Annotated[list[Toleration], Field(max_length=8)] | None = Field(
        default=None, json_schema_extra=ATOMIC
    )
    """Tolerations that pods get when they are started in this flavor."""
    topology_name: DnsName | None = None
    """The name of a Topology. Workloads get this flavor only where their pods have room in its
    domains. Without such an object a ClusterQueue with the flavor is not active, with the reason
    TopologyNotFound."""


class ResourceFlavor(Read):
    """A kind of nodes, by their labels and taints, for which ClusterQueues have quotas."""

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["ResourceFlavor"]
    metadata: ObjectMeta
    spec: ResourceFlavorSpec | None = None
    """Which nodes are meant, and what pods need to run on them."""
