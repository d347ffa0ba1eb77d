"""The options of admission, and the order of workloads that follows from them."""

from dataclasses import dataclass
from typing import Literal

from extender.api.job_overrides import DEFAULT, Overrides
from extender.api.reasons import EvictionReason
from extender.api.wellknown import WorkloadCondition
from extender.state.queue.records import Order, WorkloadInfo

PreemptForRoom = Literal["Never", "LowerPriority"]
ResourceClaims = Literal["Refuse", "Ignore"]


@dataclass(frozen=True, slots=True)
class PodsReady:
    """The section `queue.waitForPodsReady`, as decisions read it. Times are in seconds.

    `config/queue.py` documents each setting.
    """

    enabled: bool = True
    timeout: float = 1800.0
    recovery_timeout: float | None = 1800.0
    """The limit; None for no limit."""
    block_admission: bool = False
    backoff_limit: int | None = None
    backoff_base: float = 60.0
    backoff_max: float = 3600.0


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """The section `queue`, as decisions about admission read it. Times are in seconds.

    `config/queue.py` documents each setting. The defaults are those of the section, which are
    Kueue's.
    """

    quota_check: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    require_room: bool = False
    aging: float = 300.0
    preempt_for_room: PreemptForRoom = "Never"
    resource_claims: ResourceClaims = "Refuse"
    requeuing_timestamp: Literal["Eviction", "Creation"] = "Eviction"
    pods_ready: PodsReady = PodsReady()
    job_overrides: Overrides = DEFAULT
    kinds: frozenset[str] | None = None
    """Kinds of jobs, as group/Kind, whose pods are watched for readiness; None: all."""


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
