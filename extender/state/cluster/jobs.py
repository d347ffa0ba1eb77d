"""The tables of Jobs, and the number of pods for which jobs are admitted and whose pods have room.

The numbers come from the status of Workloads, which the reconciler alone writes. What a tenant
writes raises none: labels and owner references only say against which number a pod counts.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Final

from extender.api.wellknown import QUEUE_LABEL, QUEUE_POD_GROUP_LABEL
from extender.state.cluster.events import JobsManaged
from extender.state.cluster.records import AdmittedPods, JobInfo, NodeInfo, PodInfo
from extender.state.cluster.reservations import Reservation

DEEPEST: Final = 10
"""The most owners above each other that are looked at: references may go round in a circle."""


@dataclass(slots=True)
class JobTable:
    """Jobs, those that are gone as long as their group goes on. Written by `Cluster` only."""

    by_uid: dict[str, JobInfo] = field(default_factory=dict)
    managed: JobsManaged = field(default_factory=JobsManaged)
    watched: set[str] = field(default_factory=set)
    """Kinds, as GROUP/KIND, of which all are known."""
    made: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the jobs that an object has made, by its UID."""
    of_group: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the Jobs that have pods, by group."""
    gone: set[str] = field(default_factory=set)
    """The UIDs of Jobs that completed, were deleted since, and whose work still counts."""
    work: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The number of pods that the Jobs of a group begin with, and of those done, in this run.

    A run lasts as long as one of its Jobs does. A completed Job counts as long as a Job that
    existed when it completed is still running.
    """

    def is_managed(self, job: JobInfo, namespace: str) -> bool:
        """Return whether a job in a namespace needs a queue to admit it, itself or its owner."""
        if job.held_by_queue is not None:
            return True
        managed = self.managed
        return job.needs_quota and job.kind in managed.kinds and namespace not in managed.except_in

    def put(self, job: JobInfo) -> None:
        """Store a Job in place of its former version."""
        self._forget(job.uid)
        self.by_uid[job.uid] = job
        if job.maker is not None:
            self.made.setdefault(job.maker, set()).add(job.uid)
        if job.group is not None and job.begun:
            self.of_group.setdefault(job.group, set()).add(job.uid)
            self._count(job.group)

    def drop(self, uid: str) -> None:
        """Forget a Job, which may be unknown; later, where its work still counts."""
        job = self.by_uid.get(uid)
        if job is not None and job.completed is not None and job.group is not None:
            self.gone.add(uid)
            self._count(job.group)
        else:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self.gone.discard(uid)
        job = self.by_uid.pop(uid, None)
        if job is None:
            return
        if job.maker is not None:
            _take(self.made, job.maker, uid)
        if job.group is not None and job.begun:
            _take(self.of_group, job.group, uid)
            self._count(job.group)

    def _count(self, group: str) -> None:
        jobs = [self.by_uid[uid] for uid in self.of_group.get(group, ())]
        since = min((job.created for job in jobs if job.completed is None), default=inf)
        counted = [job for job in jobs if job.completed is None or job.completed >= since]
        self.work.pop(group, None)
        if since < inf:
            self.work[group] = sum(job.begun for job in counted), sum(job.done for job in counted)
        over = {job.uid for job in jobs if job.uid in self.gone and job not in counted}
        for uid in over:
            self._forget(uid)


def _take(table: dict[str, set[str]], key: str, uid: str) -> None:
    table[key].discard(uid)
    if not table[key]:
        del table[key]


@dataclass(frozen=True, slots=True)
class AdmissionBarrier:
    """A job that is not admitted for one pod more."""

    job: str
    """`namespace/name` of the job, or of a pod that has none."""
    pods: int = 0
    """The number of pods for which it is admitted."""
    is_known: bool = True
    """False while the job itself has not been seen."""


@dataclass(frozen=True, slots=True)
class _Share:
    """The Workloads that a pod counts against; none where its job has none yet."""

    workloads: frozenset[str]
    job: str
    is_known: bool = True


@dataclass(slots=True)
class Admissions:
    """Counts for how many more pods jobs are admitted. Written by `Cluster` only."""

    jobs: JobTable = field(compare=False)
    pods: Mapping[str, PodInfo] = field(compare=False)
    reserved: Mapping[str, Reservation] = field(compare=False)
    """The reservations of pods, by UID."""
    ending: Mapping[str, Collection[str]] = field(compare=False)
    """The UIDs of the pods that are being deleted, by node."""
    nodes: Mapping[str, NodeInfo] = field(compare=False)
    workloads: dict[str, AdmittedPods] = field(default_factory=dict)
    """The Workloads by `namespace/name`."""
    by_owner: dict[str, set[str]] = field(default_factory=dict)
    """The keys of the Workloads of a job or a plain pod, by its UID."""
    with_room: set[str] = field(default_factory=set)
    """UIDs of the pods with a node or a reservation."""
    controlled: Counter[str] = field(default_factory=Counter)
    """The number of pods with room, by UID of their controller."""
    grouped: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of pods with room, by their group of plain pods."""
    in_use: bool | None = False
    """True if the API server has Workloads; None while that is not known."""

    def put(self, workload: AdmittedPods) -> None:
        """Store a Workload in place of its former version."""
        self.drop(workload.key)
        self.workloads[workload.key] = workload
        for uid in workload.owners:
            self.by_owner.setdefault(uid, set()).add(workload.key)

    def drop(self, key: str) -> None:
        """Forget a Workload, which may be unknown."""
        workload = self.workloads.pop(key, None)
        for uid in workload.owners if workload is not None else ():
            self.by_owner[uid].discard(key)
            if not self.by_owner[uid]:
                del self.by_owner[uid]

    def take(self, pod: PodInfo) -> None:
        """Count a pod that has room from now on."""
        group = _plain_group(pod)
        self.with_room.add(pod.uid)
        if pod.controller is not None:
            self.controlled[pod.controller] += 1
        if group is not None:
            self.grouped.setdefault(group, set()).add(pod.uid)

    def give(self, pod: PodInfo) -> None:
        """Undo `take`."""
        group = _plain_group(pod)
        self.with_room.discard(pod.uid)
        if pod.controller is not None:
            self.controlled[pod.controller] -= 1
            if not self.controlled[pod.controller]:
                del self.controlled[pod.controller]
        if group is not None:
            self.grouped[group].discard(pod.uid)
            if not self.grouped[group]:
                del self.grouped[group]

    def barrier(self, pod: PodInfo) -> AdmissionBarrier | None:
        """Return the job that has to be admitted before a pod may have room, or None."""
        share = self._share(pod)
        if share is None or self._left(share) + (pod.uid in self.reserved) > 0:
            return None
        return AdmissionBarrier(share.job, self._admitted(share), share.is_known)

    def within(self, pods: Iterable[PodInfo], first: PodInfo | None = None) -> list[PodInfo]:
        """Return those of the pods without room that may have some, together with `first`."""
        left: dict[frozenset[str], int] = {}
        able: list[PodInfo] = []
        for pod in chain((first,) if first is not None else (), pods):
            share = self._share(pod)
            if share is not None:
                has = left[share.workloads] if share.workloads in left else self._left(share)
                if has <= 0:
                    continue
                left[share.workloads] = has - 1
            if pod is not first:
                able.append(pod)
        return able

    def workloads_of(self, pod: PodInfo) -> Collection[str]:
        """Return the Workloads that a pod counts against."""
        share = self._share(pod)
        return share.workloads if share is not None else ()

    def _share(self, pod: PodInfo) -> _Share | None:
        """Return what a pod counts against: the topmost owner with a Workload decides.

        None for a pod that no queue is concerned with.
        """
        is_known, uid = True, pod.controller
        is_queued = uid is None and self.in_use and QUEUE_LABEL in pod.labels
        workloads: Collection[str] = ()
        for _ in range(DEEPEST):
            if uid is None:
                break
            workloads = self.by_owner.get(uid) or workloads
            found = self.jobs.by_uid.get(uid)
            if found is None:
                is_known = uid != pod.controller or not self._is_watched(pod)
                break
            is_queued = is_queued or self.jobs.is_managed(found, pod.namespace)
            uid = found.maker
        if not workloads and self.workloads:
            workloads = self.by_owner.get(pod.uid) or self._of_group(pod)
        if self.in_use is None and pod.controller_kind is not None:
            is_known = False
        if not workloads and not is_queued and is_known:
            return None
        name = pod.owners[0] if pod.owners else pod.key
        return _Share(frozenset(workloads), name, is_known or bool(workloads))

    def _is_watched(self, pod: PodInfo) -> bool:
        """Return whether all jobs are known of the kind that controls a pod."""
        return bool(self.in_use) and pod.controller_kind in self.jobs.watched

    def _of_group(self, pod: PodInfo) -> Collection[str]:
        """Return the Workload of the group of plain pods that a pod says to be one of."""
        key = _plain_group(pod)
        found = self.workloads.get(key) if key is not None else None
        return (found.key,) if found is not None and found.is_of_pods else ()

    def _admitted(self, share: _Share) -> int:
        return sum(self.workloads[key].pods for key in share.workloads)

    def _left(self, share: _Share) -> int:
        """Return how many more pods may have room; below zero where too many have."""
        admitted = self._admitted(share)
        if not admitted:
            return -1
        used = sum(self._used(self.workloads[key]) for key in share.workloads)
        return admitted - used + (self._lost(share) if used >= admitted else 0)

    def _used(self, workload: AdmittedPods) -> int:
        """Return how many pods of a Workload have a node or a reservation."""
        if not workload.is_of_pods:
            return sum(self._below(uid, DEEPEST) for uid in workload.owners)
        own = self.with_room.intersection(workload.owners)
        return len(own.union(self.grouped.get(workload.key, ())))

    def _below(self, uid: str, deepest: int) -> int:
        """Return how many pods with room an object controls, itself or by jobs that it has made."""
        made = self.jobs.made.get(uid, ()) if deepest else ()
        return self.controlled[uid] + sum(self._below(m, deepest - 1) for m in made)

    def _lost(self, share: _Share) -> int:
        """Return how many pods are being deleted on nodes of which nothing is heard.

        These may never end, and their replacements must not wait for them.
        """
        return sum(
            self.workloads_of(self.pods[uid]) == share.workloads
            for name, uids in self.ending.items()
            if (node := self.nodes.get(name)) is None or not node.ready
            for uid in uids
        )


def _plain_group(pod: PodInfo) -> str | None:
    """Return the `namespace/name` of the group of plain pods that a pod's labels name."""
    name = pod.labels.get(QUEUE_POD_GROUP_LABEL)
    return f"{pod.namespace}/{name}" if name else pod.group
