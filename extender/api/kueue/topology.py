"""Topology: which labels of nodes say where these are, from the largest unit to the smallest."""

from typing import Annotated, Literal

from pydantic import Field

from extender.api.kueue.fields import ATOMIC, ruled, rules
from extender.api.meta_v1 import QUALIFIED, ObjectMeta, Read, Written
from extender.api.wellknown import HOSTNAME_LABEL


class TopologyLevel(Written):
    """One level."""

    node_label: Annotated[str, Field(min_length=1, max_length=316, pattern=QUALIFIED)]
    """The label of nodes. Nodes with one value of it, and of the labels above, are one domain."""


_LEVELS = rules({
    "levels cannot be changed": "self == oldSelf",
    "each nodeLabel is there once": (
        "self.all(a, self.exists_one(b, a.nodeLabel == b.nodeLabel))"
    ),
    f"{HOSTNAME_LABEL} can only be the last level": (
        f"self.all(each, each.nodeLabel != '{HOSTNAME_LABEL}') || "
        f"self[size(self) - 1].nodeLabel == '{HOSTNAME_LABEL}'"
    ),
})  # fmt: skip


class TopologySpec(Written):
    """The levels."""

    # A level cannot be taken away with the list either.
    model_config = ruled({"levels cannot be changed": "has(self.levels) == has(oldSelf.levels)"})

    levels: Annotated[
        list[TopologyLevel],
        Field(min_length=1, max_length=16, json_schema_extra={**ATOMIC, **_LEVELS}),
    ]
    """Labels of nodes, from the largest unit, such as a block, to the smallest, such as a host.
    Nodes that lack one of them take no pods of flavors with this topology."""


class Topology(Read):
    """Where nodes are: levels of domains, such as blocks, racks and hosts, by labels of nodes.

    ResourceFlavors name it in `topologyName`.
    """

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["Topology"]
    metadata: ObjectMeta
    spec: TopologySpec
    """The levels."""
