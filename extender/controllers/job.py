"""Carries out what `jobs.decide` says of a job of any kind (KEP-369).

Whatever is written is known here as soon as it is stored, so that the next look goes on from it; a
look that fails half way leaves the rest to the next one, which asks first for what a write without
an answer may have changed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
import structlog

from extender.api.core_v1 import LabelSelector
from extender.api.job_overrides import overrides_of
from extender.api.selectors import matches_selector
from extender.api.wellknown import IN_USE_FINALIZER
from extender.controllers.ancestors import Ancestors
from extender.controllers.courses import Courses
from extender.controllers.job_groups import GroupOptions, GroupWriter, JobGroups
from extender.controllers.job_objects import JobObjects, ObjectWriter
from extender.controllers.members import Members
from extender.controllers.succeeded import Succeeded
from extender.controllers.unreadable import Once, Unreadable
from extender.controllers.workload_writer import Workloads
from extender.jobs import actions as do
from extender.jobs import reclaim
from extender.jobs.actions import Action, Actions, Note
from extender.jobs.context import Context, ReleaseQuota
from extender.jobs.decide import decide
from extender.jobs.fields import text
from extender.jobs.generic_job import GenericJob, is_composed
from extender.jobs.names import Word
from extender.jobs.readiness import is_ready
from extender.jobs.registry import Integration
from extender.jobs.workload import prebuilt_name
from extender.kube.decode import UNREADABLE
from extender.kube.errors import ApiError, InvalidError
from extender.kube.identity import Identity
from extender.kube.recorder import Event, ObjectRef
from extender.kube.set_aside import SetAside
from extender.queueing import readiness
from extender.queueing import transitions as to
from extender.queueing.options import Options
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.state.queues import events as ev
from extender.state.queues.records import ClusterQueueInfo, JobObject, WorkloadInfo
from extender.state.queues.store import Queues

_log = structlog.get_logger(__name__)


class UndecidedError(ApiError):
    """Nobody can tell what is to be done about a job: it waits as one whose write failed."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Which kinds there are, and which jobs are managed."""

    integrations: Mapping[str, Integration]
    namespace_selector: LabelSelector
    manage_without_queue_name: bool = False
    admission: Options = field(default_factory=Options)
    pod_groups: GroupOptions = field(default_factory=GroupOptions)
    release_quota: ReleaseQuota = "OnTerminating"


class Writer(ObjectWriter, GroupWriter, Protocol):
    """Writes jobs and their PodGroups; raises ApiError."""


class JobController:
    """Decides for one job at a time; keys are those of its `JobObject.unit`."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        writer: Writer,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        options: JobOptions,
    ) -> None:
        self._queues = queues
        self._snapshot = queues.snapshot()
        self._workloads = workloads
        self._objects = JobObjects(queues, writer, options.integrations)
        self._groups = JobGroups(writer, clock=clock, options=options.pod_groups)
        self._ancestors = Ancestors(
            self._snapshot,
            options.integrations,
            manages_all=options.manage_without_queue_name,
        )
        self._record = record
        self._clock = clock
        self._options = options
        self._members = Members(self._snapshot, options.integrations, Pacer(clock))
        self.aside = SetAside()
        """Where jobs are put about which nothing can be decided."""
        self._aside_as: dict[tuple[str, str], str] = {}
        """By job: `namespace/name` of the object as which it is set aside."""
        self._courses = Courses()
        self._succeeded = Succeeded()
        self._unreadable = Unreadable(readiness.unreadable, reclaim.unreadable)
        self._limited = Once()
        self._act: Mapping[type, Callable[[Any, JobObject], Any]] = {
            do.CreateWorkload: lambda a, _: self._workloads.create(a.object),
            do.UpdateWorkload: self._update,
            do.AdoptWorkload: self._adopt,
            do.DeleteWorkload: self._delete,
            do.FinishWorkload: self._finish,
            do.DropFinalizer: self._drop_finalizer,
            do.MakePodGroup: lambda a, _: self._groups.make(a),
            do.DropGrant: lambda a, _: self._groups.drop_grant(a),
            do.StartJob: self._steps,
            do.StopJob: self._steps,
            do.FinalizeJob: self._steps,
            do.ReleaseQuota: self._release,
            do.SetReclaimable: self._reclaim,
            do.SetPodsReady: self._ready,
        }

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Take the steps that are due for a job. Raises ApiError, also where it cannot decide."""
        await self._objects.make_sure(key)
        await self._members.learn(key)
        objects = self._snapshot.unit(key)
        if not objects:
            self._members.forget(key)
            self._courses.forget(key)
            self._succeeded.forget(key)
            self._unreadable.forget(key)
            self._limited.forget(key)
            self._take_back(key)
            return None
        keys = {each for o in objects for each in self._workloads_of(o)}
        keys.update(self._named_after(objects[0]))
        own = [self._snapshot.workloads[each] for each in sorted(keys)]
        if not own and not self._is_watched(objects):
            for each in objects:  # nobody would tell of its end
                self._queues.apply(ev.JobDeleted(each))
            return None
        job, found, actions = self._decide(objects, own)
        self._take_back(key)
        if own:
            self._report_settings(job, found, own)
        pause = self._pause(key, actions)
        if pause is not None:
            actions = tuple(each for each in actions if not _is_loss(each))
        await self._carry_out(job, found, actions)
        return pause

    def _named_after(self, found: JobObject) -> Collection[str]:
        """Return the workload of a group of pods whose owners may all have been replaced."""
        key = f"{found.meta.namespace}/{found.group}"
        named = self._snapshot.workloads.get(key) if found.group else None
        return (key,) if named is not None and named.is_of_pods else ()

    def _report_settings(
        self, job: GenericJob, found: JobObject, own: Sequence[WorkloadInfo]
    ) -> None:
        """Write once which settings of a job cannot be read, and which do not count in full."""
        odd = self._unreadable.news(found.unit, found.meta)
        if odd:
            self._tell(job, found, Note(Word.INVALID, odd, warning=True))
        view, options = self._snapshot, self._options
        ruled, overrides = readiness.ruled_for(own[0], view, options.admission)
        release = self._release_quota(self._queue(found))
        beyond = (
            *readiness.limits(found.meta, ruled, overrides),
            *reclaim.limits(found.meta, release, overrides),
        )
        told = self._limited.only_new(found.unit, beyond)
        if told:
            self._tell(job, found, Note(Word.OVERRIDE_LIMITED, told, warning=True))

    def _decide(
        self, objects: Sequence[JobObject], own: Sequence[WorkloadInfo]
    ) -> tuple[GenericJob, JobObject, Actions]:
        try:
            job = self._wrap(objects, own)
            found = self._first(objects, job)
            return job, found, decide(job, own, self._context(found, job, own))
        except Exception as error:  # a kind that others added, or data nobody thought of
            self._put_aside(objects[0], error)
            raise UndecidedError(repr(error)) from error  # it harms itself alone

    def _put_aside(self, found: JobObject, error: Exception) -> None:
        """Set a job aside about which nothing can be decided, and say so."""
        if not isinstance(error, UNREADABLE):
            FAULTS.report("job", error, key=found.unit)
        of, meta = self._options.integrations[found.kind], found.meta
        version = str(meta.version)
        which = Identity(meta.name, meta.namespace, meta.uid, version, of.api_version, of.kind)
        self._aside_as[found.unit] = which.key
        self.aside.put(found.kind, which, f"nothing can be decided about it: {error!r}")

    def _take_back(self, key: tuple[str, str]) -> None:
        name = self._aside_as.pop(key, None)
        if name is not None:
            self.aside.drop(key[0], name)

    async def _carry_out(self, job: GenericJob, found: JobObject, actions: Actions) -> None:
        refused: InvalidError | None = None
        for action in actions:
            try:
                await self._carry_out_one(job, found, action)
            except InvalidError as error:
                if not isinstance(action, do.SetReclaimable):
                    raise
                refused = error  # what is told of its pods beside it is another matter
        if refused is not None:
            raise refused

    async def _carry_out_one(self, job: GenericJob, found: JobObject, action: Action) -> None:
        act = self._act.get(type(action))
        if act is not None:
            try:
                await act(action, found)
            except InvalidError as error:  # nobody else would tell whoever made the job
                self._tell(job, found, Note(Word.INVALID, str(error), warning=True))
                raise
        if action.note is not None:
            self._tell(job, found, action.note)

    def _pause(self, key: tuple[str, str], actions: Actions) -> float | None:
        """Return for how long a loss of pods is not told of yet."""
        if not any(map(_is_loss, actions)):
            self._courses.complete(key)
            return None
        return self._courses.missed(key, self._clock.monotonic()) or None

    async def learn(self, workload: WorkloadInfo) -> None:
        """Read the objects of a workload's job with rests, if they are very many.

        `pods_ready` then has few to read. The state may have changed in a rest.
        """
        first = self._first_of(workload)
        if first is not None:
            await self._members.learn(first.unit)

    def _first_of(self, workload: WorkloadInfo) -> JobObject | None:
        """Return the first object of a workload's job that is known."""
        namespace = workload.meta.namespace
        owners = (self._snapshot.job_of(owner.uid, namespace) for owner in workload.owners)
        return next((job for job in owners if job is not None), None)

    def pods_ready(self, workload: WorkloadInfo) -> bool:
        """Return whether the pods of a workload's job are ready, by what is known of the job."""
        first = self._first_of(workload)
        if first is None:
            return False
        try:
            job = self._wrap(self._snapshot.unit(first.unit), (workload,))
            told = workload.condition(to.PODS_READY)
            return is_ready(job, told, self._courses.seen(first.unit))
        except Exception as error:  # noqa: BLE001 - as where it is decided about a job
            self._put_aside(first, error)
            return False

    def _is_watched(self, objects: Sequence[JobObject]) -> bool:
        """Return whether the watch shows a job: without a workload nobody else asks for it."""
        everything = self._options.manage_without_queue_name
        return everything or any(each.queue_name for each in objects)

    def _wrap(self, objects: Sequence[JobObject], own: Sequence[WorkloadInfo] = ()) -> GenericJob:
        integration = self._options.integrations[objects[0].kind]
        if not integration.compose:
            return integration.wrap(*(msgspec.json.decode(each.raw) for each in objects))
        job = integration.wrap_all(self._members.of(objects))
        current = next((each for each in own if not each.finished), None)
        if current is not None and is_composed(job):
            unit = objects[0].unit
            job.remember(self._succeeded.look(unit, current, job.succeeded()))
        return job

    def _first(self, objects: Sequence[JobObject], job: GenericJob) -> JobObject:
        """Return the object that Events of a job are about."""
        uid = text(job.object, "metadata", "uid")
        return next(each for each in objects if each.meta.uid == uid)

    def _context(self, found: JobObject, job: GenericJob, own: Sequence[WorkloadInfo]) -> Context:
        view, options = self._snapshot, self._options
        namespace = view.namespaces.get(found.meta.namespace)
        prebuilt = prebuilt_name(job.object)
        queue = self._queue(found)
        return Context(
            flavors=view.flavors,
            workload_priority_classes=view.workload_priority_classes,
            priority_classes=view.priority_classes,
            manage_without_queue_name=options.manage_without_queue_name,
            namespace_selected=namespace is not None
            and matches_selector(options.namespace_selector, namespace.labels),
            ancestor=self._ancestors.find(found),
            prebuilt=view.workloads.get(f"{found.meta.namespace}/{prebuilt}") if prebuilt else None,
            wait_for_pods_ready=any(
                readiness.policy_of(each, view, options.admission).enabled for each in own
            ),
            progress=self._courses.look(
                found.unit, job, has_quota=any(w.admitted and not w.evicted for w in own)
            ),
            is_taken=lambda name: _is_foreign(
                view.workloads.get(f"{found.meta.namespace}/{name}"), view.unit(found.unit)
            ),
            makes_pod_groups=options.pod_groups.makes_pod_groups,
            rooms=options.pod_groups.rooms,
            group_size=self._groups.size,
            is_granted=options.pod_groups.is_granted,
            release_quota=self._release_quota(queue),
            overrides=overrides_of(
                queue.meta.annotations if queue else {}, options.admission.job_overrides
            ),
        )

    def _queue(self, found: JobObject) -> ClusterQueueInfo | None:
        """Return the ClusterQueue that a job has quota from."""
        view = self._snapshot
        for key in self._workloads_of(found):
            admission = view.workloads[key].admission
            queue = view.cluster_queues.get(admission.cluster_queue) if admission else None
            if queue is not None:
                return queue
        return None

    def _release_quota(self, queue: ClusterQueueInfo | None) -> ReleaseQuota:
        """Return when quota is released, as a ClusterQueue says, or else the settings."""
        chosen = self._options.release_quota
        return reclaim.release_strategy(queue.meta.annotations, chosen) if queue else chosen

    def _workloads_of(self, job: JobObject) -> Collection[str]:
        return self._snapshot.workloads_of(job.meta.uid, job.meta.namespace)

    # -- what actions do

    def _workload(self, key: str, uid: str) -> WorkloadInfo | None:
        """Return a workload as it is now: an action before may have changed it."""
        found = self._snapshot.workloads.get(key)
        return found if found is not None and found.meta.uid == uid else None

    async def _update(self, action: do.UpdateWorkload, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            await self._workloads.patch(workload, {"spec": action.spec})

    async def _adopt(self, action: do.AdoptWorkload, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            await self._workloads.patch(workload, {"metadata": action.metadata})

    async def _delete(self, action: do.DeleteWorkload, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            await self._workloads.delete(workload)

    async def _drop_finalizer(self, action: do.DropFinalizer, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            await self._workloads.drop_finalizer(workload, IN_USE_FINALIZER)

    async def _finish(self, action: do.FinishWorkload, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            now = self._clock.wall()
            after = to.finished(workload, action.reason, action.message, now=now)
            await self._workloads.write_status(workload, after)

    async def _release(self, action: do.ReleaseQuota, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            after = to.released(workload, self._clock.wall(), requeued=action.requeued)
            after = replace(after, reclaimable=dict(action.reclaimable))
            await self._workloads.write_status(workload, after)

    async def _reclaim(self, action: do.SetReclaimable, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            after = replace(workload, reclaimable=dict(action.counts))
            await self._workloads.write_status(workload, after)

    async def _ready(self, action: do.SetPodsReady, _: JobObject) -> None:
        workload = self._workload(action.key, action.uid)
        if workload is not None:
            after = to.told(
                workload,
                to.PODS_READY,
                holds=action.ready,
                reason=action.reason,
                message=action.message,
                now=self._clock.wall(),
            )
            await self._workloads.write_status(workload, after)

    async def _steps(
        self, action: do.StartJob | do.StopJob | do.FinalizeJob, of: JobObject
    ) -> None:
        await self._objects.take(action.steps, of)

    def _tell(self, job: GenericJob, of: JobObject, note: Note) -> None:
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


def _is_foreign(workload: WorkloadInfo | None, objects: Sequence[JobObject]) -> bool:
    """Return whether a Workload is not that of a job, and keeps its name from it.

    That of an earlier group of pods with the same name goes by itself, unless it is held by
    somebody else's finalizer.
    """
    if workload is None:
        return False
    first = objects[0]
    if first.kind == "pod" and any(each.kind == "Pod" for each in workload.owners):
        others = set(workload.meta.finalizers) - {IN_USE_FINALIZER}
        return workload.meta.terminating and bool(others)
    uids = {each.meta.uid for each in objects}
    return not any(each.uid in uids for each in workload.owners)


def _is_loss(action: Action) -> bool:
    return isinstance(action, do.SetPodsReady) and action.reason == Word.WAIT_FOR_RECOVERY
