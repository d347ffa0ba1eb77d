"""What a decision about a job needs to know besides the job and its workloads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from extender.api.job_overrides import Overrides
from extender.jobs.readiness import JobProgress
from extender.state.queue.records import (
    FlavorInfo,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.topology import DomainAssignment

ReleaseQuota = Literal["OnTerminating", "OnTerminal"]
"""Whether pods that are being deleted give their quota back, or only when they have ended."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A job up the chain of owners that is queued itself."""

    name: str
    admitted: bool


@dataclass(frozen=True, slots=True)
class PodGroupState:
    """What is known of the PodGroup of a workload's pods, whether or not it exists."""

    made_by_queue: bool = False
    """Whether the ClusterQueue that admitted it makes a PodGroup for pods that bring none."""
    size: tuple[int, int] | None = None
    """Its minMember, and how many of these are known to be done; None where it does not exist."""
    granted: bool = False
    """Whether its status grants room."""
    domains: Mapping[str, DomainAssignment] = field(default_factory=dict)
    """Where it says that its pods go, by pod set."""


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
    has_pods: Callable[[WorkloadInfo], bool] = lambda _: False
    """Whether a workload has pods that have not ended."""
    has_stopped: bool = True
    """Whether the job's controller has noticed the last stop, as far as there was one."""
    pod_groups: Mapping[str, PodGroupState] = field(default_factory=dict)
    """By key of the job's workloads."""
    overdue: bool = False
    """Whether the pods of a stopped job have not ended, or pods of a group not come, for long."""
    pods_gone: bool = False
    """Whether there is no pod of a stopped job whose status has said for long that pods run."""
    wait_for_pods_ready: bool = False
    progress: JobProgress = field(default_factory=JobProgress)
    release_quota: ReleaseQuota = "OnTerminating"
    """As the ClusterQueue says, or the settings."""
    overrides: Overrides = field(default_factory=Overrides)
    """What the ClusterQueue lets the job change of its settings."""

    def pod_group(self, workload: WorkloadInfo) -> PodGroupState:
        """Return what is known of the PodGroup of a workload's pods."""
        return self.pod_groups.get(workload.key, PodGroupState())
