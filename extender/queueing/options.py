"""What an operator may choose about admission."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """Defaults are Kueue's, but for the number of heads."""

    quota_check: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    """What a resource means that the ClusterQueue does not cover."""
    heads_per_queue: int = 16
    """How many workloads of one ClusterQueue a cycle may try."""
    require_room: bool = False
    """Whether quota is given only to what fits on nodes now; a ClusterQueue may say otherwise."""
    requeuing_timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """Which time gives a workload its place again whose pods did not become ready."""
