"""The read-only side of the queue's state, which is all that decisions see.

The rule of `state/cluster/view.py` holds: no value read from a view survives an `await`.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from extender.state.queue.records import (
    AdmissionCheckInfo,
    AdmissionInfo,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    FlavorResource,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    NamespaceInfo,
    PriorityClassInfo,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    RuntimeClassInfo,
    TopologyInfo,
    Usage,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)

_NOTHING: Mapping[FlavorResource, int] = {}


def _sets() -> defaultdict[Any, set[Any]]:
    return defaultdict(set)


@dataclass(slots=True)
class QueueTables:
    """Everything the queues' state holds. Written by `Queues` only."""

    flavors: dict[str, FlavorInfo] = field(default_factory=dict)
    topologies: dict[str, TopologyInfo] = field(default_factory=dict)
    admission_checks: dict[str, AdmissionCheckInfo] = field(default_factory=dict)
    provisioning_configs: dict[str, ProvisioningConfigInfo] = field(default_factory=dict)
    provisioning_requests: dict[str, ProvisioningRequestInfo] = field(default_factory=dict)
    requests_of: defaultdict[str, set[str]] = field(default_factory=_sets)
    """The ProvisioningRequests that were made for each workload."""
    cluster_queues: dict[str, ClusterQueueInfo] = field(default_factory=dict)
    cohorts: dict[str, CohortInfo] = field(default_factory=dict)
    local_queues: dict[str, LocalQueueInfo] = field(default_factory=dict)
    namespaces: dict[str, NamespaceInfo] = field(default_factory=dict)
    priority_classes: dict[str, PriorityClassInfo] = field(default_factory=dict)
    workload_priority_classes: dict[str, WorkloadPriorityClassInfo] = field(default_factory=dict)
    limit_ranges: dict[str, LimitRangeInfo] = field(default_factory=dict)
    runtime_classes: dict[str, RuntimeClassInfo] = field(default_factory=dict)
    workloads: dict[str, WorkloadInfo] = field(default_factory=dict)
    jobs: dict[tuple[str, str], JobObject] = field(default_factory=dict)
    assumed: dict[str, AdmissionInfo] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    """By ClusterQueue: quota taken, in fact or by assumption."""
    usage_versions: dict[str, int] = field(default_factory=dict)
    """By ClusterQueue: grows when its usage, or a workload that takes quota in it, changes."""
    usage_logs: dict[str, deque[str]] = field(default_factory=dict)
    """By ClusterQueue: the workloads of its latest versions, the last one last."""
    reserving: defaultdict[str, set[str]] = field(default_factory=_sets)
    """By ClusterQueue: workloads that take quota in it."""
    reserved_only: set[str] = field(default_factory=set)
    """The workloads that hold quota and are not admitted."""
    passed: set[str] = field(default_factory=set)
    """Those of them whose admission checks are all Ready."""
    by_queue: defaultdict[str, set[str]] = field(default_factory=_sets)
    """By LocalQueue: workloads that are not finished."""
    by_owner: defaultdict[tuple[str, str], set[str]] = field(default_factory=_sets)
    """By namespace and UID of the job: its workloads."""
    by_cluster_queue: defaultdict[str, set[str]] = field(default_factory=_sets)
    """By ClusterQueue: its LocalQueues."""
    job_uids: dict[str, tuple[str, str]] = field(default_factory=dict)
    units: defaultdict[tuple[str, str], set[tuple[str, str]]] = field(default_factory=_sets)
    """By job, as it is looked at: its objects."""
    children: defaultdict[tuple[str, str], set[tuple[str, str]]] = field(default_factory=_sets)
    """By namespace and UID of an object: those that it made."""
    by_prebuilt: defaultdict[str, set[tuple[str, str]]] = field(default_factory=_sets)
    """By workload, there or not: the objects that bring it along."""
    structure_version: int = 0
    version: int = 0


class QueueView:
    """Queries about queues, quota and workloads; no answer survives an `await`."""

    def __init__(self, tables: QueueTables) -> None:
        self._tables = tables
        self.flavors: Final[Mapping[str, FlavorInfo]] = tables.flavors
        """ResourceFlavors by name."""
        self.topologies: Final[Mapping[str, TopologyInfo]] = tables.topologies
        """Topologies by name."""
        self.admission_checks: Final[Mapping[str, AdmissionCheckInfo]] = tables.admission_checks
        """AdmissionChecks by name."""
        self.provisioning_configs: Final[Mapping[str, ProvisioningConfigInfo]] = (
            tables.provisioning_configs
        )
        """ProvisioningRequestConfigs by name."""
        self.cluster_queues: Final[Mapping[str, ClusterQueueInfo]] = tables.cluster_queues
        """ClusterQueues by name."""
        self.cohorts: Final[Mapping[str, CohortInfo]] = tables.cohorts
        """Cohort objects by name; a cohort that is only named by others has none."""
        self.local_queues: Final[Mapping[str, LocalQueueInfo]] = tables.local_queues
        """LocalQueues by `namespace/name`."""
        self.namespaces: Final[Mapping[str, NamespaceInfo]] = tables.namespaces
        """Namespaces by name."""
        self.limit_ranges: Final[Mapping[str, LimitRangeInfo]] = tables.limit_ranges
        """LimitRanges by `namespace/name`."""
        self.runtime_classes: Final[Mapping[str, RuntimeClassInfo]] = tables.runtime_classes
        """RuntimeClasses by name."""
        self.priority_classes: Final[Mapping[str, PriorityClassInfo]] = tables.priority_classes
        """PriorityClasses of pods by name."""
        self.workload_priority_classes: Final[Mapping[str, WorkloadPriorityClassInfo]] = (
            tables.workload_priority_classes
        )
        """WorkloadPriorityClasses by name."""
        self.workloads: Final[Mapping[str, WorkloadInfo]] = tables.workloads
        """Workloads by `namespace/name`, as the API server has them."""
        self.jobs: Final[Mapping[tuple[str, str], JobObject]] = tables.jobs
        """Jobs by integration and `namespace/name`."""
        self.units: Final[Collection[tuple[str, str]]] = tables.units
        """The jobs, each of one object or of several."""

    @property
    def version(self) -> int:
        """Grows with each event that changed anything."""
        return self._tables.version

    @property
    def structure_version(self) -> int:
        """Grows when a flavor, a topology, a cohort, a ClusterQueue or a namespace changes."""
        return self._tables.structure_version

    def usage(self, cluster_queue: str) -> Mapping[FlavorResource, int]:
        """Return the quota that is taken in a ClusterQueue."""
        return self._tables.usage.get(cluster_queue, _NOTHING)

    def usage_version(self, cluster_queue: str) -> int:
        """Grows when the usage of a ClusterQueue changes, or a workload that has quota in it."""
        return self._tables.usage_versions.get(cluster_queue, 0)

    def usage_since(self, cluster_queue: str, version: int) -> set[str] | None:
        """Return the workloads whose quota or record has changed since a version of the usage.

        None where they are too many to be known.
        """
        log = self._tables.usage_logs.get(cluster_queue, ())
        number = self.usage_version(cluster_queue) - version
        return set(islice(reversed(log), number)) if number <= len(log) else None

    def reserving(self, cluster_queue: str) -> Collection[str]:
        """Return the workloads that take quota in a ClusterQueue."""
        return self._tables.reserving.get(cluster_queue, ())

    def holders(self) -> Iterator[str]:
        """Yield all workloads that take quota."""
        for keys in self._tables.reserving.values():
            yield from keys

    def requests_of(self, workload: str) -> list[ProvisioningRequestInfo]:
        """Return the ProvisioningRequests that were made for the checks of a workload."""
        names = self._tables.requests_of.get(workload, ())
        return [self._tables.provisioning_requests[name] for name in sorted(names)]

    @property
    def reserved_only(self) -> Set[str]:
        """The workloads that hold quota and are not admitted: they await checks or nodes."""
        return self._tables.reserved_only

    @property
    def passed(self) -> Set[str]:
        """Those of `reserved_only` whose admission checks are all Ready."""
        return self._tables.passed

    def admission(self, workload: str) -> AdmissionInfo | None:
        """Return the quota that a workload holds, in fact or by assumption; finished: none."""
        assumed = self._tables.assumed.get(workload)
        if assumed is not None:
            return assumed
        found = self._tables.workloads.get(workload)
        return found.admission if found is not None and not found.finished else None

    def is_assumed(self, workload: str) -> bool:
        """Return whether a workload's quota is being written to the API server."""
        return workload in self._tables.assumed

    def waiting_in(self, local_queue: str) -> Collection[str]:
        """Return the workloads of a LocalQueue that are not finished, with quota or without."""
        return self._tables.by_queue.get(local_queue, ())

    def local_queues_of(self, cluster_queue: str) -> Collection[str]:
        """Return the LocalQueues of a ClusterQueue."""
        return self._tables.by_cluster_queue.get(cluster_queue, ())

    def workloads_of(self, owner: str, namespace: str) -> Collection[str]:
        """Return the workloads of the job with a UID: those of its own namespace.

        An owner reference names no namespace, because an owner is always in that of what it owns;
        the API server does not check it, so one that says otherwise is no owner.
        """
        return self._tables.by_owner.get((namespace, owner), ())

    def size(self, key: tuple[str, str]) -> int:
        """Return of how many objects a job is."""
        return len(self._tables.units.get(key, ()))

    def unit(self, key: tuple[str, str]) -> list[JobObject]:
        """Return the objects of one job, by name."""
        keys = self._tables.units.get(key, ())
        return [self._tables.jobs[each] for each in sorted(keys)]

    def job_of(self, uid: str, namespace: str) -> JobObject | None:
        """Return the job with a UID, for what refers to it from the same namespace."""
        key = self._tables.job_uids.get(uid)
        found = self._tables.jobs.get(key) if key else None
        return found if found is not None and found.meta.namespace == namespace else None

    def cluster_queue_of(self, workload: WorkloadInfo) -> str | None:
        """Return the ClusterQueue in which a workload has quota, or else waits for it."""
        held = self.admission(workload.key)
        if held is not None:
            return held.cluster_queue
        queue = self._tables.local_queues.get(workload.queue)
        return queue.cluster_queue if queue else None
