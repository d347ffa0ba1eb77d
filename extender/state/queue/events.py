"""Everything that can happen to queues: facts from watches, and steps of our own."""

from collections.abc import Sequence
from dataclasses import dataclass

from extender.state.queue.records import (
    AdmissionCheckInfo,
    AdmissionInfo,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    NamespaceInfo,
    PriorityClassInfo,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    RuntimeClassInfo,
    TopologyInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)

Record = (
    FlavorInfo
    | ClusterQueueInfo
    | CohortInfo
    | LocalQueueInfo
    | NamespaceInfo
    | PriorityClassInfo
    | WorkloadPriorityClassInfo
    | LimitRangeInfo
    | RuntimeClassInfo
    | TopologyInfo
    | AdmissionCheckInfo
    | ProvisioningConfigInfo
    | ProvisioningRequestInfo
    | WorkloadInfo
)


@dataclass(frozen=True, slots=True)
class Applied:
    """An object was created or changed; an older version than the one known changes nothing."""

    record: Record


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone."""

    record: Record


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of one type there were at a version; 0 is now."""

    type: type[Record]
    records: Sequence[Record]
    version: int = 0


@dataclass(frozen=True, slots=True)
class JobApplied:
    """A job of any kind was created or changed."""

    job: JobObject


@dataclass(frozen=True, slots=True)
class JobDeleted:
    """A job is gone, or only out of sight: its labels do not say any more that it is queued."""

    job: JobObject
    for_good: bool = False
    """True if it is known not to be there any more."""


@dataclass(frozen=True, slots=True)
class JobsListed:
    """All jobs of one kind there were at a version; 0 is now."""

    kind: str
    jobs: Sequence[JobObject]
    version: int = 0


@dataclass(frozen=True, slots=True)
class Assumed:
    """Quota was given to a workload; it is being written to the API server."""

    workload: str
    admission: AdmissionInfo


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The API server did not take it: the workload holds what the facts say."""

    workload: str
    admission: AdmissionInfo | None = None
    """The admission that had been assumed; something else that was assumed since stays."""


Event = Applied | Deleted | JobApplied | JobDeleted | Assumed | Forgotten


@dataclass(frozen=True, slots=True)
class QueueChange:
    """The things that an event touched, which are worth deciding again."""

    workloads: frozenset[str] = frozenset()
    """Keys of workloads that came, changed or went."""
    released: frozenset[str] = frozenset()
    """ClusterQueues in which quota was given back."""
    structure: bool = False
    """Flavors, cohorts or ClusterQueues are others now: any workload may be concerned."""
    cluster_queues: frozenset[str] = frozenset()
    """ClusterQueues whose spec, status, numbers or flavors are others now."""
    local_queues: frozenset[str] = frozenset()
    """The same of LocalQueues, `namespace/name`."""
    jobs: frozenset[tuple[str, str]] = frozenset()
    """Jobs that came, changed or went, or whose workload did."""
    checks: frozenset[str] = frozenset()
    """AdmissionChecks that came, changed or went, or whose users or parameters did."""
    flavors: frozenset[str] = frozenset()
    """Flavors that came, changed or went, or whose users did."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces that came or went, or whose labels are others now."""
    priority_classes: frozenset[str] = frozenset()
    """WorkloadPriorityClasses that are new or have another value."""
