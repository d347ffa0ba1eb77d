"""Carries out the decisions of `jobs.decide` about a job of any kind (KEP-369).

A stored write is in the state at once, so that the next reconciliation goes on from it. One that
fails half way leaves the rest to the next, which first reads what an unanswered write may have
changed.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final, get_args

import structlog

from extender.api.reasons import FinishReason, JobReason, PodsReadyReason
from extender.api.wellknown import IN_USE_FINALIZER, QUEUE_LABEL, WorkloadCondition
from extender.controllers.job_context import JobContexts, JobOptions
from extender.controllers.job_writer import JobGroups, JobObjects, UndecidedError
from extender.controllers.workload_writer import SettingWarnings, Workloads
from extender.jobs.actions import (
    Action,
    Actions,
    AwaitPods,
    CreateWorkload,
    DeleteWorkload,
    DropFinalizer,
    DropGrant,
    FinalizeJob,
    FinishWorkload,
    MakePodGroup,
    Note,
    ReleaseQuota,
    ReportRefusal,
    SetBlocked,
    SetPodsReady,
    SetReclaimable,
    StartJob,
    StatusChange,
    StopJob,
    UpdateMetadata,
    UpdateWorkload,
    WorkloadChange,
)
from extender.jobs.context import is_ready, release_limits, unreadable_release
from extender.jobs.decide import decide
from extender.kube.decode import UNREADABLE
from extender.kube.errors import RefusedError
from extender.kube.queues import JobWriter
from extender.kube.recorder import Event, ObjectRef
from extender.kube.set_aside import Identity
from extender.queueing import readiness, transitions
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.queue import events
from extender.state.queue.records import JobObject, WorkloadInfo
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.telemetry.queue_metrics import JobMetrics

Key = tuple[str, str]


_log = structlog.get_logger(__name__)

UNPROCESSABLE: Final = 422
"""The status of an answer that is the same each time: the object would be invalid."""
LOOK_AGAIN: Final = 1.0
"""Seconds before the next look at a job whose pods, or whose operator, are waited for."""

UNNOTICED_SECONDS: Final = 30.0
"""Seconds without a word of the operator before an Event says that its word is waited for."""
_CRON_JOB: Final = "batch/CronJob"
"""A controller that makes Jobs and never starts or stops one."""


class JobController:
    """Reconciles one job at a time; keys are those of `JobObject.unit`."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        writer: JobWriter,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        options: JobOptions,
    ) -> None:
        self._queues = queues
        self._view = queues.view()
        self._workloads = workloads
        self._objects = JobObjects(queues, writer, options.integrations)
        self._groups = JobGroups(writer, clock=clock, known=options.pod_groups)
        self._record = record
        self._clock = clock
        self._options = options
        self._contexts = JobContexts(self._view, options, self._groups, clock=clock)
        self._progress = self._contexts.progress
        self._aside = options.aside
        self._aside_as: dict[tuple[str, str], str] = {}
        """The `namespace/name` of the object under which a job is set aside, by job."""
        self._contests = Contests()
        self._known = {f"{each.group}/{each.kind}" for each in options.integrations.values()}
        self._unnoticed: dict[tuple[str, str], float] = {}
        """The time since which the operator of a job is waited for, by job."""
        self._warnings = SettingWarnings(readiness.unreadable, unreadable_release)

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Carry out the actions due for a job. Raises ApiError, also where the decision fails."""
        await self._objects.make_sure(key)
        await self._contexts.learn(key)
        objects = self._view.unit(key)
        if not objects:
            self._contexts.forget(key)
            self._warnings.forget(key)
            self._unnoticed.pop(key, None)
            self._contests.forget(key)
            self._end_set_aside(key)
            return None
        own = self._contexts.workloads(objects)
        if not own and not self._is_watched(objects):
            for each in objects:  # the watch does not show its end
                self._queues.apply(events.JobDeleted(each))
            return None
        found, actions = self._decide(objects, own)
        self._end_set_aside(key)
        if own:
            self._report_settings(found, own)
        due, pause = self._due(found, actions)
        await self._carry_out(found, due)
        waits = LOOK_AGAIN if key in self._unnoticed else None
        pauses = filter(None, (pause, waits, self._contexts.patience.left(key)))
        return min(pauses, default=None)

    def _report_settings(self, found: JobObject, own: Sequence[WorkloadInfo]) -> None:
        """Record one Event about settings that cannot be read, and one about limited ones."""
        view, options = self._view, self._options
        ruled, overrides = readiness.ruled_for(own[0], view, options.admission)
        release = self._contexts.release_quota(self._contexts.queue(found))
        limited = (
            *readiness.limits(found.meta, ruled, overrides),
            *release_limits(found.meta, release, overrides),
        )
        for reason, said in self._warnings.news(found.unit, found.meta, limited):
            self._report(found, Note(reason, said, warning=True))

    def _decide(
        self, objects: Sequence[JobObject], own: Sequence[WorkloadInfo]
    ) -> tuple[JobObject, Actions]:
        try:
            job, found = self._contexts.job(objects, own)
            context = self._contexts.context(found, job, own)
            self._await_operator(found, has_stopped=context.has_stopped)
            return found, decide(job, own, context)
        except Exception as error:  # an external integration, or unexpected data
            self._set_aside(objects[0], error)
            raise UndecidedError(repr(error)) from error

    def _await_operator(self, found: JobObject, *, has_stopped: bool) -> None:
        """Record an Event about a job whose operator does not notice its stop."""
        if has_stopped:
            self._unnoticed.pop(found.unit, None)
            return
        now = self._clock.monotonic()
        if now - self._unnoticed.setdefault(found.unit, now) >= UNNOTICED_SECONDS:
            said = (
                "It is suspended, and its operator has not reported that it stopped the pods: "
                "it is not started, and keeps its quota, until the status says so"
            )
            self._report(found, Note(JobReason.STOP_UNNOTICED, said, warning=True))
            self._unnoticed[found.unit] = inf  # it is said once

    def _set_aside(self, found: JobObject, error: Exception) -> None:
        """Set a job aside whose decision failed, and report it."""
        if not isinstance(error, UNREADABLE):
            FAULTS.report("job", error, key=found.unit)
        of, meta = self._options.integrations[found.kind], found.meta
        version = str(meta.version)
        which = Identity(meta.name, meta.namespace, meta.uid, version, of.api_version, of.kind)
        self._aside_as[found.unit] = which.key
        self._aside.put(found.kind, which, f"it cannot be judged: {error!r}")

    def _end_set_aside(self, key: tuple[str, str]) -> None:
        name = self._aside_as.pop(key, None)
        if name is not None:
            self._aside.drop(key[0], name)

    async def _carry_out(self, found: JobObject, actions: Actions) -> None:
        refused: RefusedError | None = None
        left = deque(_joined(actions))
        while left:
            together = left.popleft()
            try:
                await self._act(together, found)
            except RefusedError as error:  # an Event is what the user sees: there is no other error
                if len(together) > 1:  # alone, what the API server does not refuse is written
                    left.extendleft((each,) for each in reversed(together))
                    continue
                self._report(found, Note(JobReason.INVALID, str(error), warning=True))
                instead = _instead(together[0], error)
                left.extendleft((each,) for each in instead)
                if not instead and not isinstance(together[0], SetReclaimable):
                    raise
                refused = refused if instead else error  # other actions are still carried out
            else:
                self._report_all(found, together)
                if _sets_suspend(together[0]):
                    suspend = isinstance(together[0], StopJob)
                    self._contests.wrote(found.unit, self._clock.monotonic(), suspend=suspend)
        if refused is not None:
            raise refused

    def _report_all(self, found: JobObject, actions: Actions) -> None:
        for each in actions:
            if each.note is not None:
                self._report(found, each.note)

    def _due(self, found: JobObject, actions: Actions) -> tuple[Actions, float | None]:
        """Return the actions to carry out now, and in how many seconds others are due."""
        key = found.unit
        if not any(map(_is_loss, actions)):
            self._progress.complete(key)
        due, pauses = list[Action](), list[float]()
        for each in actions:
            pause = self._pause(key, each) or self._contested(found, each)
            if pause:
                pauses.append(pause)
            if not pause or isinstance(each, AwaitPods):
                due.append(each)
        return tuple(due), min(pauses, default=None)

    def _pause(self, key: tuple[str, str], action: Action) -> float:
        """Return for how many seconds a loss of pods is not reported."""
        now = self._clock.monotonic()
        if isinstance(action, AwaitPods):
            return LOOK_AGAIN
        if _is_loss(action):
            return self._progress.missed(key, now)
        return 0.0

    def _contested(self, found: JobObject, action: Action) -> float:
        """Return for how many seconds a start or a stop is left to another writer."""
        is_composed = self._options.integrations[found.kind].compose is not None
        if not _sets_suspend(action) or is_composed or self._options.manage_without_queue_name:
            return 0.0  # where all jobs are managed, no writer can get round the queue
        owner, suspend = found.owner, isinstance(action, StopJob)
        is_foreign = owner is not None and owner.group_kind not in (*self._known, _CRON_JOB)
        now = self._clock.monotonic()
        pause = self._contests.pause(found.unit, now, suspend=suspend, is_foreign=is_foreign)
        if pause:
            by = f"{owner.kind} {owner.name}" if owner and is_foreign else "another writer"
            runs = "runs without quota" if suspend else "does not run, and keeps its quota"
            what = (
                f"the queue leaves it alone, and the job {runs}"
                if is_foreign
                else ("the queue sets it again every ten seconds")
            )
            said = (
                f"The field suspend was set back, by {by} as it seems: {what}. Let one of the two "
                f"write it: remove the label {QUEUE_LABEL}, or stop the other"
            )
            self._report(found, Note(JobReason.SUSPEND_CONTESTED, said, warning=True))
        return pause

    async def learn(self, workload: WorkloadInfo) -> None:
        """Read the objects of a large job with pauses for the event loop.

        `pods_ready` then has few to read. The state may change in a pause.
        """
        first = self._first_of(workload)
        if first is not None:
            await self._contexts.learn(first.unit)

    def _first_of(self, workload: WorkloadInfo) -> JobObject | None:
        """Return the first known object of a workload's job."""
        namespace = workload.meta.namespace
        owners = (self._view.job_of(owner.uid, namespace) for owner in workload.owners)
        return next((job for job in owners if job is not None), None)

    def pods_ready(self, workload: WorkloadInfo) -> bool:
        """Return whether the pods of a workload's job are ready, by the state of the job."""
        first = self._first_of(workload)
        if first is None:
            return False
        try:
            job, _ = self._contexts.job(self._view.unit(first.unit), (workload,))
            condition = workload.condition(WorkloadCondition.PODS_READY)
            return is_ready(job, condition, self._progress.seen(first.unit))
        except Exception as error:  # noqa: BLE001 - as in a decision
            self._set_aside(first, error)
            return False

    def _is_watched(self, objects: Sequence[JobObject]) -> bool:
        """Return whether the watch shows a job: without a workload nothing else reads it."""
        everything = self._options.manage_without_queue_name
        return everything or any(each.queue_name for each in objects)

    # -- what actions do

    async def _act(self, together: Actions, of: JobObject) -> None:
        """Carry out an action, or changes of a workload's status that are one write."""
        action = together[0]
        match action:
            case CreateWorkload():
                await self._workloads.create(action.object)
            case MakePodGroup():
                await self._groups.make(action)
            case DropGrant():
                await self._groups.drop_grant(action)
            case StartJob():
                await self._objects.change_children(action.children, of)
                await self._objects.take(action.steps, of)
            case StopJob() | FinalizeJob():
                await self._objects.take(action.steps, of)
            case ReportRefusal() | AwaitPods():
                pass  # it is an Event and nothing else
            case _:
                await self._change(action, together)

    async def _change(self, action: WorkloadChange, together: Actions) -> None:
        # Read it now: an earlier action may have changed it.
        workload = self._view.workloads.get(action.key)
        if workload is None or workload.meta.uid != action.uid:
            return
        match action:
            case UpdateWorkload():
                await self._workloads.patch(workload, {"spec": action.spec})
            case UpdateMetadata():
                await self._workloads.patch(workload, {"metadata": action.metadata})
            case DeleteWorkload():
                await self._workloads.delete(workload)
            case DropFinalizer():
                await self._workloads.drop_finalizer(workload, IN_USE_FINALIZER)
            case _:
                after = workload
                for each in together:
                    if isinstance(each, _IN_ONE_WRITE):
                        after = _after(after, each, self._clock.wall())
                await self._workloads.write_status(workload, after)

    def _report(self, of: JobObject, note: Note) -> None:
        integration = self._options.integrations[of.kind]
        about = ObjectRef(
            integration.api_version,
            integration.kind,
            of.meta.namespace,
            of.meta.name,
            of.meta.uid,
        )
        _log.debug("job", job=of.meta.key, reason=note.reason, message=note.message)
        self._record(
            Event(
                about=about,
                reason=note.reason,
                note=note.message,
                action=note.reason,
                warning=note.warning,
                occasion=note.message if note.warning else str(of.meta.version),
            )
        )


def _after(workload: WorkloadInfo, action: StatusChange, now: float) -> WorkloadInfo:
    """Return a workload with the status that an action gives it."""
    match action:
        case FinishWorkload():
            return transitions.finished(workload, action.reason, action.message, now=now)
        case ReleaseQuota():
            after = transitions.released(workload, now, requeued=action.requeued)
            return replace(after, reclaimable=dict(action.reclaimable))
        case SetReclaimable():
            return replace(workload, reclaimable=dict(action.counts))
        case SetPodsReady():
            new = transitions.condition(
                WorkloadCondition.PODS_READY, action.reason, action.message, holds=action.ready
            )
            return transitions.with_conditions(workload, now, new)
        case SetBlocked():
            return transitions.blocked(workload, action.reason, action.message, now=now)


def _instead(action: Action, error: RefusedError) -> Actions:
    """Return what is done about a start that the API server will never accept.

    That a field is immutable is about the object's state now, which may be another one later.
    """
    if (
        not isinstance(action, StartJob)
        or error.status != UNPROCESSABLE
        or "field is immutable" in str(error)
    ):
        return ()
    return (replace(action.refused, message=str(error)),)


_IN_ONE_WRITE: Final = get_args(StatusChange)


def _joined(actions: Actions) -> Iterator[Actions]:
    """Yield the actions in order; those that are one write of a workload's status together."""
    together: list[Action] = []
    for each in actions:
        last = together[-1] if together else None
        joined = (
            isinstance(each, _IN_ONE_WRITE)
            and isinstance(last, _IN_ONE_WRITE)
            and (each.key, each.uid) == (last.key, last.uid)
        )
        if together and not joined:
            yield tuple(together)
            together = []
        together.append(each)
    if together:
        yield tuple(together)


def _is_loss(action: Action) -> bool:
    return isinstance(action, SetPodsReady) and action.reason == PodsReadyReason.WAIT_FOR_RECOVERY


def _sets_suspend(action: Action) -> bool:
    """Return whether an action starts or stops a job; the rest of a stop does neither."""
    return isinstance(action, StartJob | StopJob) and action.note is not None


WRITES: Final = 4
"""Equal writes of `suspend` in a row before another writer is noticed. One is enough where the job
belongs to a controller that the queue does not know."""
WITHIN_SECONDS: Final = 60.0
STAND_BACK_SECONDS: Final = 600.0
DAMPED_SECONDS: Final = 10.0


class Contests:
    """Notices another writer that keeps undoing the queue's writes of `suspend`.

    Two controllers that both go on would start and stop the job several times a second. The queue
    stands back from a job that belongs to a controller it does not know. From any other writer it
    only takes its time: a user who unsuspends a job again and again must not get round the queue.
    """

    def __init__(self) -> None:
        self._writes: dict[Key, tuple[bool, list[float]]] = {}
        """The value written last, and the times at which it was stored in a row, by job."""

    def wrote(self, key: Key, now: float, *, suspend: bool) -> None:
        """Note a write that was stored."""
        value, before = self._writes.get(key, (suspend, []))
        self._writes[key] = suspend, [*(before[1 - WRITES :] if value == suspend else ()), now]

    def pause(self, key: Key, now: float, *, suspend: bool, is_foreign: bool) -> float:
        """Return for how many seconds a write is left out because others undo it."""
        value, at = self._writes.get(key, (not suspend, []))
        if value != suspend:
            return 0.0
        recent = [each for each in at if at[-1] - each <= WITHIN_SECONDS]
        contested = len(recent) >= (1 if is_foreign else WRITES)
        pause = STAND_BACK_SECONDS if is_foreign else DAMPED_SECONDS
        return max(0.0, at[-1] + pause - now) if contested else 0.0

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._writes.pop(key, None)


_RAN: Final = frozenset((FinishReason.SUCCEEDED, FinishReason.FAILED))
"""Reasons of workloads whose Job ended, not of those that could not run."""


class JobCounts:
    """Counts reconciliations and ends of batch Jobs by completion mode (KEP-2214)."""

    def __init__(self, view: QueueView, metrics: JobMetrics, clock: Clock) -> None:
        self._view = view
        self._metrics = metrics
        self._clock = clock

    def counting(
        self, reconcile: Callable[[Key], Awaitable[float | None]]
    ) -> Callable[[Key], Awaitable[float | None]]:
        """Return a reconciler that is counted; an exception counts as an error."""

        async def counted(key: Key) -> float | None:
            mode = next((job.completion_mode for job in self._view.unit(key)), None)
            if mode is None:
                return await reconcile(key)
            began, failed = self._clock.monotonic(), False
            try:
                return await reconcile(key)
            except Exception:
                failed = True
                raise
            finally:
                self._metrics.synced(mode, self._clock.monotonic() - began, failed=failed)

        return counted

    def changed(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Count the end of a Job, where a written status of its workload shows it."""
        end = after.condition(WorkloadCondition.FINISHED)
        job = self._view.job_of(after.owner.uid, after.meta.namespace) if after.owner else None
        if end is None or job is None or before.finished or not after.finished:
            return
        if job.completion_mode is not None and end.reason in _RAN:
            self._metrics.finished(
                job.completion_mode, succeeded=end.reason == FinishReason.SUCCEEDED
            )
