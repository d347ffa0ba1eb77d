"""Reads the facts that a decision about a job needs: the job itself, and what it refers to.

All of it is in the state, or was seen by this process (`JobMemory`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

import msgspec
from cachetools import TTLCache

from extender.api.core_v1 import LabelSelector, matches_selector
from extender.api.values import overrides_of
from extender.api.wellknown import IN_USE_FINALIZER
from extender.controllers.timing import LATE, LOOK_AGAIN, SETTLE, STAND_BACK, WATCH_LAG
from extender.jobs.actions import (
    Ancestor,
    Context,
    JobProgress,
    PodGroupState,
    QuotaRelease,
    release_strategy,
)
from extender.jobs.fields import text
from extender.jobs.job import GenericJob, OperatedJob
from extender.jobs.kinds.plain_pods import PlainPods, read
from extender.jobs.kinds.services import Service
from extender.jobs.registry import Integration
from extender.jobs.workload import pod_group_key, prebuilt_name
from extender.kube.reflector import ObjectsSetAside
from extender.queueing import rules
from extender.queueing.rules import AdmissionOptions, requires_room
from extender.room.nodes import NodeRoom
from extender.room.pods import members
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster.jobs import DEEPEST
from extender.state.cluster.records import DomainAssignment
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import ClusterQueueInfo, JobObject, WorkloadInfo, group_unit
from extender.state.queue.view import QueueView

Key = tuple[str, str]
"""The key of a job: `JobObject.unit`."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The kinds of jobs, and which jobs are managed."""

    integrations: Mapping[str, Integration]
    namespace_selector: LabelSelector
    pod_groups: "PodGroups"
    manage_without_queue_name: bool = False
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    release_quota: QuotaRelease = "OnTerminating"
    aside: ObjectsSetAside = field(default_factory=ObjectsSetAside)
    """The list of objects that are set aside, to which jobs are added whose decision failed."""


class JobFacts:
    """Reads jobs and their contexts; keys are those of `JobObject.unit`."""

    def __init__(self, view: QueueView, options: JobOptions, *, clock: Clock) -> None:
        self._view, self._options, self._clock = view, options, clock
        self._memories: dict[Key, JobMemory] = {}

    def memory(self, key: Key) -> "JobMemory":
        """Return what this process has seen of a job."""
        return self._memories.setdefault(key, JobMemory())

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        known = self._memories.pop(key, None)
        for each in known.services if known is not None else ():
            self._memories.pop(each, None)

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
        if integration.parts is not None:
            name, found = own[0].meta.name, objects[0]
            service = next(s for s in self.services(found) if s.workload_name() == name)
            self.look_at(service, found)
            return service, found
        read = integration.read
        if integration.compose is None or read is None:
            job = integration.wrap(msgspec.json.decode(objects[0].raw))
            child = self.memory(objects[0].unit).child
            job.child = msgspec.json.decode(child) if child is not None else None
            return job, objects[0]
        job = integration.wrap_all([each.decoded or read(each.raw) for each in objects])
        current = next((each for each in own if not each.finished), None)
        if current is not None and job.is_composed:
            done = self.memory(objects[0].unit).succeeded(current, job.succeeded())
            counts = (each.count for each in current.pod_sets if current.admission is not None)
            job.remember(done, sum(counts))
        uid = text(job.object, "metadata", "uid")
        return job, next(each for each in objects if each.meta.uid == uid)

    def services(self, found: JobObject) -> Sequence[Service]:
        """Return the services of an object, not with their pods yet; none of a job."""
        of = self._options.integrations[found.kind]
        return of.parts(of.wrap(msgspec.json.decode(found.raw)).object) if of.parts else ()

    def look_at(self, service: Service, of: JobObject) -> list[WorkloadInfo]:
        """Give a service of an object its pods as they are now; return its workload, if any."""
        key = f"{of.meta.namespace}/{service.workload_name()}"
        found = self._view.workloads.get(key)
        service.pods, service.most = self._pods(key), None
        if found is None or all(owner.uid != of.meta.uid for owner in found.owners):
            return []
        if found.admission is not None:
            service.most = sum(each.count for each in found.admission.assignments)
        return [found]

    def left_over(self, found: JobObject, services: Iterable[Service]) -> list[WorkloadInfo]:
        """Return the workloads of an object's services that are gone, and have no pods left.

        A workload that ended when its object was deleted and left its pods behind has a name that
        the next object of that name needs.
        """
        there = {each.workload_name() for each in services}
        others = (w for w in self.workloads([found]) if w.meta.name not in there)
        stored = (self._view.workloads.get(f"{found.meta.namespace}/{name}") for name in there)
        ended = (w for w in stored if w is not None and w.finished and w.lost_owners)
        return [w for w in (*others, *ended) if not ((p := self._pods(w.key)) and p.is_active())]

    def _pods(self, workload: str) -> PlainPods | None:
        """Return the pods that follow a Workload."""
        objects = self._view.unit(group_unit(workload))
        return PlainPods([each.decoded or read(each.raw) for each in objects]) if objects else None

    def _service(self, pods: JobObject, held: Mapping[str, str]) -> Ancestor | None:
        """Return the service of a group of pods, if its Workload is there."""
        view, namespace = self._view, pods.meta.namespace
        workload = view.workloads.get(f"{namespace}/{pods.group}")
        if workload is None or workload.service is None or workload.owner is None:
            return None
        above = view.job_of(workload.owner.uid, namespace)
        alike = self.services(above) if above is not None else ()
        one = next(iter(alike), None)  # all have the same pods
        late = None if one is None else one.late_pod_sets()
        fitting, larger = self._options.pod_groups.fitting(workload, held)
        return Ancestor(
            f"{workload.owner.kind} {workload.owner.name}",
            admitted=workload.admitted
            and not (workload.evicted or workload.finished or workload.meta.terminating),
            workload=workload if one is None else _scaled(workload, one),
            late=late,
            fitting=fitting,
            larger=larger,
        )

    def context(self, found: JobObject, job: GenericJob, own: Sequence[WorkloadInfo]) -> Context:
        """Return the settings, and what a job refers to."""
        view, options, memory = self._view, self._options, self.memory(found.unit)
        groups, namespace = options.pod_groups, view.namespaces.get(found.meta.namespace)
        prebuilt = prebuilt_name(job.object)
        queue, stopped = self.queue(found), True
        if isinstance(job, PlainPods) and job.follows:
            ancestor = self._service(found, job.held)
        else:
            ancestor = self.ancestor(found)
        followed = (ancestor.workload,) if ancestor is not None and ancestor.workload else ()
        memory.start_in, now = 0.0, self._clock.monotonic()
        if job.is_suspended() and isinstance(job, OperatedJob) and job.finished() is None:
            # A status that was written before the last start may say so too early.
            live = any(groups.has_pods(each, ending=False) for each in own)
            early = job.stopped_early() and any(w.evicted and w.admission for w in own)
            if early and memory.since_stop(now) == inf:  # the answer was lost, or the process ended
                memory.wrote_suspend(now, suspend=True)
            since = memory.since_stop(now)
            settling = max(0.0, SETTLE - since) if early else 0.0
            stopped = job.has_stopped() and not live and not settling
            memory.start_in = max(settling, job.forgets_after - since)
        memory.observe(job, has_quota=any(w.admitted and not w.evicted for w in own))
        overdue = memory.is_overdue(job, now, has_stopped=stopped)
        return Context(
            overdue=overdue,
            pods_gone=overdue
            and (job.is_active() or not stopped)
            and not any(map(groups.has_pods, own)),
            flavors=view.flavors,
            workload_priority_classes=view.workload_priority_classes,
            priority_classes=view.priority_classes,
            manage_without_queue_name=options.manage_without_queue_name,
            namespace_selected=namespace is not None
            and matches_selector(options.namespace_selector, namespace.labels),
            ancestor=ancestor,
            prebuilt=view.workloads.get(f"{found.meta.namespace}/{prebuilt}") if prebuilt else None,
            wait_for_pods_ready=any(
                rules.policy_of(each, view, options.admission).enabled for each in own
            ),
            progress=memory.progress,
            is_taken=lambda name: _is_foreign(
                view.workloads.get(f"{found.meta.namespace}/{name}"),
                view.unit(found.unit) or [found],
            ),
            has_pods=groups.has_pods,
            has_stopped=stopped,
            may_start=not memory.start_in,
            pod_groups={each.key: groups.state(each) for each in (*own, *followed)},
            release_quota=self.release_quota(queue),
            overrides=overrides_of(
                queue.meta.annotations if queue else {}, options.admission.job_overrides
            ),
        )

    def queue(self, found: JobObject) -> ClusterQueueInfo | None:
        """Return the ClusterQueue that a job has quota from."""
        view = self._view
        for key in self._workloads_of(found):
            admission = view.workloads[key].admission
            queue = view.cluster_queues.get(admission.cluster_queue) if admission else None
            if queue is not None:
                return queue
        return None

    def release_quota(self, queue: ClusterQueueInfo | None) -> QuotaRelease:
        """Return when quota is released: the ClusterQueue's annotation, or else the settings."""
        chosen = self._options.release_quota
        return release_strategy(queue.meta.annotations, chosen) if queue else chosen

    def ancestor(self, found: JobObject) -> Ancestor | None:
        """Return the queued job that a job is part of, and whose admission covers it.

        Users may write any ownerReferences into the objects that they create. So a reference counts
        only where the owner is in the same namespace, has the kind and the name of the reference,
        is of a kind whose controller makes such objects, and would give the object its name. An
        owner that has ended shares its quota no more.
        """
        top: JobObject | None = None
        above, is_started = found, False
        for _ in range(DEEPEST):
            parent = self._parent(above)
            if parent is None:
                break
            if above is found:
                child = self._options.integrations[parent.kind].child
                is_started = child is not None and child.integration == found.kind
            if parent.queue_name or self._options.manage_without_queue_name:
                top = parent
            above = parent
        if top is None:
            return None
        keys = self._view.workloads_of(top.meta.uid, top.meta.namespace)
        own = map(self._view.workloads.get, keys)
        admitted = any(w is not None and w.admitted and not w.evicted for w in own)
        return Ancestor(f"{top.kind} {top.meta.name}", admitted=admitted, starts_it=is_started)

    def _parent(self, child: JobObject) -> JobObject | None:
        if child.owner is None:
            return None
        parent = self._view.job_of(child.owner.uid, child.meta.namespace)
        if parent is None:
            return None
        of = self._options.integrations[parent.kind]
        # The admission policy for such Jobs checks the kind and name of the reference.
        named = child.owner.group_kind, child.owner.name
        if named != (f"{of.group}/{of.kind}", parent.meta.name):
            return None
        try:
            job = of.wrap(msgspec.json.decode(parent.raw))
        except (msgspec.MsgspecError, RecursionError):
            return None
        except Exception as error:  # noqa: BLE001 - an error of an external integration harms its job alone
            FAULTS.report("job", error, key=parent.unit)
            return None
        makes = job.finished() is None and job.makes(child.kind, child.meta.name)
        return parent if makes else None

    def _workloads_of(self, job: JobObject) -> Collection[str]:
        return self._view.workloads_of(job.meta.uid, job.meta.namespace)


def _scaled(workload: WorkloadInfo, service: Service) -> WorkloadInfo:
    """Return the workload of a service with no more pods in its admission than there are to be.

    A pod that is made in place of another does not wait for those that were scaled down.
    """
    held, asked = workload.admission, {each.name: each.count for each in service.slots()}
    if held is None:
        return workload
    left = (
        replace(each, count=max(0, min(each.count, asked.get(each.name, each.count))))
        for each in held.assignments
    )
    return replace(workload, admission=replace(held, assignments=tuple(left)))


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


_GroupParts = tuple[tuple[int, int] | None, Mapping[str, DomainAssignment]]


class PodGroups:
    """The facts about PodGroups and pods of jobs, from the caches.

    A value that this process wrote is used until the watch shows it.
    """

    def __init__(
        self,
        queues: QueueView,
        cluster: ClusterView,
        room: NodeRoom,
        *,
        options: AdmissionOptions,
        make: bool,
        clock: Clock,
    ) -> None:
        self._queues, self._cluster, self._room = queues, cluster, room
        self._options, self._make = options, make
        self._written: TTLCache[str, _GroupParts] = TTLCache(10_000, LATE, clock.monotonic)

    def state(self, workload: WorkloadInfo) -> PodGroupState:
        """Return what a decision needs to know of the PodGroup of a workload's pods."""
        group, held = pod_group_key(workload), workload.admission
        stored, written = self._cluster.pod_group(group), self._written.get(group)
        found: _GroupParts = (None, {})
        if stored is not None:
            found = (stored.min_member, stored.done), stored.assigned
        if found == written:
            self._written.pop(group, None)
        size, domains = written or found
        return PodGroupState(
            made_by_queue=held is not None and self.are_made_in(held.cluster_queue),
            granted=group in self._cluster.grants,
            size=size,
            domains=domains,
        )

    def wrote(
        self, group: str, size: tuple[int, int], domains: Mapping[str, DomainAssignment]
    ) -> None:
        """Note what was written into a PodGroup: its minMember and done members, its domains."""
        self._written[group] = size, domains

    def are_made_in(self, cluster_queue: str) -> bool:
        """Return whether a ClusterQueue makes PodGroups for jobs whose pods name none."""
        queue = self._queues.cluster_queues.get(cluster_queue)
        return (
            self._make
            and queue is not None
            and requires_room(queue, self._options, self._queues.flavors)
        )

    def rooms(self, workload: str) -> Mapping[str, Mapping[str, int]] | None:
        """Return the room by node that was found for a workload at its admission."""
        return self._room.found_for(workload)

    def fitting(
        self, workload: WorkloadInfo, held: Mapping[str, str]
    ) -> tuple[Collection[str], Collection[str]]:
        """Return the UIDs of those pods that ask for no more than one of their pod set, and others.

        `held` has the pod set of each pod by its UID. A pod that is in neither has not been seen
        yet.
        """
        found = [pod for uid in held if (pod := self._cluster.pods.get(uid)) is not None]
        most = {each.name: each.shape.requests for each in workload.pod_sets}
        fits = {
            pod.uid
            for pod in found
            if (asked := most.get(held[pod.uid], most.get("main"))) is not None
            and all(n <= asked.get(name, 0) for name, n in pod.shape.requests.items())
        }
        return fits, {pod.uid for pod in found} - fits

    def has_pods(self, workload: WorkloadInfo, *, ending: bool = True) -> bool:
        """Return whether a workload has pods that have not ended, or are not even ending."""
        pods = members(workload, queues=self._queues, cluster=self._cluster)
        return any((ending or not pod.terminating) and not pod.finished for pod in pods)


WRITES: Final = 4
"""Equal writes of `suspend` in a row before another writer is noticed. One is enough where the job
belongs to a controller that the queue does not know."""


class JobMemory:
    """The history of one job in this process.

    A new process has no history of the job: its counts begin when it first sees the job.
    """

    def __init__(self) -> None:
        self.unnoticed: float | None = None
        """The time since which its operator is waited for; infinity once that is reported."""
        self.services: set[Key] = set()
        """The keys of the memories of its services."""
        self.child: bytes | None = None
        """The object of its kind's `child_kind` when it was read last, as JSON."""
        self.start_in = 0.0
        """The seconds until its operator can start it."""
        self.set_aside = ""
        """The `namespace/name` of the object under which it is set aside."""
        self._began: int | None = None
        self._missed: int | None = None
        self._done = 0
        self._missing_since: float | None = None
        self._wait: tuple[float, float] | None = None
        """How long the job may wait for its pods to end or to be created, in seconds, and the time
        at which that wait is overdue; infinity once a decision knows that."""
        self._suspended = False
        """The value of `suspend` that was written last."""
        self._writes: list[float] = []
        """The times at which that value was stored in a row."""
        self._group = ""
        self._gone: Counter[str] = Counter()
        self._succeeded: dict[str, str] = {}
        """Pod set by UID of pods that succeeded, for one workload; `_gone` counts earlier ones."""

    # -- pods that are done for good

    @property
    def progress(self) -> JobProgress:
        """The number of pods that were done at times that matter, while it has quota."""
        return JobProgress(self._began, self._missed)

    def observe(self, job: GenericJob, *, has_quota: bool) -> None:
        """Count the pods that are done. The progress ends with the quota."""
        if not has_quota:
            self._began = self._missed = self._missing_since = None
            return
        self._done = job.pods_done()
        if self._began is None or job.is_suspended():
            self._began = self._done
        if self._missed is None:
            self._missed = self._done

    def missing(self, now: float) -> float:
        """Note that pods are missing; return the seconds left before it is reported.

        The pods may be replaced at once, as happens whenever a pod finishes and the next one takes
        its place.
        """
        if self._missing_since is None or self._done > (self._missed or 0):
            self._missing_since, self._missed = now, self._done
        return max(0.0, self._missing_since + SETTLE - now)

    def complete(self) -> None:
        """Note that no pods are missing, or that the loss was reported."""
        self._missing_since = None

    # -- waits for pods to end after a stop, or for those of a group to come

    def is_overdue(self, job: GenericJob, now: float, *, has_stopped: bool) -> bool:
        """Note whether the job waits for pods, and return whether it has waited for long."""
        ends, patience = job.is_active() or not has_stopped, 0.0
        if job.is_suspended() and (ends or job.incomplete()):
            patience = LATE if ends else SETTLE
        if not patience:
            self._wait = None
        elif self._wait is None or self._wait[0] != patience:
            self._wait = patience, now + patience
        overdue = self._wait is not None and (now >= self._wait[1] or self._wait[1] == inf)
        if overdue:
            self._wait = patience, inf
        return overdue

    def wait_left(self, now: float) -> float | None:
        """Return when to look again at a wait, None where no decision depends on its length.

        A timer may be a little early, and the wait be over only after the decision.
        """
        until = self._wait[1] if self._wait else inf
        return None if until == inf else max(LOOK_AGAIN, until - now)

    # -- other writers of `suspend`

    def wrote_suspend(self, now: float, *, suspend: bool) -> None:
        """Note a write of `suspend` that was stored."""
        before = self._writes[1 - WRITES :] if self._suspended is suspend else ()
        self._suspended, self._writes = suspend, [*before, now]

    def since_stop(self, now: float) -> float:
        """Return the seconds since `suspend` was set; infinity where this process did not."""
        return now - self._writes[-1] if self._suspended and self._writes else inf

    def contest(self, now: float, *, suspend: bool, is_foreign: bool) -> float:
        """Return for how many seconds a write is left out because another writer undoes it.

        Two controllers that both go on would start and stop the job several times a second. The
        queue stands back from a job that belongs to a controller it does not know. Against any
        other writer, the queue only slows down, so that a user who keeps unsuspending a job cannot
        bypass the queue.
        """
        at = self._writes
        if self._suspended is not suspend:
            return 0.0
        recent = [each for each in at if at[-1] - each <= LATE]
        if len(recent) < (1 if is_foreign else WRITES):
            return 0.0
        return max(0.0, at[-1] + (STAND_BACK if is_foreign else WATCH_LAG) - now)

    # -- pods of a group that have succeeded

    def succeeded(
        self, workload: WorkloadInfo, there: Iterable[tuple[str, str]]
    ) -> Mapping[str, int]:
        """Return how many pods of each pod set have succeeded, including those deleted since.

        `there` has UIDs and pod sets. The owner of pods may delete them as soon as they have ended.
        The number that succeeded is stored in the Workload (`reclaimablePods`); only a process that
        saw the pods knows which of them still exist. A new process assumes that stored ones which
        are missing were deleted.
        """
        now = dict(there)
        if self._group != workload.meta.uid:
            stored = Counter({pod_set: n for pod_set, n in workload.reclaimable.items() if n > 0})
            self._group, self._succeeded = workload.meta.uid, {}
            self._gone = stored - Counter(now.values())
        self._succeeded |= now
        return self._gone + Counter(self._succeeded.values())
