"""Reconciles a job of any kind (KEP-369): reads the facts, decides, and carries out the decision.

A stored write updates the state at once, so the next reconciliation starts from it. If a
reconciliation fails partway, the next one does the rest; it first reads the objects that an
unanswered write may have changed. The Workload of the job is admitted in `admission.py`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from math import inf
from typing import Final, get_args

import msgspec
import structlog

from extender.api.reasons import FinishReason, JobReason, PodsReadyReason
from extender.api.wellknown import QUEUE_LABEL, WorkloadCondition
from extender.controllers.job_facts import JobFacts, JobMemory, JobOptions, Key
from extender.controllers.timing import CONCURRENT_WRITES, LATE, LOOK_AGAIN, UNNOTICED
from extender.controllers.workload import SettingWarnings, Workloads
from extender.jobs import fields
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
    PatchWorkload,
    ReleaseQuota,
    ReportRefusal,
    SetBlocked,
    SetPodsReady,
    SetReclaimable,
    StartJob,
    StatusChange,
    StopJob,
    WorkloadChange,
    delete,
    is_ready,
    release_limits,
    unreadable_release,
)
from extender.jobs.decide import decide
from extender.jobs.job import ChildChange, Step
from extender.jobs.kinds.batch_job import BatchJob
from extender.kube.decode import UNREADABLE
from extender.kube.errors import ApiError, NotFoundError, RefusedError, UnavailableError
from extender.kube.queues import JobWriter
from extender.kube.queues import objects as path_of
from extender.kube.recorder import Event, ObjectRef
from extender.kube.reflector import Identity
from extender.queueing import lifecycle, rules
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import LONGEST_SECONDS, Grant
from extender.state.queue import events
from extender.state.queue.records import JobObject, WorkloadInfo
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.telemetry.queue_metrics import JobMetrics

_log = structlog.get_logger(__name__)

_MAKERS: Final = ("batch/CronJob", "ray.io/RayService")
"""Controllers that make jobs and never start or stop one."""


GRANTED_SECONDS_EACH: Final = 0.1
"""A grant lasts one minute, and this many seconds more for each pod that the group needs:
kube-controller-manager creates 20 pods a second."""


class UndecidedError(ApiError):
    """A decision about a job failed: the job is retried like one whose write failed."""


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
        self._record = record
        self._clock = clock
        self._options = options
        self._workloads, self._writer = workloads, writer
        self._facts = JobFacts(self._view, options, clock=clock)
        self._unsure: dict[Key, set[str]] = {}
        """The names of objects with an unanswered write, by job."""
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)
        """For the steps of all jobs: without a bound other writes would wait behind them."""
        kinds = options.integrations.values()
        self._known = {f"{each.group}/{each.kind}" for each in kinds if each.child is None}
        self._warnings = SettingWarnings(rules.unreadable, unreadable_release)

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Carry out the actions due for a job. Raises ApiError, also where the decision fails."""
        await self._make_sure(key)
        await self._read_child(key)
        objects = self._view.unit(key)
        if not objects:
            self._end_set_aside(key)
            self._facts.forget(key)
            self._warnings.forget(key)
            return None
        own = self._facts.workloads(objects)
        watched = self._options.manage_without_queue_name or any(o.queue_name for o in objects)
        if not own and not watched:  # without a workload nothing else reads it
            for each in objects:  # the watch does not show its end
                self._queues.apply(events.JobDeleted(each))
            return None
        if self._options.integrations[key[0]].parts is not None:
            return await self._reconcile_services(objects[0])
        with self._judging(objects[0]):
            job, found = self._facts.job(objects, own)
            context = self._facts.context(found, job, own)
            self._await_operator(found, has_stopped=context.has_stopped)
            actions = decide(job, own, context)
        return await self._do(found, actions, own)

    async def _reconcile_services(self, found: JobObject) -> float | None:
        """Carry out the actions due for each service of an object, one after the other.

        Raises ApiError, as of a job.
        """
        with self._judging(found):
            services = self._facts.services(found)
        self._end_set_aside(found.unit)
        pauses, errors = list[float](), list[ApiError]()
        for service in services:
            if self._view.job_of(found.meta.uid, found.meta.namespace) is not found:
                return None  # its change is looked at next
            one = replace(found, group=service.workload_name())
            self._facts.memory(found.unit).services.add(one.unit)
            try:
                with self._judging(one):
                    own = self._facts.look_at(service, found)
                    actions = decide(service, own, self._facts.context(one, service, own))
                pauses.append(await self._do(one, actions, own) or inf)
            except ApiError as error:
                errors.append(error)
            await asyncio.sleep(0)  # a decision may have nothing to write
        await self._carry_out(found, delete(self._facts.left_over(found, services)))
        if errors:
            raise errors[0]
        pause = min(pauses, default=inf)
        return None if pause == inf else pause

    async def _do(
        self, found: JobObject, actions: Actions, own: Sequence[WorkloadInfo]
    ) -> float | None:
        """Carry out the actions for a job; return when to look again. Raises ApiError."""
        memory = self._facts.memory(found.unit)
        self._end_set_aside(found.unit)
        if own:
            self._report_settings(found, own)
        due, pause = self._due(found, actions)
        await self._carry_out(found, due)
        waits = self._operator_wait(memory, own)
        left = memory.wait_left(self._clock.monotonic())
        pauses = filter(None, (pause, waits, left, memory.start_in))
        return min(pauses, default=None)

    def _report_settings(self, found: JobObject, own: Sequence[WorkloadInfo]) -> None:
        """Record one Event about settings that cannot be read, and one about limited ones."""
        view, options = self._view, self._options
        ruled, overrides = rules.ruled_for(own[0], view, options.admission)
        release = self._facts.release_quota(self._facts.queue(found))
        limited = (
            *rules.limits(found.meta, ruled, overrides),
            *release_limits(found.meta, release, overrides),
        )
        for reason, said in self._warnings.news(found.unit, found.meta, limited):
            self._report(found, Note(reason, said, warning=True))

    @contextmanager
    def _judging(self, found: JobObject) -> Iterator[None]:
        """Set a job aside whose decision fails in the body. Raises UndecidedError then."""
        try:
            yield
        except Exception as error:  # an external integration, or unexpected data
            self._set_aside(found, error)
            raise UndecidedError(repr(error)) from error

    def _await_operator(self, found: JobObject, *, has_stopped: bool) -> None:
        """Record an Event about a job whose operator does not notice its stop."""
        memory, now = self._facts.memory(found.unit), self._clock.monotonic()
        if has_stopped:
            memory.unnoticed = None
            return
        if memory.unnoticed is None:
            memory.unnoticed = now
        if now - memory.unnoticed >= UNNOTICED:
            said = (
                "It is suspended, and its operator has not reported that it is: it is not started, "
                "and keeps the quota that it has, until the status says so"
            )
            self._report(found, Note(JobReason.STOP_UNNOTICED, said, warning=True))
            memory.unnoticed = inf  # it is said once

    def _operator_wait(self, memory: JobMemory, own: Sequence[WorkloadInfo]) -> float | None:
        """Return when to look again at a job whose operator has not noticed its stop."""
        if memory.unnoticed is None:
            return None
        if any(map(self._options.pod_groups.has_pods, own)):
            return LOOK_AGAIN  # the end of a pod is no change of the job
        left = memory.unnoticed + UNNOTICED - self._clock.monotonic()
        return None if left == inf else max(LOOK_AGAIN, left)

    def _set_aside(self, found: JobObject, error: Exception) -> None:
        """Set a job aside whose decision failed, and report it."""
        if not isinstance(error, UNREADABLE):
            FAULTS.report("job", error, key=found.unit)
        of, meta = self._options.integrations[found.kind], found.meta
        version = str(meta.version)
        which = Identity(meta.name, meta.namespace, meta.uid, version, of.api_version, of.kind)
        self._facts.memory(found.unit).set_aside = which.key
        self._options.aside.put(found.kind, which, f"it cannot be judged: {error!r}")

    def _end_set_aside(self, key: tuple[str, str]) -> None:
        memory = self._facts.memory(key)
        if memory.set_aside:
            self._options.aside.drop(key[0], memory.set_aside)
        memory.set_aside = ""

    async def _carry_out(self, found: JobObject, actions: Actions) -> None:
        refused: RefusedError | None = None
        left = deque(joined(actions))
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
                for each in together:
                    self._report(found, each.note)
                if _sets_suspend(together[0]):
                    now, suspend = self._clock.monotonic(), isinstance(together[0], StopJob)
                    self._facts.memory(found.unit).wrote_suspend(now, suspend=suspend)
        if refused is not None:
            raise refused

    def _due(self, found: JobObject, actions: Actions) -> tuple[Actions, float | None]:
        """Return the actions to carry out now, and in how many seconds others are due."""
        memory, now = self._facts.memory(found.unit), self._clock.monotonic()
        if not any(map(_is_loss, actions)):
            memory.complete()
        due, pauses = list[Action](), list[float]()
        for each in actions:
            if isinstance(each, AwaitPods):
                pause = LOOK_AGAIN
            else:
                pause = memory.missing(now) if _is_loss(each) else self._contested(found, each)
            if pause:
                pauses.append(pause)
            if not pause or isinstance(each, AwaitPods):
                due.append(each)
        return tuple(due), min(pauses, default=None)

    def _contested(self, found: JobObject, action: Action) -> float:
        """Return for how many seconds a start or a stop is left to another writer."""
        is_composed = self._options.integrations[found.kind].compose is not None
        if not _sets_suspend(action) or is_composed or self._options.manage_without_queue_name:
            return 0.0  # where all jobs are managed, no writer can get round the queue
        owner, suspend = found.owner, isinstance(action, StopJob)
        is_foreign = owner is not None and owner.group_kind not in (*self._known, *_MAKERS)
        memory, now = self._facts.memory(found.unit), self._clock.monotonic()
        pause = memory.contest(now, suspend=suspend, is_foreign=is_foreign)
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

    def pods_ready(self, workload: WorkloadInfo) -> bool:
        """Return whether the pods of a workload's job are ready, by the state of the job."""
        namespace = workload.meta.namespace
        owners = (self._view.job_of(owner.uid, namespace) for owner in workload.owners)
        first = next((job for job in owners if job is not None), None)
        if first is None:
            return False
        try:
            job, _ = self._facts.job(self._view.unit(first.unit), (workload,))
            condition = workload.condition(WorkloadCondition.PODS_READY)
            return is_ready(job, condition, self._facts.memory(first.unit).progress)
        except Exception as error:  # noqa: BLE001 - as in a decision
            self._set_aside(first, error)
            return False

    def _report(self, of: JobObject, note: Note | None) -> None:
        if note is None:
            return
        kind, meta = self._options.integrations[of.kind], of.meta
        about = ObjectRef(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid)
        _log.debug("job", job=meta.key, reason=note.reason, message=note.message)
        occasion = note.message if note.warning else str(meta.version)
        said = about, note.reason, note.message, note.reason
        self._record(Event(*said, warning=note.warning, occasion=occasion))

    # -- the actions

    async def _act(self, together: Actions, of: JobObject) -> None:
        """Carry out one action, or several changes of a workload's status in a single write.

        Raises ApiError.
        """
        action = together[0]
        match action:
            case CreateWorkload():
                await self._workloads.create(action.object)
            case MakePodGroup():
                await self._make_pod_group(action)
            case DropGrant():
                with suppress(NotFoundError):
                    await self._writer.drop_grant(*action.group.split("/", 1))
            case StartJob():
                await self._change_children(action.children, of)
                await self.take(action.steps, of)
            case StopJob() | FinalizeJob():
                await self.take(action.steps, of)
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
            case PatchWorkload():
                await self._workloads.patch(workload, action.change)
            case DropFinalizer():
                await self._workloads.drop_finalizer(workload)
            case DeleteWorkload():
                await self._workloads.delete(workload)
            case _:
                after = workload
                for each in together:
                    if isinstance(each, _IN_ONE_WRITE):
                        after = _after(after, each, self._clock.wall())
                await self._workloads.write_status(workload, after)

    async def _make_sure(self, key: tuple[str, str]) -> None:
        """Read the objects of a job that have an unanswered write. Raises ApiError."""
        if key not in self._unsure:
            return
        for known in self._view.unit(key):
            if known.meta.name in self._unsure[key]:
                path = f"{self._collection(known)}/{known.meta.name}"
                try:
                    stored = await self._writer.read(path, kind=known.kind)
                except NotFoundError:
                    self._queues.apply(events.JobDeleted(known, for_good=True))
                else:
                    self._queues.apply(events.JobApplied(stored))
        del self._unsure[key]

    async def _read_child(self, key: Key) -> None:
        """Read the child of a job whose kind has one. Raises ApiError.

        No watch follows it: the status of the job changes with that of its child.
        """
        kind = self._options.integrations[key[0]].child
        if kind is None:
            return
        for of in self._view.unit(key):
            where = path_of(kind.group, kind.version, kind.plural, namespace=of.meta.namespace)
            child: bytes | None = None
            with suppress(NotFoundError):
                child = await self._writer.raw(f"{where}/{of.meta.name}")
            owned = child is not None and _is_owned(msgspec.json.decode(child), of.meta.uid)
            self._facts.memory(key).child = child if owned else None

    async def take(self, steps: Sequence[Step], of: JobObject) -> None:
        """Write the steps to start, stop or clean up a job. Raises ApiError.

        Steps of one object are written in order. Several objects of one job, such as a group of
        pods, are written at the same time; the first error is raised when all writes have ended.
        One that fails keeps no other back, and after as many errors as writes at a time no more
        is written.
        """
        by_object, errors = dict[str, list[Step]](), list[Exception]()
        for step in steps:
            by_object.setdefault(step.member, []).append(step)
        left = iter(by_object.values())

        async def take_next() -> None:
            for of_one in left:
                try:
                    for step in of_one:
                        await self._take(step, of)
                except Exception as error:  # noqa: BLE001 - raised when the other writes have ended
                    errors.append(error)
                if len(errors) >= CONCURRENT_WRITES:
                    return

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(CONCURRENT_WRITES, len(by_object))):
                tasks.create_task(take_next())
        if errors:
            raise errors[0]

    async def _take(self, step: Step, of: JobObject) -> None:
        name = step.member or of.meta.name
        path = f"{self._collection(of)}/{name}"
        try:
            async with self._slots:
                if step.delete:
                    await self._writer.delete(path, step.patch)
                    return
                where = f"{path}/{step.subresource}" if step.subresource else path
                stored = await self._writer.patch(where, step.patch, kind=of.kind)
        except NotFoundError:
            return  # the watch will show it
        except UnavailableError as error:
            if not error.is_unsent:
                self._unsure.setdefault(of.unit, set()).add(name)
            raise
        self._queues.apply(events.JobApplied(stored))

    async def _change_children(self, changes: Sequence[ChildChange], of: JobObject) -> None:
        """Bring suspended child Jobs of a job in line with its templates. Raises ApiError."""
        for each in changes:
            path = f"{path_of('batch', 'v1', 'jobs', namespace=of.meta.namespace)}/{each.name}"
            try:
                child = BatchJob(msgspec.json.decode(await self._writer.raw(path)))
                if child.finished() or not _is_owned(child.object, each.owner or of.meta.uid):
                    continue
                if not child.is_suspended():
                    raise UndecidedError(f"its Job {each.name} is not suspended yet")
                for step in child.follow_steps(each.before, each.after):
                    where = f"{path}/{step.subresource}" if step.subresource else path
                    await self._writer.merge(where, step.patch)
            except NotFoundError:
                continue  # it is made from the templates as they are then

    def _collection(self, of: JobObject) -> str:
        """Return the API path of the objects of a job."""
        found = self._options.integrations[of.kind]
        return path_of(found.group, found.version, found.plural, namespace=of.meta.namespace)

    async def _make_pod_group(self, action: MakePodGroup) -> None:
        """Write a PodGroup with the room found for it."""
        found = self._options.pod_groups.rooms(action.room_of) if action.room_of else None
        grant = None
        if found:
            rooms = {node: dict(amounts) for node, amounts in found.items()}
            seconds = LATE + action.min_member * GRANTED_SECONDS_EACH
            grant = Grant(rooms, self._clock.wall() + min(seconds, LONGEST_SECONDS / 2))
        await self._writer.make_pod_group(
            action.namespace,
            action.name,
            min_member=action.min_member,
            owners=action.owners,
            done=action.done,
            grant=grant,
            domains=action.domains,
        )
        size = action.min_member, action.done
        self._options.pod_groups.wrote(f"{action.namespace}/{action.name}", size, action.domains)


def _instead(action: Action, error: RefusedError) -> Actions:
    """Return what is done about a start that the API server will never accept.

    That a field is immutable is about the object's state now, which may be another one later.
    """
    if (
        not isinstance(action, StartJob)
        or error.status != HTTPStatus.UNPROCESSABLE_ENTITY
        or "field is immutable" in str(error)
    ):
        return ()
    return (replace(action.refused, message=str(error)),)


def _is_owned(source: fields.Object, uid: str) -> bool:
    owners = fields.objects(source, "metadata", "ownerReferences")
    return any(owner.get("uid") == uid for owner in owners)


def _is_loss(action: Action) -> bool:
    return isinstance(action, SetPodsReady) and action.reason == PodsReadyReason.WAIT_FOR_RECOVERY


def _sets_suspend(action: Action) -> bool:
    """Return whether an action starts or stops a job; the rest of a stop does neither."""
    return isinstance(action, StartJob | StopJob) and action.note is not None


def _after(workload: WorkloadInfo, action: StatusChange, now: float) -> WorkloadInfo:
    """Return a workload with the status that an action gives it."""
    match action:
        case FinishWorkload():
            return lifecycle.finished(workload, action.reason, action.message, now=now)
        case ReleaseQuota():
            after = lifecycle.released(workload, now, requeued=action.requeued)
            return replace(after, reclaimable=dict(action.reclaimable))
        case SetReclaimable():
            return replace(workload, reclaimable=dict(action.counts))
        case SetPodsReady():
            new = lifecycle.condition(
                WorkloadCondition.PODS_READY, action.reason, action.message, holds=action.ready
            )
            return lifecycle.with_conditions(workload, now, new)
        case SetBlocked():
            return lifecycle.blocked(workload, action.reason, action.message, now=now)


_IN_ONE_WRITE: Final = get_args(StatusChange)


def joined(actions: Actions) -> Iterator[Actions]:
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
