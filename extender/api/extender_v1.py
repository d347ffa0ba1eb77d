"""The wire types of kube-scheduler's extender protocol, `k8s.io/kube-scheduler/extender/v1`.

kube-scheduler's structs carry no JSON tags: top-level keys are the Go field names, embedded
Kubernetes objects are ordinary camelCase, and absent lists are sent as null. Parts that are sent
back unchanged stay raw.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from extender.api.core_v1 import ObjectMeta

_Object = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
_Names = Annotated[
    Raw, Meta(extra_json_schema={"type": ["array", "null"], "items": {"type": "string"}})
]


class _Wire(Struct, frozen=True, gc=False, rename="pascal"):
    """Go field names on the wire, snake case here."""


class ObjectHead(Struct, frozen=True, gc=False):
    """The metadata of an embedded Kubernetes object."""

    metadata: ObjectMeta = ObjectMeta()


class NodeItems(Struct, frozen=True, gc=False):
    """A NodeList whose items stay raw."""

    items: list[Raw] | None = None


class ExtenderArgs(_Wire, frozen=True):
    """The request of filter and prioritize: names where `nodeCacheCapable`, else whole nodes."""

    pod: Annotated[_Object, Meta(description="The whole Pod.")]
    node_names: Annotated[_Names, Meta(description="Where nodeCacheCapable is true.")] = field(
        default_factory=lambda: Raw(b"null")
    )
    nodes: Annotated[NodeItems | None, Meta(description="Where it is false: a NodeList.")] = None


class FilterResult(_Wire, frozen=True):
    """The answer of filter. If `node_names` is null, `nodes` counts."""

    node_names: _Names | list[str] | None = None
    nodes: NodeItems | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: Annotated[
        dict[str, str] | Raw,
        Meta(description="Nodes refused, with the reason; preemption would not help."),
    ] = {}
    error: str = ""


class HostPriority(_Wire, frozen=True):
    """The score of a node, 0 to 10."""

    host: str
    score: Annotated[int, Meta(ge=0, le=10)]


class BindingArgs(_Wire, frozen=True):
    """The request of bind."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = field(name="PodUID")
    node: str = ""


class BindingResult(_Wire, frozen=True):
    """The answer of bind, which may take as long as the gang may wait. No error means success."""

    error: str = ""


class Problem(_Wire, frozen=True):
    """The answer to a request that cannot be read, or not be answered now. The status is 200."""

    error: Annotated[str, Meta(min_length=1)]


class MetaPod(_Wire, frozen=True):
    """The UID of a victim."""

    uid: str = field(default="", name="UID")


class MetaVictims(_Wire, frozen=True):
    """Victims on one node, by UID."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = field(default=0, name="NumPDBViolations")


class Victims(_Wire, frozen=True):
    """Victims on one node, as whole pods."""

    pods: list[ObjectHead] | None = None
    num_pdb_violations: int = field(default=0, name="NumPDBViolations")


class PreemptionArgs(_Wire, frozen=True):
    """The request of preempt: meta victims where `nodeCacheCapable`, else whole pods."""

    pod: _Object
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class PreemptionResult(_Wire, frozen=True):
    """The answer of preempt: the nodes on which kube-scheduler may preempt."""

    node_name_to_meta_victims: dict[str, MetaVictims]


def error_text(text: str) -> str:
    """Return a text without per cent signs: older kube-schedulers take it for a format string."""
    return text.replace("%", " per cent")
