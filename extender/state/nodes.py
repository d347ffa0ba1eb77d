"""What decisions know of a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.api.core_v1 import Taint


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node as last seen; amounts as in `resources.quantity`."""

    name: str
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    """False only where a Ready condition says so; nodes without one are taken as they are."""
