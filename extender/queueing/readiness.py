"""How long a workload's pods may take to become ready (KEP-349), and whose are not yet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.api import wellknown as names
from extender.api.job_overrides import Overrides, overrides_of
from extender.api.values import LONGEST, ignored, limited, seconds, switch, whole
from extender.queueing import transitions as to
from extender.queueing.options import Options, PodsReady
from extender.state.queues.records import Meta, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot

_MOST_DOUBLED: Final = 64
"""Times that a back-off is doubled at most; no number of seconds is that large."""
_STORED: Final = 1.0
"""Times of conditions are stored in whole seconds, rounded down: it may have been later by this."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when pods have to be ready, in seconds since the epoch, and what they are late for."""

    at: float
    cause: str


def policy_of(workload: WorkloadInfo, snapshot: QueueSnapshot, options: Options) -> PodsReady:
    """Return what holds for a workload: its own word, its job's, its ClusterQueue's, or the rest's.

    What the workload and its job say counts as far as the ClusterQueue lets them choose. A value
    that cannot be read says nothing.
    """
    ruled, overrides = ruled_for(workload, snapshot, options)
    policy = ruled
    for meta in (*_jobs(workload, snapshot), workload.meta):
        policy = _bounded(policy, meta, (ruled, overrides))
    return policy


def ruled_for(
    workload: WorkloadInfo, snapshot: QueueSnapshot, options: Options
) -> tuple[PodsReady, Overrides]:
    """Return what the ClusterQueue of a workload says, and what of that its jobs may change."""
    name = snapshot.cluster_queue_of(workload)
    queue = snapshot.cluster_queues.get(name) if name else None
    if queue is None:
        return options.pods_ready, options.job_overrides
    overrides = overrides_of(queue.meta.annotations, options.job_overrides)
    return _changed(options.pods_ready, queue.meta), overrides


def limits(meta: Meta, ruled: PodsReady, overrides: Overrides) -> Iterator[str]:
    """Yield what is to be told of each setting of a job that goes beyond its ClusterQueue's."""
    for name, (field, wanted, said) in _wanted(meta).items():
        counts = overrides.limited(name, wanted, getattr(ruled, field))
        if counts != wanted:
            yield limited(name, said, _shown(name, counts))


def deadline(workload: WorkloadInfo, policy: PodsReady) -> Deadline | None:
    """Return until when the pods of a workload have to be ready; None where nobody waits.

    Never earlier than asked for, and at most a second later.
    """
    admitted, told = workload.condition(to.ADMITTED), workload.condition(to.PODS_READY)
    if not policy.enabled or not _should_run(workload) or admitted is None:
        return None
    if told is None or told.status == "True":
        return None  # where nothing was told yet, nobody has asked before
    if told.reason != to.WAIT_FOR_RECOVERY:
        since = max(admitted.transition, told.transition)
        return Deadline(since + _STORED + policy.timeout, to.WAIT_FOR_START)
    if policy.recovery_timeout is None:
        return None
    return Deadline(told.transition + _STORED + policy.recovery_timeout, to.WAIT_FOR_RECOVERY)


def _should_run(workload: WorkloadInfo) -> bool:
    has_quota = workload.admission is not None and workload.admitted
    return has_quota and workload.active and not workload.evicted


def back_off(times: int, policy: PodsReady) -> float:
    """Return for how many seconds a workload waits that is sent back for the n-th time."""
    doubled = min(times - 1, _MOST_DOUBLED)
    return min(policy.backoff_base * 2.0**doubled, policy.backoff_max, LONGEST)


def unready(snapshot: QueueSnapshot, options: Options) -> Iterator[str]:
    """Yield the workloads with quota for whose pods others have to wait."""
    for key in snapshot.holders():
        workload = snapshot.workloads[key]
        ready = workload.holds(to.PODS_READY) and not snapshot.is_assumed(key)
        if ready or not _is_told_of(workload, options):
            continue
        if is_awaited(workload, snapshot, options):
            yield key


def is_awaited(workload: WorkloadInfo, snapshot: QueueSnapshot, options: Options) -> bool:
    """Return whether others wait for the pods of a workload.

    A job that has itself waited for, where its ClusterQueue does not, concerns itself alone.
    """
    ruled, overrides = ruled_for(workload, snapshot, options)
    if not ruled.enabled and not overrides.frees(names.WAIT_FOR_PODS_READY):
        return False
    return policy_of(workload, snapshot, options).enabled


def _is_told_of(workload: WorkloadInfo, options: Options) -> bool:
    """Return whether there may be somebody who tells that its pods are ready."""
    if options.kinds is None or not workload.owners:
        return True
    return any(each.group_kind in options.kinds for each in workload.owners)


class Unready:
    """Those for whose pods others wait, as they are now; they are counted when somebody asks."""

    def __init__(self, snapshot: QueueSnapshot, options: Options) -> None:
        self._snapshot, self._options = snapshot, options
        self._before: int | None = None
        self._admitted = 0

    def look_again(self) -> None:
        """Count anew when somebody asks: the state has changed, and shows what was admitted."""
        self._before, self._admitted = None, 0

    def admit(self, workload: WorkloadInfo) -> None:
        """Count one more, where its pods are waited for."""
        if _is_told_of(workload, self._options):
            self._admitted += is_awaited(workload, self._snapshot, self._options)

    def holds(self, workload: WorkloadInfo) -> str:
        """Return what one waits for who has quota; nothing where it may go on."""
        if not policy_of(workload, self._snapshot, self._options).block_admission:
            return ""
        if self._before is None:
            self._before = sum(1 for _ in unready(self._snapshot, self._options))
        number = self._before + self._admitted
        pods = f"the pods of {number} admitted workload(s) are ready"
        return f"waiting until {pods}" if number else ""


def _jobs(workload: WorkloadInfo, snapshot: QueueSnapshot) -> Iterator[Meta]:
    """Yield the job of a workload, where it is known."""
    namespace = workload.meta.namespace
    jobs = (snapshot.job_of(owner.uid, namespace) for owner in workload.owners)
    job = next((each for each in jobs if each is not None), None)
    if job is not None:  # of several objects that are one job the first one speaks for all
        yield job.meta


def _changed(policy: PodsReady, meta: Meta) -> PodsReady:
    changes = {field: wanted for field, wanted, _ in _wanted(meta).values()}
    return replace(policy, **changes) if changes else policy


def _bounded(policy: PodsReady, meta: Meta, by: tuple[PodsReady, Overrides]) -> PodsReady:
    ruled, overrides = by
    changes = {
        field: overrides.limited(name, wanted, getattr(ruled, field))
        for name, (field, wanted, _) in _wanted(meta).items()
    }
    return replace(policy, **changes) if changes else policy


def _wanted(meta: Meta) -> dict[str, tuple[str, Any, str]]:
    """Return the settings that an object has, by name: the policy's field, its value, the text."""
    found: dict[str, tuple[str, Any, str]] = {}
    for name, (field, read, _) in _READERS.items():
        for said in _said(name, meta):
            value = read(said)
            if value is not None:
                found[name] = (field, None if value is _NEVER else value, said)
                break
    return found


def _shown(name: str, value: float | None) -> str:
    """Return the value of a setting as one would write it."""
    if value is None:
        return "without limit"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if name == names.PODS_READY_BACKOFF_LIMIT else f"{value:g}s"


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield what is to be told of the settings of an object that cannot be read."""
    for name, (_, read, wanted) in _READERS.items():
        for said in _said(name, meta):
            if read(said) is None:
                yield ignored(name, said, wanted)


def _said(name: str, meta: Meta) -> Iterator[str]:
    """Yield what the annotation and the label of a name say; the annotation goes first."""
    for said in (meta.annotations.get(name), meta.labels.get(name)):
        if said is not None:
            yield said


_NEVER: Final = object()


def _positive(said: str) -> float | None:
    return seconds(said) or None


def _or_never(said: str) -> object:
    found = seconds(said)
    return _NEVER if found == 0 else found


_TIME: Final = "a duration such as 300, 90s or 5m"
_READERS: Final[dict[str, tuple[str, Callable[[str], object], str]]] = {
    names.WAIT_FOR_PODS_READY: ("enabled", switch, "true or false"),
    names.PODS_READY_TIMEOUT: ("timeout", _positive, f"{_TIME}, above 0"),
    names.PODS_READY_RECOVERY_TIMEOUT: ("recovery_timeout", _or_never, f"{_TIME}, or 0 for never"),
    names.PODS_READY_BACKOFF_LIMIT: ("backoff_limit", whole, "a whole number, 0 or more"),
    names.PODS_READY_BACKOFF_BASE: ("backoff_base", seconds, _TIME),
    names.PODS_READY_BACKOFF_MAX: ("backoff_max", seconds, _TIME),
    names.PODS_READY_BLOCK_ADMISSION: ("block_admission", switch, "true or false"),
}
"""By name: the field of the policy, how a value is read, and what it is to be."""
