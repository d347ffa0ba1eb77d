"""The settings of admission, and what workloads of a ClusterQueue need beside quota."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from extender.api.reasons import EvictionReason
from extender.api.values import DEFAULT_OVERRIDES, Overrides, ignored, switch
from extender.api.wellknown import (
    PREEMPT_FOR_ROOM_ANNOTATION,
    REQUIRE_ROOM_ANNOTATION,
    WorkloadCondition,
)
from extender.room.nodes import NodeRoom
from extender.state.queue.records import ClusterQueueInfo, FlavorInfo, Meta, Order, WorkloadInfo

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
    job_overrides: Overrides = DEFAULT_OVERRIDES
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


_POLICIES: Final[Mapping[str, PreemptForRoom]] = {
    "never": "Never",
    "lowerpriority": "LowerPriority",
}
"""The policies by the annotation in lower case."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The rules about what a workload needs in addition to quota."""

    options: AdmissionOptions = field(default_factory=AdmissionOptions)
    room: NodeRoom | None = None
    """Knows the nodes; without it a workload needs quota only."""
    flavors: Mapping[str, FlavorInfo] = field(default_factory=dict)
    """The flavors by name. One with a topology is given only if pods have room in its domains."""

    def room_for(self, queue: ClusterQueueInfo | None) -> NodeRoom | None:
        """Return what finds room for workloads of a ClusterQueue; None: they need quota only."""
        if (
            self.room is None
            or queue is None
            or not requires_room(queue, self.options, self.flavors)
        ):
            return None
        return self.room


def requires_room(
    queue: ClusterQueueInfo, options: AdmissionOptions, flavors: Mapping[str, FlavorInfo]
) -> bool:
    """Return whether workloads of a ClusterQueue need room on nodes as well as quota.

    They do in any case where one of its flavors has a topology: pods get domains with room.
    """
    if has_topology(queue, flavors):
        return True
    found = switch(_said(queue.meta, REQUIRE_ROOM_ANNOTATION))
    return options.require_room if found is None else found


def has_topology(queue: ClusterQueueInfo, flavors: Mapping[str, FlavorInfo]) -> bool:
    """Return whether a flavor of a ClusterQueue has a topology."""
    return any(name in flavors and flavors[name].topology for name in queue.flavors)


def preempts_for_room(
    queue: ClusterQueueInfo, options: AdmissionOptions, flavors: Mapping[str, FlavorInfo]
) -> bool:
    """Return whether workloads of lower priority may be preempted where only room is lacking.

    Never where a flavor has a topology: victims are chosen without a look at domains.
    """
    if has_topology(queue, flavors):
        return False
    said = _said(queue.meta, PREEMPT_FOR_ROOM_ANNOTATION)
    policy = _POLICIES.get(said, options.preempt_for_room)
    return policy == "LowerPriority" and requires_room(queue, options, flavors)


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield a warning about each of a ClusterQueue's annotations on room that cannot be read."""
    text = _said(meta, REQUIRE_ROOM_ANNOTATION)
    if text and switch(text) is None:
        yield ignored(REQUIRE_ROOM_ANNOTATION, text, "true or false")
    text = meta.annotations.get(PREEMPT_FOR_ROOM_ANNOTATION, "").strip()
    if text and text.lower() not in _POLICIES:
        yield ignored(PREEMPT_FOR_ROOM_ANNOTATION, text, " or ".join(_POLICIES.values()))


def without_effect(queue: ClusterQueueInfo, flavors: Mapping[str, FlavorInfo]) -> Iterator[str]:
    """Yield a warning about each of a ClusterQueue's annotations that a topology overrules."""
    name = next((x for x in sorted(queue.flavors) if x in flavors and flavors[x].topology), None)
    if name is None:
        return
    why = f"has no effect: flavor {name} has a topology"
    if switch(_said(queue.meta, REQUIRE_ROOM_ANNOTATION)) is False:
        yield f"{REQUIRE_ROOM_ANNOTATION}=false {why}"
    if _POLICIES.get(_said(queue.meta, PREEMPT_FOR_ROOM_ANNOTATION)) == "LowerPriority":
        yield f"{PREEMPT_FOR_ROOM_ANNOTATION}=LowerPriority {why}"


def _said(meta: Meta, annotation: str) -> str:
    return meta.annotations.get(annotation, "").strip().lower()
