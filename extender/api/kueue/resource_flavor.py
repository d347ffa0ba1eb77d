"""ResourceFlavor: which nodes a quota is for."""

from typing import Annotated, Literal

from pydantic import Field

from extender.api.kueue.fields import ATOMIC, ATOMIC_MAP, ruled
from extender.api.kueue.taints import UNIQUE_TAINTS, Taint, Toleration
from extender.api.meta_v1 import QUALIFIED, DnsName, ObjectMeta, Read, Written

_LabelValue = Annotated[
    str, Field(max_length=63, pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
_Labels = Annotated[dict[str, _LabelValue], Field(max_length=8)]


class ResourceFlavorSpec(Written):
    """Which nodes are meant, and what pods need to run on them."""

    model_config = ruled({
        "a topology needs at least one node label": (
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)"
        ),
        "a flavor with a topology cannot be changed": (
            "!has(oldSelf.topologyName) || self == oldSelf"
        ),
        "the key of a node label is a name of up to 63 letters, digits, '-', '_' and '.', which "
        "may have a DNS name and '/' in front": (
            "!has(self.nodeLabels) || self.nodeLabels.all(key, size(key) <= 317 && "
            f"key.matches(r'{QUALIFIED}') && size(key.split('/')[size(key.split('/')) - 1]) <= 63)"
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
