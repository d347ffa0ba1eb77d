"""The phase of a group, and the counts of its pods.

| phase | when |
|---|---|
| Pending | fewer than minMember pods exist |
| PreScheduling | enough pods exist, none has a node |
| Scheduling | some have a node or wait with one, fewer than the group needs |
| Scheduled | as many as it needs have a node, not yet minMember of them run |
| Running | running and succeeded pods are minMember or more |
| Finished | minMember pods succeeded, and no pod of the group is left that has not ended |
| Failed | a pod failed, and the remaining and succeeded pods are fewer than minMember |

A succeeded pod counts as existing in every phase, unless its Job runs another pod in its place:
then only the next wave counts. Pods that the group's Jobs count as done exist in the same sense,
because they may have been deleted since. A group is not Finished before its Jobs are, because their
other pods may still come. A pod that is being deleted does not count, but the group is not Finished
before the pod is gone.

No phase is final. A Job controller replaces a failed pod a moment later: the group then returns
from Failed to the phase of its pods. A Finished group gets new pods when its name is used again.
One thing is remembered: while a group is Finished and none of its pods lives, its counts do not
fall, because a Job's time-to-live deletes the counted pods. A group whose last pods were deleted
before this process saw them succeed is Pending, like a group without any pods.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor
from typing import Final

from extender.api.wellknown import ConditionType, Phase
from extender.state.cluster.records import JobInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.view import ClusterView


@dataclass(frozen=True, slots=True)
class Jobs:
    """The counts of a group's pods, from its Jobs that have not ended."""

    done: int = 0
    """The number of pods that the Jobs count as done."""
    replaced: int = 0
    """The number of succeeded pods that were replaced by others: see `replaced_pods`."""


NO_JOBS: Final = Jobs()


@dataclass(frozen=True, slots=True)
class Progress:
    """The counts of a group's pods. Pods that are `done` may have been deleted since."""

    live: int
    """The pods that have neither ended nor are being deleted."""
    leaving: int
    """The pods that are being deleted and have not ended yet."""
    bound: int
    """The live pods that have a node."""
    running: int
    succeeded: int
    failed: int
    done: int

    @property
    def there(self) -> int:
        """The pods that count towards minMember."""
        return self.live + self.done


@dataclass(frozen=True, slots=True)
class Statement:
    """A condition without the time since which it holds."""

    type: ConditionType
    holds: bool
    reason: str
    message: str


def progress(pods: Iterable[PodInfo], *, jobs: Jobs = NO_JOBS) -> Progress:
    """Count a group's pods. Pods that succeeded and were not replaced are done.

    Pods that the group's Jobs count as done are done as well, though they may have been deleted. A
    Job's own count is later than that of the pods, so it never lowers the result.
    """
    live = leaving = bound = running = succeeded = failed = 0
    for pod in pods:
        if pod.finished:
            succeeded += pod.phase == "Succeeded"
            failed += pod.phase == "Failed"
        elif pod.terminating:
            leaving += 1
        else:
            live += 1
            bound += pod.node is not None
            running += pod.phase == "Running"
    done = max(succeeded - jobs.replaced, jobs.done)
    return Progress(live, leaving, bound, running, succeeded, failed, done)


def decide(
    pods: Sequence[PodInfo],
    *,
    need: int,
    jobs: Jobs | None,
    stored: PodGroupStatusInfo,
    now: float,
    waiting: bool = False,
) -> PodGroupStatusInfo:
    """Return the status, without conditions, of a group with these live and finished pods.

    `need` is minMember, `jobs` the counts of the group's Jobs that have not ended, if there are
    any, and `stored` the status so far. `waiting` says that pods wait with a node for siblings.
    """
    have = progress(pods, jobs=jobs or NO_JOBS)
    if _is_over(have, stored, need):
        return _as_it_ended(have, stored)
    phase = _phase(have, need, waiting=waiting)
    if jobs is not None and phase is Phase.FINISHED:
        phase = Phase.RUNNING  # the next pods of the Job are on their way
    started = stored.started
    if started is None and have.there >= need and have.there > 0:
        # A PodGroup may be created again while its pods run: the pods show when they started.
        bound = (pod.bound_at for pod in pods if pod.node is not None and not pod.finished)
        started = float(floor(min((now, *filter(None, bound)))))
    return PodGroupStatusInfo(
        phase=phase,
        scheduled=have.bound + have.succeeded,
        running=have.running,
        succeeded=have.succeeded,
        failed=have.failed,
        occupied_by=_owners(pods),
        started=started,
    )


def is_scheduled(have: Progress, need: int) -> bool:
    """Return whether as many pods as the group needs have, or had, a node."""
    return have.bound + have.done >= max(need, 1)


def runs(have: Progress, need: int) -> bool:
    """Return whether as many pods as the group needs run or are done."""
    return have.running + have.done >= max(need, 1)


def _phase(have: Progress, need: int, *, waiting: bool) -> Phase:
    if have.there < max(need, 1):
        return Phase.FAILED if have.failed else Phase.PENDING
    if have.succeeded >= need and not have.live and not have.leaving:
        return Phase.FINISHED
    if runs(have, need):
        return Phase.RUNNING
    if is_scheduled(have, need):
        return Phase.SCHEDULED
    if have.bound + have.done or waiting:
        return Phase.SCHEDULING
    return Phase.PRE_SCHEDULING


def _is_over(have: Progress, stored: PodGroupStatusInfo, need: int) -> bool:
    """Return whether a Finished group has no live pods, and counted pods have been deleted."""
    return (
        stored.phase == Phase.FINISHED
        and stored.succeeded >= need
        and not have.live
        and not have.leaving
        and (have.succeeded < stored.succeeded or have.failed < stored.failed)
    )


def _as_it_ended(have: Progress, stored: PodGroupStatusInfo) -> PodGroupStatusInfo:
    return PodGroupStatusInfo(
        phase=Phase.FINISHED,
        scheduled=max(stored.scheduled, have.succeeded),
        running=0,
        succeeded=max(stored.succeeded, have.succeeded),
        failed=max(stored.failed, have.failed),
        occupied_by=stored.occupied_by,
        started=stored.started,
    )


def _owners(pods: Iterable[PodInfo]) -> str:
    return ",".join(sorted({owner for pod in pods for owner in pod.owners}))


# --- Jobs that run more pods than they run at once ---------------------------------------------
#
# A succeeded pod counts as done only until another pod takes its place: the next wave may be as far
# from running as the first one was. This is worked out from the pods that exist, so that the result
# does not depend on the Job's own count, which comes later.


def replaced_pods(pods: Iterable[PodInfo], *, view: ClusterView) -> int:
    """Return the number of succeeded pods of a group that were replaced by other pods."""
    alive: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    for pod in pods:
        if pod.controller is None:
            continue
        if not pod.finished:
            alive[pod.controller] += 1
        elif pod.phase == "Succeeded":
            succeeded[pod.controller] += 1
    return sum(
        count - _left(job, count, alive=alive[uid])
        for uid, count in succeeded.items()
        if (job := view.job(uid)) is not None
    )


def _left(job: JobInfo, succeeded: int, *, alive: int) -> int:
    """Return the number of succeeded pods that have not been replaced, or never will be."""
    return min(succeeded, max(succeeded - job.more, job.begun - alive))
