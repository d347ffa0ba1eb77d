"""What a decision about a job is given: the job out of its objects, and what it refers to.

All of it is read from the state, and from what this process remembers of the job.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from extender.api.core_v1 import LabelSelector
from extender.api.job_overrides import overrides_of
from extender.api.selectors import matches_selector
from extender.api.wellknown import IN_USE_FINALIZER
from extender.controllers.ancestors import Ancestors
from extender.controllers.job_groups import JobGroups, PodGroups
from extender.controllers.members import Members
from extender.controllers.progress import Patience, ProgressTable
from extender.controllers.succeeded import Succeeded
from extender.jobs import reclaim
from extender.jobs.context import Context, ReleaseQuota
from extender.jobs.fields import text
from extender.jobs.job import GenericJob
from extender.jobs.kinds.operated import OperatedJob
from extender.jobs.registry import Integration
from extender.jobs.workload import prebuilt_name
from extender.kube.set_aside import ObjectsSetAside
from extender.queueing import readiness
from extender.queueing.options import AdmissionOptions
from extender.runtime.clock import Clock
from extender.runtime.pacer import Pacer
from extender.state.queue.records import ClusterQueueInfo, JobObject, WorkloadInfo
from extender.state.queue.view import QueueView


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The kinds of jobs, and which jobs are managed."""

    integrations: Mapping[str, Integration]
    namespace_selector: LabelSelector
    manage_without_queue_name: bool = False
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    pod_groups: PodGroups = field(default_factory=PodGroups)
    release_quota: ReleaseQuota = "OnTerminating"
    aside: ObjectsSetAside = field(default_factory=ObjectsSetAside)
    """Where jobs are listed whose decision failed."""


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
        job = integration.wrap_all(self._members.of(objects))
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
        return reclaim.release_strategy(queue.meta.annotations, chosen) if queue else chosen

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
