"""What a decision about a job needs to know besides the job and its workloads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from extender.api.job_overrides import Overrides
from extender.jobs.readiness import Progress
from extender.state.queues.records import (
    FlavorInfo,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)

ReleaseQuota = Literal["OnTerminating", "OnTerminal"]
"""Whether pods that are being deleted give their quota back, or only when they have ended."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A job up the chain of owners that is queued itself."""

    name: str
    admitted: bool


@dataclass(frozen=True, slots=True)
class Context:
    """What is asked for in the settings, and what the job refers to."""

    flavors: Mapping[str, FlavorInfo] = field(default_factory=dict)
    workload_priority_classes: Mapping[str, WorkloadPriorityClassInfo] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClassInfo] = field(default_factory=dict)
    manage_without_queue_name: bool = False
    namespace_selected: bool = True
    """Whether the namespace is one of those in which jobs without a queue name are held."""
    ancestor: Ancestor | None = None
    prebuilt: WorkloadInfo | None = None
    """The workload that the job names, where it names one and it is there."""
    is_taken: Callable[[str], bool] = lambda _: False
    """Whether a Workload of another job, or of none, has a name in the job's namespace."""
    makes_pod_groups: Callable[[str], bool] = lambda _: False
    """Whether jobs of a ClusterQueue get a PodGroup where their pods bring none."""
    rooms: Callable[[str], Mapping[str, Mapping[str, int]] | None] = lambda _: None
    """The room on nodes that was found for a workload when it was admitted."""
    group_size: Callable[[str], tuple[int, int] | None] = lambda _: None
    """What a PodGroup, by `namespace/name`, wants, and how many of that are known to be done; None
    where there is none."""
    is_granted: Callable[[str], bool] = lambda _: False
    """Whether room for a PodGroup is stored in its status."""
    wait_for_pods_ready: bool = False
    progress: Progress = field(default_factory=Progress)
    release_quota: ReleaseQuota = "OnTerminating"
    """As the ClusterQueue says, or the settings."""
    overrides: Overrides = field(default_factory=Overrides)
    """What the ClusterQueue lets the job change of its settings."""
