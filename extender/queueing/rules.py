"""The settings of admission, and what a workload needs beside quota: room, and pods that get ready.

First the settings and the order of workloads, then which ClusterQueues need room and may preempt
for it, then the time that pods have to become ready (KEP-349), which a ClusterQueue, a job and a
workload may set for themselves, and the workloads whose pods are not.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from sys import float_info
from typing import Any, Final, Literal

from extender.api.reasons import EvictionReason, PodsReadyReason
from extender.api.values import (
    DEFAULT_OVERRIDES,
    LONGEST,
    Overrides,
    ignored,
    limited,
    overrides_of,
    seconds,
    switch,
    whole,
)
from extender.api.wellknown import (
    PODS_READY_BACKOFF_BASE,
    PODS_READY_BACKOFF_LIMIT,
    PODS_READY_BACKOFF_MAX,
    PODS_READY_BLOCK_ADMISSION,
    PODS_READY_RECOVERY_TIMEOUT,
    PODS_READY_TIMEOUT,
    PREEMPT_FOR_ROOM_ANNOTATION,
    REQUIRE_ROOM_ANNOTATION,
    WAIT_FOR_PODS_READY,
    WorkloadCondition,
)
from extender.room.nodes import NodeRoom
from extender.state.queue.records import ClusterQueueInfo, FlavorInfo, Meta, Order, WorkloadInfo
from extender.state.queue.view import QueueView

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
    provision: bool = False
    """True if an autoscaler is asked for nodes where room is required and there is none."""
    provision_timeout: float = 900.0
    aging: float = 300.0
    preempt_for_room: PreemptForRoom = "Never"
    resource_claims: ResourceClaims = "Refuse"
    requeuing_timestamp: Literal["Eviction", "Creation"] = "Eviction"
    pods_ready: PodsReady = PodsReady()
    job_overrides: Overrides = DEFAULT_OVERRIDES
    kinds: frozenset[str] | None = None
    """Kinds of jobs, as group/Kind, whose pods are watched for readiness; None: all."""


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
        anew = (EvictionReason.ADMISSION_CHECK, EvictionReason.NODES_TIMEOUT)
        if timed_out or evicted.reason in anew:
            return evicted.transition
    return workload.meta.created


def queue_order(workload: WorkloadInfo, options: AdmissionOptions) -> Order:
    """Return what the workloads of a ClusterQueue are sorted by."""
    time = queue_time(workload, options)
    return -workload.priority, time, workload.arrival, workload.meta.uid, workload.key


_PROVISION: Final = "provision"
"""The value of the annotation, in lower case, with which nodes are asked for."""
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
    nodes_can_come: Callable[[], bool] = lambda: False
    """Tells whether the cluster serves an API by which an autoscaler is asked for nodes."""

    def room_for(self, queue: ClusterQueueInfo | None) -> NodeRoom | None:
        """Return what finds room for workloads of a ClusterQueue; None: they need quota only."""
        if (
            self.room is None
            or queue is None
            or not requires_room(queue, self.options, self.flavors)
        ):
            return None
        return self.room

    def room_with_quota(self, queue: ClusterQueueInfo | None) -> NodeRoom | None:
        """Return what finds the room that workloads need before they hold quota.

        Where a ClusterQueue has admission checks, room is asked for once these are ready: they may
        bring the nodes.
        """
        return None if queue is None or queue.admission_checks else self.room_for(queue)


def requires_room(
    queue: ClusterQueueInfo, options: AdmissionOptions, flavors: Mapping[str, FlavorInfo]
) -> bool:
    """Return whether workloads of a ClusterQueue need room on nodes as well as quota.

    They do in any case where one of its flavors has a topology: pods get domains with room.
    """
    if has_topology(queue, flavors):
        return True
    said = _said(queue.meta, REQUIRE_ROOM_ANNOTATION)
    found = True if said == _PROVISION else switch(said)
    return options.require_room if found is None else found


def provisions(queue: ClusterQueueInfo, options: AdmissionOptions) -> bool:
    """Return whether workloads of a ClusterQueue that lack room hold quota and ask for nodes."""
    said = _said(queue.meta, REQUIRE_ROOM_ANNOTATION)
    if said == _PROVISION:
        return True
    return options.provision and switch(said) is None


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


def unreadable_room(meta: Meta) -> Iterator[str]:
    """Yield a warning about each of a ClusterQueue's annotations on room that cannot be read."""
    text = _said(meta, REQUIRE_ROOM_ANNOTATION)
    if text and text != _PROVISION and switch(text) is None:
        yield ignored(REQUIRE_ROOM_ANNOTATION, text, "true, false or Provision")
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


# -- pods become ready in time

STORED_SECONDS: Final = 1.0
"""Conditions store whole seconds, rounded down: the actual time may be this much later."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time when pods have to be ready, since the epoch, and the cause of an eviction then."""

    at: float
    cause: str


def policy_of(workload: WorkloadInfo, view: QueueView, options: AdmissionOptions) -> PodsReady:
    """Return the policy of a workload: its settings, its job's, its ClusterQueue's, the defaults.

    Settings of the workload and its job count as far as the ClusterQueue allows. A value that
    cannot be read is ignored.
    """
    ruled, overrides = ruled_for(workload, view, options)
    policy = ruled
    for meta in (*_jobs(workload, view), workload.meta):
        changes = {
            attribute: overrides.limited(name, wanted, getattr(ruled, attribute))
            for name, (attribute, wanted, _) in _wanted(meta).items()
        }
        policy = replace(policy, **changes) if changes else policy
    return policy


def ruled_for(
    workload: WorkloadInfo, view: QueueView, options: AdmissionOptions
) -> tuple[PodsReady, Overrides]:
    """Return the policy of a workload's ClusterQueue, and what of it jobs may change."""
    name = view.cluster_queue_of(workload)
    queue = view.cluster_queues.get(name) if name else None
    if queue is None:
        return options.pods_ready, options.job_overrides
    overrides = overrides_of(queue.meta.annotations, options.job_overrides)
    changes = {attribute: wanted for attribute, wanted, _ in _wanted(queue.meta).values()}
    return replace(options.pods_ready, **changes) if changes else options.pods_ready, overrides


def limits(meta: Meta, ruled: PodsReady, overrides: Overrides) -> Iterator[str]:
    """Yield a warning for each setting of a job that exceeds its ClusterQueue's limit."""
    for name, (attribute, wanted, value_text) in _wanted(meta).items():
        counts = overrides.limited(name, wanted, getattr(ruled, attribute))
        if counts != wanted:
            yield limited(name, value_text, _shown(name, counts))


def deadline(workload: WorkloadInfo, policy: PodsReady) -> Deadline | None:
    """Return when the pods of a workload have to be ready; None where there is no deadline.

    It is never too early, and at most a second too late.
    """
    admitted = workload.condition(WorkloadCondition.ADMITTED)
    ready = workload.condition(WorkloadCondition.PODS_READY)
    runs = workload.admission is not None and workload.admitted and not workload.evicted
    if not policy.enabled or not runs or not workload.active or admitted is None:
        return None
    if ready is None or ready.status == "True":
        return None  # without the condition no deadline was set at the admission
    if ready.reason != PodsReadyReason.WAIT_FOR_RECOVERY:
        since = max(admitted.transition, ready.transition)
        return Deadline(since + STORED_SECONDS + policy.timeout, PodsReadyReason.WAIT_FOR_START)
    if policy.recovery_timeout is None:
        return None
    return Deadline(ready.transition + STORED_SECONDS + policy.recovery_timeout, ready.reason)


def back_off(times: int, policy: PodsReady) -> float:
    """Return the back-off in seconds of a workload that is requeued for the n-th time."""
    doubled = min(times - 1, float_info.max_exp - 1)  # no larger power is a float
    return min(policy.backoff_base * 2.0**doubled, policy.backoff_max, LONGEST)


def unready(view: QueueView, options: AdmissionOptions) -> Iterator[str]:
    """Yield the admitted workloads whose pods are not ready and block admission."""
    for key in view.holders():
        workload = view.workloads[key]
        if key in view.reserved_only:
            continue
        ready = workload.holds(WorkloadCondition.PODS_READY) and not view.is_assumed(key)
        if not ready and _is_observed(workload, options) and is_awaited(workload, view, options):
            yield key


def is_awaited(workload: WorkloadInfo, view: QueueView, options: AdmissionOptions) -> bool:
    """Return whether other workloads wait for the pods of a workload.

    A job that enables the deadline for itself, where its ClusterQueue has none, blocks no other.
    """
    ruled, overrides = ruled_for(workload, view, options)
    if not ruled.enabled and not overrides.frees(WAIT_FOR_PODS_READY):
        return False
    return policy_of(workload, view, options).enabled


def _is_observed(workload: WorkloadInfo, options: AdmissionOptions) -> bool:
    """Return whether its readiness is observed, which depends on the kind of its job."""
    if options.kinds is None or not workload.owners:
        return True
    return any(each.group_kind in options.kinds for each in workload.owners)


class Unready:
    """The workloads whose pods block admission; counted only when needed."""

    def __init__(self, view: QueueView, options: AdmissionOptions) -> None:
        self._view, self._options = view, options
        self._before: int | None = None
        self._admitted = 0

    def look_again(self) -> None:
        """Count again when needed: the state has changed, and shows what was admitted."""
        self._before, self._admitted = None, 0

    def admit(self, workload: WorkloadInfo) -> None:
        """Count an admitted workload, where its pods block admission."""
        if _is_observed(workload, self._options):
            self._admitted += is_awaited(workload, self._view, self._options)

    def holds(self, workload: WorkloadInfo) -> str:
        """Return what a workload with quota waits for; empty where it may be admitted."""
        if not policy_of(workload, self._view, self._options).block_admission:
            return ""
        if self._before is None:
            self._before = sum(1 for _ in unready(self._view, self._options))
        number = self._before + self._admitted
        pods = f"the pods of {number} admitted workload(s) are ready"
        return f"waiting until {pods}" if number else ""


def _jobs(workload: WorkloadInfo, view: QueueView) -> Iterator[Meta]:
    """Yield the job of a workload, where it is known."""
    namespace = workload.meta.namespace
    jobs = (view.job_of(owner.uid, namespace) for owner in workload.owners)
    job = next((each for each in jobs if each is not None), None)
    if job is not None:  # the first of several objects of one job counts for all
        yield job.meta


def _wanted(meta: Meta) -> dict[str, tuple[str, Any, str]]:
    """Return the settings that an object has, by name: the policy's field, its value, the text."""
    found: dict[str, tuple[str, Any, str]] = {}
    own = _READERS.keys()
    if own.isdisjoint(meta.annotations) and own.isdisjoint(meta.labels):
        return found  # as most objects
    for name, (attribute, read, _) in _READERS.items():
        for value_text in _values(name, meta):
            value = read(value_text)
            if value is not None:
                found[name] = (attribute, None if value is _NEVER else value, value_text)
                break
    return found


def _shown(name: str, value: float | None) -> str:
    """Return the value of a setting as a user would write it."""
    if value is None:
        return "without limit"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if name == PODS_READY_BACKOFF_LIMIT else f"{value:g}s"


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield a warning for each setting of an object that cannot be read."""
    for name, (_, read, wanted) in _READERS.items():
        for value_text in _values(name, meta):
            if read(value_text) is None:
                yield ignored(name, value_text, wanted)


def _values(name: str, meta: Meta) -> Iterator[str]:
    """Yield the values of a name: the annotation first, then the label."""
    for value_text in (meta.annotations.get(name), meta.labels.get(name)):
        if value_text is not None:
            yield value_text


_NEVER: Final = object()


_TIME: Final = "a duration such as 300, 90s or 5m"
_READERS: Final[dict[str, tuple[str, Callable[[str], object], str]]] = {
    WAIT_FOR_PODS_READY: ("enabled", switch, "true or false"),
    PODS_READY_TIMEOUT: ("timeout", lambda x: seconds(x) or None, f"{_TIME}, above 0"),
    PODS_READY_RECOVERY_TIMEOUT: (
        "recovery_timeout",
        lambda x: _NEVER if seconds(x) == 0 else seconds(x),
        f"{_TIME}, or 0 for never",
    ),
    PODS_READY_BACKOFF_LIMIT: ("backoff_limit", whole, "a whole number, 0 or more"),
    PODS_READY_BACKOFF_BASE: ("backoff_base", seconds, _TIME),
    PODS_READY_BACKOFF_MAX: ("backoff_max", seconds, _TIME),
    PODS_READY_BLOCK_ADMISSION: ("block_admission", switch, "true or false"),
}
"""The field of the policy, the reader of a value, and the valid values, by setting."""
