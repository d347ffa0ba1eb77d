"""The start of a simulation, wherever it comes from, and its jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.gang.verdicts import GangOptions
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster.records import JobInfo, NodeInfo, PodGroupInfo, PodInfo
from extender.state.queue.events import Record
from extender.state.queue.records import PodSetInfo, WorkloadInfo
from extender.state.queue.store import Complete

EPOCH: Final = 1_767_225_600.0
"""The start of a simulation of a scenario: 2026-01-01, in seconds since the epoch."""

MOST_PODS: Final = 100_000
"""The most equal pods of a job that are played: a manifest may ask for more than fit in memory."""


@dataclass(slots=True, eq=False)
class SimJob:
    """A job of any kind: pods that run for a time. Times are in seconds since the beginning."""

    name: str
    namespace: str
    kind: str
    """The class of the scenario, or the kind of the object."""
    arrival: float
    run_seconds: float | None
    """The run time of a pod. With None it is unknown, and the pod never ends."""
    pod_sets: Sequence[PodSetInfo] = ()
    priority: int = 0
    pod_group: PodGroupInfo | None = None
    """The PodGroup that it brings."""
    workload: WorkloadInfo | None = None
    """The Workload to create. With None no queue admits the job."""
    uid: str = ""
    gang_size: int = 0
    """The number of pods that start together and run only together. With 0 each runs alone."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    """The pods of this attempt that have not finished."""
    pod_count: int = 0
    """The number of pods that this attempt began with."""
    bound: set[str] = field(default_factory=set)
    """The UIDs of the pods on nodes."""
    finished_pods: int = 0
    """The number of pods of this attempt that have finished."""
    is_running: bool = False
    """True once enough pods have had a node in this attempt."""
    attempt: int = 0
    """Incremented when the pods are created or deleted together, so that events of earlier pods are
    ignored."""
    admitted: float | None = None
    started: float | None = None
    """The time at which enough pods had a node for the first time."""
    ended: float | None = None
    preempted: int = 0
    is_half_placed: bool = False
    """True while some of the pods that start together have nodes, but too few."""
    was_half_placed: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class World:
    """Nodes, queues, jobs that are there and jobs that come; times in seconds."""

    nodes: Sequence[NodeInfo]
    records: Sequence[Record]
    """Queues, and workloads that are there at the beginning."""
    jobs: Sequence[SimJob]
    """Jobs that come, in the order of their numbers."""
    queue: AdmissionOptions
    gang: GangOptions
    pod_groups: Sequence[PodGroupInfo] = ()
    """PodGroups that are there at the beginning."""
    batch_jobs: Sequence[JobInfo] = ()
    """Jobs that are there at the beginning and have pods in groups."""
    makes_groups: bool = True
    """`queue.podGroups: Auto`."""
    running: Sequence[SimJob] = ()
    """Jobs that are there at the beginning, with their pods."""
    pod_ends: Mapping[str, float] = field(default_factory=dict)
    """The ends of pods that exist at the beginning, by UID. Pods without an end never end."""
    step: float = 0.1
    until: float | None = None
    began: float = EPOCH
    version: int = 1
    """The highest resourceVersion."""
    complete: Complete | None = None
    """Completes pod sets by LimitRanges and RuntimeClasses."""
    compare: bool = False
    """True if kube-scheduler alone is simulated as well."""

    def seconds_left(self, job: SimJob, uids: Sequence[str], now: float) -> dict[float, list[str]]:
        """Return the UIDs of pods of a job by the seconds for which they run from now on.

        Pods that never end are left out.
        """
        found: dict[float, list[str]] = {}
        for uid in uids:
            end = self.pod_ends.get(uid)
            seconds = job.run_seconds if end is None else max(0.0, end - now)
            if seconds is not None:
                found.setdefault(seconds, []).append(uid)
        return found
