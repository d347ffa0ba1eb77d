"""The one writer of what is known of queues.

Facts come from watches and from the answers to our own writes, whichever is first: a version that
is older than the one known changes nothing. A list replaces everything of its type, a slice at a
time: first what it lacks goes, then its objects come. The answers to our own writes may arrive
between two slices; versions say which of them is newer than the list. What is assumed
(quota given, and not yet written) counts as taken from the same step on, and ends when the
fact shows it or when it is forgotten.

Nothing here awaits, and nothing reads a clock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from math import inf
from typing import Any, Final, TypeVar

from extender.api.queue_wire import LimitRangeItem
from extender.api.values import LONG_TEXT
from extender.api.wellknown import OWN_PREFIX, PRIORITY_CLASS_LABEL
from extender.state.cluster.records import REMEMBERED
from extender.state.queue import events as ev
from extender.state.queue.events import Event, QueueChange, Record
from extender.state.queue.records import (
    SERVICES,
    AdmissionCheckInfo,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    Meta,
    NamespaceInfo,
    PodSetInfo,
    PriorityClassInfo,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    RuntimeClassInfo,
    TopologyInfo,
    Usage,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
    group_unit,
    usage,
)
from extender.state.queue.view import QueueTables, QueueView
from extender.steps import PIECE, cut

Complete = Callable[
    [PodSetInfo, Sequence[LimitRangeItem], Mapping[str, RuntimeClassInfo]], PodSetInfo
]
"""Returns a pod set as its pods will be under these limits and with these RuntimeClasses."""
K = TypeVar("K")
V = TypeVar("V")

_NOTHING = QueueChange()
_FOR_GOOD: Final = inf
_LATEST: Final = 1000
"""Changes of the usage of a ClusterQueue whose workloads are known: readers may keep results."""
_Named = NamespaceInfo | PriorityClassInfo | WorkloadPriorityClassInfo | RuntimeClassInfo
"""Records of which no version is known."""
_STRUCTURE: Final = (
    *(FlavorInfo, TopologyInfo, ClusterQueueInfo, CohortInfo),
    *(AdmissionCheckInfo, ProvisioningConfigInfo),
)


class Queues:
    """Belief about queues and workloads, changed by events and read through views.

    `complete` returns what pods will ask for in their namespace; without it templates count.
    """

    def __init__(self, complete: Complete | None = None) -> None:
        self._tables = tables = QueueTables()
        self._complete = complete
        self._limits: dict[str, tuple[LimitRangeItem, ...]] = {}
        """The items of LimitRanges, by namespace."""
        self._view = QueueView(tables)
        self._listeners: list[Callable[[QueueChange], None]] = []
        self.on_fault: Callable[[Exception], None] | None = None
        """Takes the error of a listener; without it the error is raised."""
        self._gone: dict[str, float] = {}
        """By UID: the first version that would be news of an object again."""
        self._by_type: dict[type[Record], dict[str, Any]] = {
            FlavorInfo: tables.flavors,
            TopologyInfo: tables.topologies,
            AdmissionCheckInfo: tables.admission_checks,
            ProvisioningConfigInfo: tables.provisioning_configs,
            ProvisioningRequestInfo: tables.provisioning_requests,
            ClusterQueueInfo: tables.cluster_queues,
            CohortInfo: tables.cohorts,
            LocalQueueInfo: tables.local_queues,
            NamespaceInfo: tables.namespaces,
            PriorityClassInfo: tables.priority_classes,
            WorkloadPriorityClassInfo: tables.workload_priority_classes,
            LimitRangeInfo: tables.limit_ranges,
            RuntimeClassInfo: tables.runtime_classes,
            WorkloadInfo: tables.workloads,
        }
        self._handlers: dict[type, Callable[[Any], QueueChange]] = {
            ev.Applied: lambda e: self._put(e.record),
            ev.Deleted: lambda e: self._drop(e.record),
            ev.JobApplied: lambda e: self._put_job(e.job),
            ev.JobDeleted: lambda e: self._drop_job(
                e.job, _FOR_GOOD if e.for_good else e.job.meta.version
            ),
            ev.Assumed: self._assumed,
            ev.Forgotten: self._forgotten,
        }

    def apply(self, event: Event | ev.Listed | ev.JobsListed) -> QueueChange:
        """Apply one event, call the listeners, and return what it touched."""
        if isinstance(event, ev.Listed | ev.JobsListed):
            return _union(self.replace(event))
        return self._announced(self._handlers[type(event)](event))

    def replace(self, listed: ev.Listed | ev.JobsListed) -> Iterator[QueueChange]:
        """Apply a list, and yield what each slice of it touched.

        The tables are whole between two slices, and other events may come there.
        """
        if isinstance(listed, ev.JobsListed):
            steps, size = self._jobs_listed(listed), PIECE
        else:
            # What settings make of workloads is worked out once for all settings of a type.
            small = listed.type is not WorkloadInfo
            steps, size = self._listed(listed), max(PIECE, len(listed.records) if small else 0)
        for some in cut(steps, size):
            yield self._announced(_union(some))

    def _announced(self, change: QueueChange) -> QueueChange:
        if change != _NOTHING:
            self._tables.version += 1
            for listener in self._listeners:
                self._call(listener, change)
        return change

    def _call(self, listener: Callable[[QueueChange], None], change: QueueChange) -> None:
        """Call a listener; after one that fails the others are still called."""
        try:
            listener(change)
        except Exception as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)

    def subscribe(self, listener: Callable[[QueueChange], None]) -> None:
        """Call a function after each change from now on."""
        self._listeners.append(listener)

    def view(self) -> QueueView:
        """Return the view for decisions; no value read from it survives an `await`."""
        return self._view

    def known(self, of: type[Record], key: str, uid: str) -> Record | None:
        """Return what is known of one object; not of a namesake."""
        found: Record | None = self._by_type[of].get(key)
        return found if found is not None and _uid(found) in {"", uid} else None

    # -- records

    def _put(self, record: Record) -> QueueChange:
        table, key = self._by_type[type(record)], _key(record)
        if _uid(record) in self._gone:
            return _NOTHING
        before = table.get(key)
        if isinstance(record, WorkloadInfo):
            record = _arrived(self._completed(record), before)
        if before == record or (before is not None and _is_older(record, before)):
            return self._same(before, record, table=table)
        if before is not None and _uid(before) != _uid(record):
            return _union([self._drop(before), self._put(record)])
        if isinstance(record, WorkloadInfo):
            return self._put_workload(record, before)
        table[key] = record
        return self._touched(before, record)

    def _same(self, before: Record, record: Record, *, table: dict[str, Any]) -> QueueChange:
        """Keep what is not compared, such as a stored status, up to date."""
        if not _is_older(record, before):
            table[_key(record)] = record
            if isinstance(record, ClusterQueueInfo):
                return QueueChange(cluster_queues=frozenset((record.name,)))
            if isinstance(record, LocalQueueInfo):
                return QueueChange(local_queues=frozenset((record.key,)))
        return _NOTHING

    def _drop(self, record: Record) -> QueueChange:
        table, key = self._by_type[type(record)], _key(record)
        before = table.get(key)
        self._remember(_uid(record))
        if before is None or _uid(before) != _uid(record):
            return _NOTHING
        if isinstance(before, WorkloadInfo):
            return self._drop_workload(before)
        del table[key]
        return self._touched(before, None)

    def _remember(self, uid: str, news: float = _FOR_GOOD) -> None:
        """Keep the UID of a deleted object, so that a delayed answer to a write restores none."""
        if uid:
            self._gone[uid] = max(news, self._gone.pop(uid, 0))
        while len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _listed(self, event: ev.Listed) -> Iterator[QueueChange]:
        table = self._by_type[event.type]
        there = {_key(record): record for record in event.records}
        self._doubt(table, there, event.version)
        for key in [*table]:
            record = None if key in there else table.get(key)
            if record is not None and _was_there(record, event.version):
                yield self._drop(record)
            else:
                yield _NOTHING
        for record in event.records:
            yield self._put(record)
            if isinstance(record, WorkloadInfo):
                # A long template is read anew, which takes as long as many objects.
                size = sum(len(each.template) for each in record.pod_sets)
                yield from repeat(_NOTHING, size // LONG_TEXT)

    def _doubt(self, table: dict[Any, Any], listed: Mapping[Any, Any], version: int) -> None:
        """Have a list replace what is known of later versions, if these are not later than it.

        Then the API server's store was set back to a backup.
        """
        for key, record in listed.items():
            before = table.get(key)
            if not version:
                self._gone.pop(_uid(record), None)
            if before is not None and _is_older(record, before) and _was_there(before, version):
                table[key] = replace(before, meta=replace(before.meta, version=0))

    def _touched(self, before: Record | None, after: Record | None) -> QueueChange:
        record = after or before
        assert record is not None
        if isinstance(record, LimitRangeInfo | RuntimeClassInfo):
            return self._completed_anew(record)
        structure = isinstance(record, _STRUCTURE) and _shape(before) != _shape(after)
        if structure:
            self._tables.structure_version += 1
        if isinstance(record, LocalQueueInfo):
            return self._touched_queue(record, before, after)
        if isinstance(record, ProvisioningRequestInfo):
            return self._touched_request(before, after)
        return QueueChange(
            structure=structure,
            cluster_queues=self._cluster_queues_with(record),
            flavors=self._flavors_with(before, after),
            checks=self._checks_with(before, after),
            jobs=self._jobs_concerned(record, before),
            priority_classes=frozenset(
                (after.name,) if isinstance(after, WorkloadPriorityClassInfo) else ()
            ),
            namespaces=frozenset((record.name,) if isinstance(record, NamespaceInfo) else ()),
        )

    def _completed_anew(self, record: LimitRangeInfo | RuntimeClassInfo) -> QueueChange:
        """Count the pods anew that a LimitRange or a RuntimeClass may concern."""
        namespace = record.meta.namespace if isinstance(record, LimitRangeInfo) else None
        if namespace is not None:
            ranges = self._tables.limit_ranges.values()
            mine = [each for each in ranges if each.meta.namespace == namespace]
            mine.sort(key=lambda each: each.meta.name)
            self._limits[namespace] = tuple(chain.from_iterable(each.items for each in mine))
        found = [
            (self._completed(workload), workload)
            for workload in self._tables.workloads.values()
            if namespace in (None, workload.meta.namespace)
        ]
        return _union(self._put_workload(now, was) for now, was in found if now is not was)

    def _completed(self, workload: WorkloadInfo) -> WorkloadInfo:
        """Return a workload with what its pods will ask for by LimitRanges and RuntimeClasses.

        It is the same one if that is nothing new, or if it has ended and needs no pods.
        """
        if self._complete is None or workload.finished:
            return workload
        limits = self._limits.get(workload.meta.namespace, ())
        classes = self._tables.runtime_classes
        pod_sets = tuple(self._complete(each, limits, classes) for each in workload.pod_sets)
        return workload if pod_sets == workload.pod_sets else replace(workload, pod_sets=pod_sets)

    def _jobs_concerned(self, record: Record, before: Record | None) -> frozenset[tuple[str, str]]:
        """Return the jobs that may have waited for a priority class, or have the default one."""
        tables = self._tables
        if any(isinstance(c, PriorityClassInfo) and c.is_default for c in (record, before)):
            return frozenset(tables.units)
        if not isinstance(record, PriorityClassInfo | WorkloadPriorityClassInfo) or before:
            return frozenset()
        name = record.name
        return frozenset(
            job.unit
            for job in tables.jobs.values()
            if not tables.by_owner.get((job.meta.namespace, job.meta.uid))
            or job.meta.labels.get(PRIORITY_CLASS_LABEL) == name
        )

    def _touched_queue(
        self, queue: LocalQueueInfo, before: Record | None, after: Record | None
    ) -> QueueChange:
        if isinstance(before, LocalQueueInfo):
            _discard(self._tables.by_cluster_queue, before.cluster_queue, before.key)
        if isinstance(after, LocalQueueInfo):
            self._tables.by_cluster_queue[after.cluster_queue].add(after.key)
        moved = _shape(before) != _shape(after)
        return QueueChange(
            workloads=frozenset(self._view.waiting_in(queue.key) if moved else ()),
            cluster_queues=frozenset((queue.cluster_queue,)),
            local_queues=frozenset((queue.key,)),
        )

    def _cluster_queues_with(self, record: Record) -> frozenset[str]:
        """Return the ClusterQueues that a record of the structure may concern."""
        if isinstance(record, ClusterQueueInfo):
            return frozenset((record.name,))
        if isinstance(record, FlavorInfo | TopologyInfo):
            names = self._flavors_of(record)
            queues = self._tables.cluster_queues.values()
            return frozenset(each.name for each in queues if not names.isdisjoint(each.flavors))
        if isinstance(record, AdmissionCheckInfo | ProvisioningConfigInfo):
            queues = self._tables.cluster_queues.values()
            return frozenset(queue.name for queue in queues if queue.admission_checks)
        if isinstance(record, CohortInfo):
            return frozenset(q.name for q in self._tables.cluster_queues.values() if q.cohort)
        return frozenset()

    def _flavors_of(self, record: FlavorInfo | TopologyInfo) -> set[str]:
        """Return the flavor, or the flavors of a topology."""
        name = record.meta.name
        if isinstance(record, FlavorInfo):
            return {name}
        flavors = self._tables.flavors.values()
        return {each.meta.name for each in flavors if each.topology == name}

    def _flavors_with(self, before: Record | None, after: Record | None) -> frozenset[str]:
        found: set[str] = set()
        for record in (before, after):
            if isinstance(record, FlavorInfo):
                found.add(record.meta.name)
            elif isinstance(record, ClusterQueueInfo):
                found.update(record.flavors)
        return frozenset(found)

    def _checks_with(self, *records: Record | None) -> frozenset[str]:
        """Return all checks, which are few, where one of them may be concerned."""
        lists = (ClusterQueueInfo, AdmissionCheckInfo, ProvisioningConfigInfo)
        concerned = any(isinstance(each, lists) for each in records)
        return frozenset(self._tables.admission_checks if concerned else ())

    def _touched_request(self, before: Record | None, after: Record | None) -> QueueChange:
        owners = set[str]()
        for each, index in ((before, _discard), (after, _add)):
            if isinstance(each, ProvisioningRequestInfo):
                index(self._tables.requests_of, each.workload, each.meta.key)
                owners.add(each.workload)
        return QueueChange(workloads=frozenset(owners & self._tables.workloads.keys()))

    # -- workloads

    def _put_workload(self, workload: WorkloadInfo, before: WorkloadInfo | None) -> QueueChange:
        tables, key = self._tables, workload.key
        released = self._uncount(key, before)
        assumed = tables.assumed.get(key)
        if assumed is not None and (workload.admission or workload.finished):
            del tables.assumed[key]
        if before is not None:
            self._unindex(before)
        tables.workloads[key] = workload
        for owner in workload.owners:
            tables.by_owner[workload.meta.namespace, owner.uid].add(key)
        if not workload.finished:
            tables.by_queue[workload.queue].add(key)
        return self._changed(workload, before, released=released, taken=self._count(key))

    def _drop_workload(self, workload: WorkloadInfo) -> QueueChange:
        released = self._uncount(workload.key, workload)
        self._tables.assumed.pop(workload.key, None)
        self._unindex(workload)
        del self._tables.workloads[workload.key]
        return self._changed(workload, None, released=released, taken=(None, {}))

    def _unindex(self, workload: WorkloadInfo) -> None:
        for owner in workload.owners:
            _discard(self._tables.by_owner, (workload.meta.namespace, owner.uid), workload.key)
        _discard(self._tables.by_queue, workload.queue, workload.key)

    def _assumed(self, event: ev.Assumed) -> QueueChange:
        workload = self._tables.workloads[event.workload]
        released = self._uncount(event.workload, workload)
        self._tables.assumed[event.workload] = event.admission
        taken = self._count(event.workload)
        return self._changed(workload, workload, released=released, taken=taken)

    def _forgotten(self, event: ev.Forgotten) -> QueueChange:
        assumed = self._tables.assumed.get(event.workload)
        if assumed is None or (event.admission is not None and event.admission is not assumed):
            return _NOTHING
        workload = self._tables.workloads[event.workload]
        released = self._uncount(event.workload, workload)
        del self._tables.assumed[event.workload]
        taken = self._count(event.workload)
        return self._changed(workload, workload, released=released, taken=taken)

    def _count(self, key: str) -> tuple[str | None, Usage]:
        """Add the quota that a workload holds to the usage; return where and how much."""
        held = self._view.admission(key)
        if held is None:
            return None, {}
        taken = usage(held, self._tables.workloads[key])
        add(self._tables.usage.setdefault(held.cluster_queue, {}), taken)
        self._tables.reserving[held.cluster_queue].add(key)
        if held.reserved_only:
            self._tables.reserved_only.add(key)
            if self._tables.workloads[key].has_passed:
                self._tables.passed.add(key)
        self._tick(held.cluster_queue, key)
        return held.cluster_queue, taken

    def _uncount(self, key: str, before: WorkloadInfo | None) -> tuple[str | None, Usage]:
        """Subtract the quota that a workload held from the usage; return where and how much."""
        held = self._view.admission(key) if before is not None else None
        if held is None or before is None:
            return None, {}
        given = usage(held, before)
        add(self._tables.usage[held.cluster_queue], given, sign=-1)
        _discard(self._tables.reserving, held.cluster_queue, key)
        self._tables.reserved_only.discard(key)
        self._tables.passed.discard(key)
        self._tick(held.cluster_queue, key)
        return held.cluster_queue, given

    def _tick(self, cluster_queue: str, workload: str) -> None:
        versions, logs = self._tables.usage_versions, self._tables.usage_logs
        versions[cluster_queue] = versions.get(cluster_queue, 0) + 1
        log = logs.get(cluster_queue)
        if log is None:
            log = logs[cluster_queue] = deque(maxlen=_LATEST)
        log.append(workload)

    def _changed(
        self,
        workload: WorkloadInfo,
        before: WorkloadInfo | None,
        *,
        released: tuple[str | None, Usage],
        taken: tuple[str | None, Usage],
    ) -> QueueChange:
        queues = {workload.queue, *((before.queue,) if before else ())}
        clusters = {name for name in (released[0], taken[0]) if name}
        clusters |= {q.cluster_queue for q in map(self._tables.local_queues.get, queues) if q}
        return QueueChange(
            workloads=frozenset((workload.key,)),
            released=_freed(released, taken) | self._easier(workload, before),
            cluster_queues=frozenset(clusters),
            local_queues=frozenset(queues),
            jobs=self._jobs_with(workload, before),
        )

    def _easier(self, workload: WorkloadInfo, before: WorkloadInfo | None) -> frozenset[str]:
        """Return the ClusterQueue of a workload that others may preempt now, for its priority."""
        held = self._view.admission(workload.key)
        if held is None or before is None or before.priority <= workload.priority:
            return frozenset()
        return frozenset((held.cluster_queue,))

    def _jobs_with(
        self, workload: WorkloadInfo, before: WorkloadInfo | None
    ) -> frozenset[tuple[str, str]]:
        """Return the jobs that the change of a workload concerns.

        Its own, what that made, and jobs that wait for a workload of this name.
        """
        tables = self._tables
        owners = {owner.uid for w in (workload, before) if w is not None for owner in w.owners}
        namespace = workload.meta.namespace
        jobs = (self._view.job_of(uid, namespace) for uid in owners)
        keys = {job.key for job in jobs if job is not None}
        keys.update(*(tables.children.get((namespace, uid), ()) for uid in owners))
        keys.update(tables.by_prebuilt.get(workload.key, ()))
        units = {tables.jobs[key].unit for key in keys}
        # Of a group of pods the owners may all have been replaced.
        follows = workload.is_of_pods or workload.service
        named = (group_unit(workload.key) if follows else None, workload.service)
        return frozenset(units.union(each for each in named if each and each in tables.units))

    def _units_of(self, job: JobObject) -> frozenset[tuple[str, str]]:
        """Return the job, and its service or the pods of its services."""
        tables, namespace = self._tables, job.meta.namespace
        leader = tables.workloads.get(f"{namespace}/{job.group}") if job.group else None
        if leader is not None and leader.service is not None:
            return frozenset((job.unit, leader.service))
        if job.kind not in SERVICES.values():
            return frozenset((job.unit,))
        followed = map(group_unit, self._view.workloads_of(job.meta.uid, namespace))
        return frozenset((job.unit, *followed))

    # -- jobs

    def _put_job(self, job: JobObject) -> QueueChange:
        if job.meta.version < self._gone.get(job.meta.uid, 0):
            return _NOTHING
        before = self._tables.jobs.get(job.key)
        if before is not None:
            if job.meta.version <= before.meta.version and job.meta.uid == before.meta.uid:
                return _NOTHING
            self._unindex_job(before)
        self._tables.jobs[job.key] = job
        self._tables.job_uids[job.meta.uid] = job.key
        self._tables.units[job.unit].add(job.key)
        if job.owner is not None:
            self._tables.children[job.meta.namespace, job.owner.uid].add(job.key)
        if job.prebuilt:
            self._tables.by_prebuilt[job.prebuilt].add(job.key)
        return QueueChange(jobs=self._units_of(job))

    def _drop_job(self, job: JobObject, news: float) -> QueueChange:
        """Forget a job; only its version `news`, or a later one, brings it back."""
        before = self._tables.jobs.get(job.key)
        self._remember(job.meta.uid, news)
        if before is None or before.meta.uid != job.meta.uid:
            return _NOTHING
        del self._tables.jobs[job.key]
        self._unindex_job(before)
        workloads = {*self._view.workloads_of(job.meta.uid, job.meta.namespace)}
        named = f"{job.meta.namespace}/{job.group}"  # it may have no owner any more
        workloads.update({named} & self._tables.workloads.keys())
        return QueueChange(jobs=self._units_of(before), workloads=frozenset(workloads))

    def _unindex_job(self, job: JobObject) -> None:
        self._tables.job_uids.pop(job.meta.uid, None)
        _discard(self._tables.units, job.unit, job.key)
        if job.owner is not None:
            _discard(self._tables.children, (job.meta.namespace, job.owner.uid), job.key)
        if job.prebuilt:
            _discard(self._tables.by_prebuilt, job.prebuilt, job.key)

    def _jobs_listed(self, event: ev.JobsListed) -> Iterator[QueueChange]:
        there = {job.key: job for job in event.jobs}
        self._doubt(self._tables.jobs, there, event.version)
        for key in [*self._tables.jobs]:
            job = None if key in there else self._tables.jobs.get(key)
            if job and job.kind == event.kind and _was_there(job, event.version):
                yield self._drop_job(job, max(event.version, job.meta.version) + 1)
            else:
                yield _NOTHING
        yield from map(self._put_job, event.jobs)


def _arrived(record: WorkloadInfo, before: WorkloadInfo | None) -> WorkloadInfo:
    """Return a workload with the version in which it was first seen."""
    known = before is not None and before.meta.uid == record.meta.uid
    arrival = before.arrival if before is not None and known else record.meta.version
    return record if record.arrival == arrival else replace(record, arrival=arrival)


def _key(record: Record) -> str:
    return record.name if isinstance(record, _Named) else record.meta.key


def _uid(record: Record) -> str:
    return "" if isinstance(record, _Named) else record.meta.uid


def _was_there(record: Record | JobObject, version: int) -> bool:
    """Return whether a list of a version should have an object: what is newer, it cannot have."""
    return isinstance(record, _Named) or not version or record.meta.version <= version


def _is_older(record: Record, than: Record) -> bool:
    if isinstance(record, _Named) or isinstance(than, _Named):
        return False
    return record.meta.version < than.meta.version


def _shape(record: Record | None) -> object:
    """Return what of a record decides about others: what its users asked for, not its status."""
    match record:
        case ClusterQueueInfo(meta=meta):
            return meta.uid, meta.generation, meta.terminating, _own(meta)
        case LocalQueueInfo(meta=meta):
            return meta.uid, meta.generation, meta.terminating
        case FlavorInfo(meta=meta) | TopologyInfo(meta=meta) | CohortInfo(meta=meta):
            return meta.uid, meta.generation
        case AdmissionCheckInfo(meta=meta):
            return meta.uid, meta.generation, record.active
        case _:
            return record


def _own(meta: Meta) -> set[tuple[str, str]]:
    """Return those annotations and labels that are settings of ours."""
    said = chain(meta.annotations.items(), meta.labels.items())
    return {pair for pair in said if pair[0].startswith(OWN_PREFIX)}


def _freed(released: tuple[str | None, Usage], taken: tuple[str | None, Usage]) -> frozenset[str]:
    """Return the ClusterQueue that got quota back, if any did."""
    where, before = released
    if where is None:
        return frozenset()
    after = taken[1] if taken[0] == where else {}
    freed = any(amount > after.get(key, 0) for key, amount in before.items())
    return frozenset((where,)) if freed else frozenset()


def _add(sets: dict[K, set[V]], key: K, value: V) -> None:
    sets[key].add(value)


def _discard(sets: dict[K, set[V]], key: K, value: V) -> None:
    found = sets.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del sets[key]


def _union(changes: Iterable[QueueChange]) -> QueueChange:
    """Return one change for many."""
    found = [change for change in changes if change != _NOTHING]
    return QueueChange(
        workloads=frozenset().union(*(c.workloads for c in found)),
        released=frozenset().union(*(c.released for c in found)),
        structure=any(c.structure for c in found),
        cluster_queues=frozenset().union(*(c.cluster_queues for c in found)),
        local_queues=frozenset().union(*(c.local_queues for c in found)),
        jobs=frozenset().union(*(c.jobs for c in found)),
        flavors=frozenset().union(*(c.flavors for c in found)),
        checks=frozenset().union(*(c.checks for c in found)),
        namespaces=frozenset().union(*(c.namespaces for c in found)),
        priority_classes=frozenset().union(*(c.priority_classes for c in found)),
    )


def add(into: Usage, more: Usage, *, sign: int = 1) -> None:
    """Add in place, or subtract; what reaches zero is dropped."""
    for key, amount in more.items():
        left = into.get(key, 0) + sign * amount
        if left:
            into[key] = left
        else:
            into.pop(key, None)
