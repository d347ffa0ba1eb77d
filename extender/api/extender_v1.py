"""The wire types of kube-scheduler's extender protocol, `k8s.io/kube-scheduler/extender/v1`.

kube-scheduler's structs carry no JSON tags: top-level keys are the Go field names, embedded
Kubernetes objects are ordinary camelCase, and absent lists are sent as null. Only what is read is
decoded; what is sent back as it came stays raw.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from extender.api.core_v1 import ObjectMeta

_Object = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
_Names = Annotated[
    Raw, Meta(extra_json_schema={"type": ["array", "null"], "items": {"type": "string"}})
]


def _null() -> Raw:
    return Raw(b"null")


class _Wire(Struct, frozen=True, gc=False, rename="pascal"):
    """Go field names on the wire, snake case here."""


class ObjectHead(Struct, frozen=True, gc=False):
    """An embedded Kubernetes object, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()


class NodeItems(Struct, frozen=True, gc=False):
    """A NodeList whose items stay raw."""

    items: list[Raw] | None = None


class ExtenderArgs(_Wire, frozen=True):
    """The request of filter and prioritize: names where `nodeCacheCapable`, else whole nodes."""

    pod: Annotated[_Object, Meta(description="The whole Pod.")]
    node_names: Annotated[_Names, Meta(description="Where nodeCacheCapable is true.")] = field(
        default_factory=_null
    )
    nodes: Annotated[NodeItems | None, Meta(description="Where it is false: a NodeList.")] = None


class FilterResult(_Wire, frozen=True):
    """The answer of filter; with `node_names` null the `nodes` count."""

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
    """The answer of bind, which may take as long as the gang may wait; no error is success."""

    error: str = ""


class Problem(_Wire, frozen=True):
    """The answer of a verb to what it cannot read, or does not answer now; the status is 200."""

    error: Annotated[str, Meta(min_length=1)]


class MetaPod(_Wire, frozen=True):
    """A victim by its UID."""

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
    """The answer of preempt: a node that is left out is not preempted on."""

    node_name_to_meta_victims: dict[str, MetaVictims]


def error_text(text: str) -> str:
    """Return a text as it may be sent: older kube-schedulers take it for a format string."""
    return text.replace("%", " per cent")
