"""What an operator may choose about admission."""

from dataclasses import dataclass
from typing import Literal

from extender.api.job_overrides import DEFAULT, Overrides


@dataclass(frozen=True, slots=True)
class PodsReady:
    """How long pods may take to become ready, and what follows where they do not; in seconds."""

    enabled: bool = True
    timeout: float = 1800.0
    """From the admission until all pods are ready for the first time."""
    recovery_timeout: float | None = 1800.0
    """From when pods that were ready no longer are; None: as long as they like."""
    block_admission: bool = False
    """Whether it is not admitted before the pods of everybody who was are ready."""
    backoff_limit: int | None = None
    """How often a workload is queued again; one time more, and it is deactivated."""
    backoff_base: float = 60.0
    """The first back-off; each further one is twice the one before."""
    backoff_max: float = 3600.0


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
    pods_ready: PodsReady = PodsReady()
    job_overrides: Overrides = DEFAULT
    """What jobs may change of these where their ClusterQueue does not say."""
    kinds: frozenset[str] | None = None
    """The kinds of jobs, as group/Kind, of whose pods anything is told; None: of all."""
