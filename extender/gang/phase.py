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
from math import ceil, floor
from typing import Final

from extender.api.reasons import EventReason, Reason
from extender.api.wellknown import ConditionType, Phase
from extender.gang.verdicts import GangOptions, OnPartial, OnPartialOverrides, Pending
from extender.state.cluster.records import JobInfo, PodGroupInfo, PodGroupStatusInfo, PodInfo
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
        occupied_by=",".join(sorted({owner for pod in pods for owner in pod.owners})),
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


# --- gangs that have started and are no longer whole ----------------------------------------------
#
# Members may be evicted or lost with their node, or one binding may fail for good after quorum,
# while there is no room for a replacement: the other members then hold their room and may be of no
# use.
#
# A node that another scheduler has filled refuses a member that is bound to it (`OutOfcpu`). If
# that happens at the start, the gang never was whole: it starts again as a whole, unless the
# replacement of the member finds room in time.
#
# An eviction cannot be taken back. The gang must therefore have started as a whole by this
# scheduler, with its PodGroup as it is now. The process that evicts must itself have seen the gang
# partial with the same pods for its time-out and, unless set otherwise, for the minute in which
# bindings are retried. The condition `Partial` says since when the gang is partial, and by its
# reason whether that has been dealt with: a restart repeats no Event, and waits anew before it
# evicts.


@dataclass(frozen=True, slots=True)
class Partial:
    """The condition of a gang, the pods to evict, and the seconds until the next look."""

    statement: Statement | None = None
    evict: tuple[PodInfo, ...] = ()
    look_again: float | None = None


def policy(
    annotation: str | None, default: OnPartial, overrides: OnPartialOverrides = "evict"
) -> OnPartial:
    """Return the policy of a PodGroup with this annotation; an unknown value is ignored."""
    asked = next((each for each in OnPartial if each == annotation), default)
    is_free = overrides == "any" or (overrides == "evict" and asked is not OnPartial.KEEP)
    return asked if is_free else default


@dataclass(frozen=True, slots=True)
class Watched:
    """The settings for partial gangs, and the seconds for which one has been seen unchanged."""

    default: OnPartial = OnPartial.KEEP
    seconds: float = 0.0
    overrides: OnPartialOverrides = "evict"
    why: Pending | None = None
    """The answer to what the group waits for, if it was worked out before: that may take long."""
    gives_up: str | None = None
    """The domain in which the group has waited for nodes for too long."""
    in_order: bool = False
    """True if some of its pods are made only when others are ready, so that it never starts."""


def was_whole(stored: PodGroupStatusInfo, *, generation: int) -> bool:
    """Return whether a group was whole with its PodGroup as it is now, and has kept some nodes.

    Its conditions say that it is whole, or partial, or waits for pods to replace lost ones.
    """
    whole, part = (stored.condition(k) for k in (ConditionType.SCHEDULED, ConditionType.PARTIAL))
    if whole is not None and whole.generation == generation and whole.status == "True":
        return True
    return (
        part is not None
        and part.generation == generation
        and (part.status == "True" or part.reason == Reason.NOT_ENOUGH_PODS)
    )


def refused_at_start(pods: Sequence[PodInfo]) -> bool:
    """Return whether a node refused a pod in the start in which the bound pods got their nodes.

    The refused pod was created before they had nodes, so it does not replace a pod that ran with
    them. It was refused after they were created, so it is not of an earlier start. The API server's
    times are whole seconds.
    """
    bound = [pod for pod in pods if pod.node is not None and not pod.finished]
    if not bound:
        return False
    made, placed = min(pod.created for pod in bound), min(pod.bound_at for pod in bound)
    return any(
        pod.refused_at is not None and pod.created <= placed and pod.refused_at >= made
        for pod in pods
    )


def decide_partial(  # noqa: PLR0913 - each is a fact of its own
    pod_group: PodGroupInfo,
    pods: Sequence[PodInfo],
    have: Progress,
    *,
    quorum: int,
    stored: PodGroupStatusInfo,
    now: float,
    options: GangOptions,
    watched: Watched,
) -> Partial:
    """Return what to do about a gang of which some live members have a node and others do not.

    `quorum` is the number of pods that it needs besides those that are done, `stored` its status so
    far. A gang that was whole and lacks pods gets a condition too: new pods may find no room.

    It must have started as a gang once. Either it was whole with its PodGroup as it is now; or its
    PodGroup was never changed, and all members have the same scheduler, which binds none without
    quorum: the pods alone show it then, so nothing is kept in the status for it.
    """
    text = f"{have.bound} of the {quorum} pods that it still needs have a node"
    before, changed = stored.condition(ConditionType.PARTIAL), pod_group.generation > 1
    whole = was_whole(stored, generation=pod_group.generation)
    then = policy(pod_group.on_partial, watched.default, watched.overrides)
    # A pod without an owner would be gone for good.
    on_nodes = (p for p in pods if p.node is not None and not p.terminating and not p.finished)
    evict = tuple(pod for pod in on_nodes if pod.owners)
    if then is OnPartial.RESTART and whole and have.bound < quorum and _were_there(evict, stored):
        return Partial(_holds(EventReason.EVICTED, text), evict=evict)
    if changed and whole and 0 < have.bound < quorum and have.bound >= have.live:
        return Partial(
            Statement(
                ConditionType.PARTIAL,
                holds=False,
                reason=Reason.NOT_ENOUGH_PODS,
                message=f"{text}, and it has no others",
            )
        )
    schedulers = {pod.scheduler for pod in pods if not pod.finished}
    begun = whole or (not changed and len(schedulers) == 1)
    if not begun or not 0 < have.bound < min(quorum, have.live):
        if before is None:
            return Partial()
        reason = EventReason.WHOLE if 0 < have.bound >= quorum else EventReason.NOT_SCHEDULED
        return Partial(Statement(ConditionType.PARTIAL, holds=False, reason=reason, message=""))
    if pod_group.on_partial != OnPartial.KEEP and refused_at_start(pods):
        then = options.on_refused if then is OnPartial.KEEP else then
    patience = options.timeout(pod_group.schedule_timeout)
    if then is not OnPartial.KEEP:
        patience = max(patience, options.evict_after)
    since = before.transition if before is not None and before.status == "True" else ceil(now)
    left = max(since + patience - now, patience - watched.seconds)
    if left > 0:
        return Partial(_holds(EventReason.PARTIALLY_SCHEDULED, text), look_again=left)
    evict = evict if then is not OnPartial.KEEP else ()
    reason = EventReason.EVICTED if evict else EventReason.PARTIAL_GANG
    return Partial(_holds(reason, text), evict=evict)


def _were_there(pods: Iterable[PodInfo], stored: PodGroupStatusInfo) -> bool:
    """Return whether pods are of a gang that was whole, and not of one that begins in its place."""
    whole = stored.condition(ConditionType.SCHEDULED)
    # Times of the API are whole seconds.
    return whole is not None and any(pod.created <= whole.transition + 1 for pod in pods)


def _holds(reason: EventReason, text: str) -> Statement:
    return Statement(ConditionType.PARTIAL, reason=reason, holds=True, message=text)
