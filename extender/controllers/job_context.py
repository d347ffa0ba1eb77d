"""The facts that a decision about a job needs: the job out of its objects, and what it refers to.

All of it is read from the state, and from what this process remembers of the job.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from extender.api.core_v1 import LabelSelector
from extender.api.job_overrides import overrides_of
from extender.api.selectors import matches_selector
from extender.api.wellknown import IN_USE_FINALIZER
from extender.controllers.job_writer import JobGroups, PodGroups
from extender.jobs.context import Ancestor, Context, JobProgress, ReleaseQuota, release_strategy
from extender.jobs.fields import text
from extender.jobs.job import GenericJob
from extender.jobs.kinds.operated import OperatedJob
from extender.jobs.kinds.pod import PlainPod
from extender.jobs.registry import Integration
from extender.jobs.workload import prebuilt_name
from extender.kube.set_aside import ObjectsSetAside
from extender.queueing import readiness
from extender.queueing.options import AdmissionOptions
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.state.queue.records import ClusterQueueInfo, JobObject, OwnerRef, WorkloadInfo
from extender.state.queue.view import QueueView

Key = tuple[str, str]
"""The key of a job: `JobObject.unit`."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The kinds of jobs, and which jobs are managed."""

    integrations: Mapping[str, Integration]
    namespace_selector: LabelSelector
    pod_groups: PodGroups
    manage_without_queue_name: bool = False
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    release_quota: ReleaseQuota = "OnTerminating"
    aside: ObjectsSetAside = field(default_factory=ObjectsSetAside)
    """The list of objects that are set aside, to which jobs are added whose decision failed."""


class JobContexts:
    """Reads jobs and their contexts; keys are those of `JobObject.unit`."""

    def __init__(
        self, view: QueueView, options: JobOptions, groups: JobGroups, *, clock: Clock
    ) -> None:
        self._view, self._options, self._groups = view, options, groups
        self._ancestors = Ancestors(
            view, options.integrations, manages_all=options.manage_without_queue_name
        )
        self._members = Members(view, options.integrations, Pacer(clock))
        self._succeeded = Succeeded()
        self.progress = ProgressTable()
        self.patience = Patience(clock)
        self.learn = self._members.learn
        """Decodes the objects of a large job, with pauses."""

    def forget(self, key: tuple[str, str]) -> None:
        """Forget a job that is gone."""
        self._members.forget(key)
        self.progress.forget(key)
        self.patience.forget(key)
        self._succeeded.forget(key)

    def workloads(self, objects: Sequence[JobObject]) -> list[WorkloadInfo]:
        """Return the workloads of a job, also of a group of pods whose owners were all replaced."""
        keys = {key for each in objects for key in self._workloads_of(each)}
        first = objects[0]
        named = self._view.workloads.get(f"{first.meta.namespace}/{first.group}")
        if first.group and named is not None and named.is_of_pods:
            keys.add(named.key)
        return [self._view.workloads[each] for each in sorted(keys)]

    def job(
        self, objects: Sequence[JobObject], own: Sequence[WorkloadInfo]
    ) -> tuple[GenericJob, JobObject]:
        """Return a job, and the object that its Events are about.

        Raises whatever unexpected data, or an external integration, may raise.
        """
        integration = self._options.integrations[objects[0].kind]
        if not integration.compose:
            return integration.wrap(msgspec.json.decode(objects[0].raw)), objects[0]
        job = integration.wrap_all(self._members.decoded(objects))
        current = next((each for each in own if not each.finished), None)
        if current is not None and job.is_composed:
            unit = objects[0].unit
            done = self._succeeded.look(unit, current, job.succeeded())
            counts = (each.count for each in current.pod_sets if current.admission is not None)
            job.remember(done, sum(counts))
        uid = text(job.object, "metadata", "uid")
        return job, next(each for each in objects if each.meta.uid == uid)

    def context(self, found: JobObject, job: GenericJob, own: Sequence[WorkloadInfo]) -> Context:
        """Return the settings, and what a job refers to."""
        view, options = self._view, self._options
        namespace = view.namespaces.get(found.meta.namespace)
        prebuilt = prebuilt_name(job.object)
        queue = self.queue(found)
        stopped = self._has_stopped(job, own)
        overdue = self.patience.is_over(found.unit, job, has_stopped=stopped)
        return Context(
            overdue=overdue,
            pods_gone=overdue
            and (job.is_active() or not stopped)
            and not any(map(options.pod_groups.has_pods, own)),
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
            progress=self.progress.look(
                found.unit, job, has_quota=any(w.admitted and not w.evicted for w in own)
            ),
            is_taken=lambda name: _is_foreign(
                view.workloads.get(f"{found.meta.namespace}/{name}"), view.unit(found.unit)
            ),
            has_pods=options.pod_groups.has_pods,
            has_stopped=stopped,
            pod_groups={each.key: self._groups.state(each) for each in own},
            release_quota=self.release_quota(queue),
            overrides=overrides_of(
                queue.meta.annotations if queue else {}, options.admission.job_overrides
            ),
        )

    def _has_stopped(self, job: GenericJob, own: Sequence[WorkloadInfo]) -> bool:
        """Return whether a suspended job has no pods, by its status and by the pods that there are.

        A status that was written before the last start may say so too early.
        """
        if not job.is_suspended() or not isinstance(job, OperatedJob):
            return True
        groups = self._options.pod_groups
        return job.has_stopped() and not any(groups.has_pods(w, ending=False) for w in own)

    def queue(self, found: JobObject) -> ClusterQueueInfo | None:
        """Return the ClusterQueue that a job has quota from."""
        view = self._view
        for key in self._workloads_of(found):
            admission = view.workloads[key].admission
            queue = view.cluster_queues.get(admission.cluster_queue) if admission else None
            if queue is not None:
                return queue
        return None

    def release_quota(self, queue: ClusterQueueInfo | None) -> ReleaseQuota:
        """Return when quota is released: the ClusterQueue's annotation, or else the settings."""
        chosen = self._options.release_quota
        return release_strategy(queue.meta.annotations, chosen) if queue else chosen

    def _workloads_of(self, job: JobObject) -> Collection[str]:
        return self._view.workloads_of(job.meta.uid, job.meta.namespace)


def _is_foreign(workload: WorkloadInfo | None, objects: Sequence[JobObject]) -> bool:
    """Return whether a Workload belongs to another job and has taken the name.

    The Workload of an earlier group of pods with the same name disappears by itself, unless another
    finalizer holds it.
    """
    if workload is None:
        return False
    first = objects[0]
    if first.kind == "pod" and any(each.kind == "Pod" for each in workload.owners):
        others = set(workload.meta.finalizers) - {IN_USE_FINALIZER}
        return workload.meta.terminating and bool(others)
    uids = {each.meta.uid for each in objects}
    return not any(each.uid in uids for each in workload.owners)


_DEEPEST: Final = 10


class Ancestors:
    """Finds the queued job that a job is part of, and whose quota it shares.

    Users may write any ownerReferences into the objects that they create. So a reference counts
    only where the owner is in the same namespace, has the kind and the name of the reference, is of
    a kind whose controller makes such objects, and would give the object its name. An owner that
    has ended shares its quota no more.
    """

    def __init__(
        self,
        view: QueueView,
        integrations: Mapping[str, Integration],
        *,
        manages_all: bool,
    ) -> None:
        self._view = view
        self._integrations = integrations
        self._manages_all = manages_all

    def find(self, found: JobObject) -> Ancestor | None:
        """Return the job whose admission covers this one, None where it needs its own."""
        top: JobObject | None = None
        above = found
        for _ in range(_DEEPEST):
            parent = self._parent(above)
            if parent is None:
                break
            if parent.queue_name or self._manages_all:
                top = parent
            above = parent
        if top is None:
            return None
        keys = self._view.workloads_of(top.meta.uid, top.meta.namespace)
        own = map(self._view.workloads.get, keys)
        admitted = any(w is not None and w.admitted and not w.evicted for w in own)
        return Ancestor(f"{top.kind} {top.meta.name}", admitted=admitted)

    def _parent(self, child: JobObject) -> JobObject | None:
        if child.owner is None:
            return None
        parent = self._view.job_of(child.owner.uid, child.meta.namespace)
        if parent is None or not self._is_named(parent, child.owner):
            return None
        job = self._wrap(parent)
        if job is None or job.finished() is not None:
            return None
        return parent if job.makes(child.kind, child.meta.name) else None

    def _is_named(self, parent: JobObject, reference: OwnerRef) -> bool:
        """Return whether a reference has the kind and name of the object with its UID.

        The admission policy for such Jobs checks the kind and name of the reference.
        """
        of = self._integrations[parent.kind]
        named = reference.group_kind, reference.name
        return named == (f"{of.group}/{of.kind}", parent.meta.name)

    def _wrap(self, parent: JobObject) -> GenericJob | None:
        try:
            return self._integrations[parent.kind].wrap(msgspec.json.decode(parent.raw))
        except (msgspec.MsgspecError, RecursionError):
            return None
        except Exception as error:  # noqa: BLE001 - an error of an external integration harms its job alone
            FAULTS.report("job", error, key=parent.unit)
            return None


class Members:
    """Decoded objects of composed jobs; a changed object is decoded again.

    Decoding a thousand pods takes longer than other tasks may wait for the event loop. So `learn`
    decodes the objects of a job with pauses, and each is kept until it changes. A decision then
    decodes the few that changed meanwhile, and is about one state of the job.
    """

    def __init__(
        self, view: QueueView, integrations: Mapping[str, Integration], pacer: Pacer
    ) -> None:
        self._view = view
        self._integrations = integrations
        self._pacer = pacer
        self._known: dict[Key, dict[str, PlainPod]] = {}
        """The decoded objects, by job and by UID."""

    async def learn(self, unit: Key) -> None:
        """Decode the objects of a job with pauses, up to the first that cannot be decoded."""
        objects = self._view.unit(unit)
        if not objects or self._integrations[objects[0].kind].read is None:
            return
        for each in objects:
            try:
                self._read(each)
            except Exception:  # noqa: BLE001 - raised again by `decoded`, where it is set aside
                return
            if self._pacer.is_due:
                await self._pacer.rest()

    def decoded(self, objects: Sequence[JobObject]) -> list[PlainPod]:
        """Return all current objects of a job, decoded; former ones are forgotten.

        Raises an error of `kube.decode.UNREADABLE`, or any other that unexpected data causes.
        """
        found = {each.meta.uid: self._read(each) for each in objects}
        self._known[objects[0].unit] = found
        return [*found.values()]

    def forget(self, unit: Key) -> None:
        """Forget the objects of a job that is gone."""
        self._known.pop(unit, None)

    def _read(self, found: JobObject) -> PlainPod:
        """Return the kept object, or decode it and keep that."""
        read, kept = self._integrations[found.kind].read, self._known.setdefault(found.unit, {})
        known = kept.get(found.meta.uid)
        if known is None or known.source != found.raw:
            if read is None:
                raise TypeError(f"objects of {found.kind} are jobs of their own")
            known = kept[found.meta.uid] = read(found.raw)
        return known


RECOVER_SECONDS: Final = 5.0
"""The time for which pods may be missing, while none completes, before that is reported."""
END_PATIENCE: Final = 60.0
COME_PATIENCE: Final = 5.0
"""The seconds that pods may take to end, or to come, before that is reported."""


@dataclass(slots=True)
class _Observed:
    """Counts of pods that are done for good."""

    began: int
    missed: int
    done: int
    since: float | None = None
    """The time when pods went missing, or when the last one was done since."""


class ProgressTable:
    """The progress of each job that has quota.

    It is not stored. A new process counts from where it first sees a job.
    """

    def __init__(self) -> None:
        self._jobs: dict[Key, _Observed] = {}

    def look(self, key: Key, job: GenericJob, *, has_quota: bool) -> JobProgress:
        """Observe a job; return its progress. Its progress ends with its quota."""
        if not has_quota:
            self.forget(key)
            return JobProgress()
        done = job.pods_done()
        job_progress = self._jobs.setdefault(key, _Observed(done, done, done))
        job_progress.done = done
        if job.is_suspended():
            job_progress.began = done
        return self.seen(key)

    def seen(self, key: Key) -> JobProgress:
        """Return the observed progress of a job."""
        job_progress = self._jobs.get(key)
        return (
            JobProgress(job_progress.began, job_progress.missed) if job_progress else JobProgress()
        )

    def missed(self, key: Key, now: float) -> float:
        """Record missing pods; return the seconds left before it is reported.

        They may come at once, as each time that a pod is done and the next one takes its place.
        """
        job_progress = self._jobs.setdefault(key, _Observed(0, 0, 0))
        if job_progress.since is None or job_progress.done > job_progress.missed:
            job_progress.since, job_progress.missed = now, job_progress.done
        return max(0.0, job_progress.since + RECOVER_SECONDS - now)

    def complete(self, key: Key) -> None:
        """Record that no pods are missing, or that the loss was reported."""
        if key in self._jobs:
            self._jobs[key].since = None

    def forget(self, key: Key) -> None:
        """Forget a job that has no quota or is gone."""
        self._jobs.pop(key, None)


class Patience:
    """The time that jobs have waited for pods to end after a stop, or of a group to come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[Key, tuple[float, float]] = {}
        """The longest time that a wait may take, and its end."""

    def is_over(self, key: Key, job: GenericJob, *, has_stopped: bool) -> bool:
        """Note whether a job waits, and return whether it has waited for long."""
        ends, patience = job.is_active() or not has_stopped, 0.0
        if job.is_suspended() and (ends or job.incomplete()):
            patience = END_PATIENCE if ends else COME_PATIENCE
        if not patience:
            self.forget(key)
        elif self._until.get(key, (0.0,))[0] != patience:
            self._until[key] = patience, self._clock.monotonic() + patience
        return bool(patience) and self.left(key) is None

    def left(self, key: Key) -> float | None:
        """Return in how many seconds a wait is long, None where none is under way."""
        found = self._until.get(key)
        return max(0.0, found[1] - self._clock.monotonic()) or None if found else None

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._until.pop(key, None)


@dataclass(slots=True)
class _Group:
    workload: str
    before: Counter[str]
    """The pods that were gone at the first look at the group, by pod set."""
    seen: dict[str, str] = field(default_factory=dict)
    """Pod set by UID of a pod that succeeded."""


class Succeeded:
    """Counts the pods of a group that have succeeded, including those deleted since.

    The owner of pods may delete them as soon as they have ended. The number that succeeded is
    stored in the Workload (`reclaimablePods`); only a process that saw the pods knows which of them
    still exist. A new process assumes that stored ones which are missing were deleted.
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}

    def look(
        self, unit: Hashable, workload: WorkloadInfo, there: Iterable[tuple[str, str]]
    ) -> Mapping[str, int]:
        """Return how many pods of each pod set have succeeded; `there` has UIDs and pod sets."""
        now = dict(there)
        known = self._groups.get(unit)
        if known is None or known.workload != workload.meta.uid:
            stored = Counter(
                {name: done for name, done in workload.reclaimable.items() if done > 0}
            )
            known = self._groups[unit] = _Group(workload.meta.uid, stored - Counter(now.values()))
        known.seen |= now
        return known.before + Counter(known.seen.values())

    def forget(self, unit: Hashable) -> None:
        """Forget a group that is gone."""
        self._groups.pop(unit, None)
