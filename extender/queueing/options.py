"""The options of admission, and the order of workloads that follows from them."""

from dataclasses import dataclass
from typing import Literal

from extender.api.job_overrides import DEFAULT, Overrides
from extender.api.reasons import EvictionReason
from extender.api.wellknown import WorkloadCondition
from extender.state.queue.records import WorkloadInfo

PreemptForRoom = Literal["Never", "LowerPriority"]
ResourceClaims = Literal["Refuse", "Ignore"]


@dataclass(frozen=True, slots=True)
class PodsReady:
    """How long pods may take to become ready, and what follows where they do not. In seconds."""

    enabled: bool = True
    timeout: float = 1800.0
    """From the admission until all pods are ready for the first time."""
    recovery_timeout: float | None = 1800.0
    """From when ready pods stop being ready until they are ready again; None: no limit."""
    block_admission: bool = False
    """Block admission until the pods of every admitted workload are ready."""
    backoff_limit: int | None = None
    """How often a workload is requeued before it is deactivated; None: no limit."""
    backoff_base: float = 60.0
    """The first back-off; each later one is twice as long."""
    backoff_max: float = 3600.0


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """Options of admission; the defaults are Kueue's, except for the number of heads."""

    quota_check: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    """What a request for a resource means that the ClusterQueue does not cover."""
    heads_per_queue: int = 16
    """How many workloads of one ClusterQueue a cycle may try."""
    require_room: bool = False
    """Admit only workloads that fit on nodes now; the annotation of a ClusterQueue goes first."""
    aging: float = 300.0
    """Seconds for which a workload waits for room before room is kept for it; 0: never."""
    preempt_for_room: PreemptForRoom = "Never"
    """Which workloads may be preempted for one that has quota and lacks only room; the annotation
    of a ClusterQueue goes first."""
    resource_claims: ResourceClaims = "Refuse"
    """What becomes of a workload whose pods have resource claims, which no quota counts."""
    requeuing_timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """Which time orders a workload whose pods did not become ready."""
    pods_ready: PodsReady = PodsReady()
    job_overrides: Overrides = DEFAULT
    """Which of these jobs may change where their ClusterQueue has no annotation about it."""
    kinds: frozenset[str] | None = None
    """Kinds of jobs, as group/Kind, whose pods are watched for readiness; None: all."""


Order = tuple[int, float, int, str, str]
"""Lowest first: negated priority, time, arrival, UID, `namespace/name`.

The API server stores whole seconds, so the arrival decides within one second.
"""

CycleOrder = tuple[int, int, float, int, str, str]
"""Lowest first: how far up the tree it borrows, then as in a ClusterQueue."""


def queue_time(workload: WorkloadInfo, options: AdmissionOptions) -> float:
    """Return the time by which a workload is queued, in seconds since the epoch.

    A preempted workload keeps its place. One whose pods did not become ready goes to the end.
    """
    evicted = workload.condition(WorkloadCondition.EVICTED)
    if evicted is not None and evicted.status == "True":
        timed_out = (
            evicted.reason == EvictionReason.PODS_READY_TIMEOUT
            and options.requeuing_timestamp == "Eviction"
        )
        if timed_out or evicted.reason == "AdmissionCheck":
            return evicted.transition
    return workload.meta.created


def queue_order(workload: WorkloadInfo, options: AdmissionOptions) -> Order:
    """Return what the workloads of a ClusterQueue are sorted by."""
    time = queue_time(workload, options)
    return -workload.priority, time, workload.arrival, workload.meta.uid, workload.key


def cycle_order(borrow: int, order: Order) -> CycleOrder:
    """Return what the heads of a cycle are sorted by: those within their quota come first."""
    return borrow, *order
