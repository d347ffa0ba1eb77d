"""The start of a simulation from a cluster or a snapshot, which is listed once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from extender.api.values import seconds
from extender.api.wellknown import EXPECTED_RUN, MAX_EXEC_TIME_LABEL
from extender.config.settings import Settings
from extender.jobs import fields, registry
from extender.jobs.job import template_of
from extender.jobs.workload import pod_group_key
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.queues import objects
from extender.kube.watch import everything
from extender.state.cluster.records import JobInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue import events as qe
from extender.state.queue.events import Record
from extender.state.queue.records import PodSetInfo, WorkloadInfo
from extender.state.queue.view import QueueView
from gang_tools.simulate.world import SimJob, World
from gang_tools.snapshot.file import ObjectSource
from gang_tools.snapshot.reading import ClusterReader

_decode = msgspec.json.Decoder(dict[str, Any]).decode
POD: Final = "Pod"
R = TypeVar("R", PodInfo, JobInfo)


def expected(job: Mapping[str, object], templates: Iterable[Mapping[str, object]]) -> float | None:
    """Return for how many seconds a job runs; None where nothing says it.

    An annotation says what is expected. What only ends it, a deadline, is the longest it can run.
    """
    parts = [job, *templates]
    for part in parts:
        said = fields.annotation(part, EXPECTED_RUN)
        found = seconds(said) if said else None
        if found is not None:
            return float(found)
    deadlines = [fields.number(part, "spec", "activeDeadlineSeconds") for part in parts]
    label = fields.label(job, MAX_EXEC_TIME_LABEL)
    deadlines += [int(label)] if label.isdecimal() else []
    known = [float(each) for each in deadlines if each is not None and each > 0]
    return min(known, default=None)


def _records(view: QueueView) -> Iterator[Record]:
    tables = (
        *(view.namespaces, view.flavors, view.topologies, view.cohorts, view.cluster_queues),
        *(view.local_queues, view.priority_classes, view.workload_priority_classes),
    )
    for table in tables:
        yield from table.values()
    yield from _unfinished(view)


def _unfinished(view: QueueView) -> list[WorkloadInfo]:
    return [w for w in view.workloads.values() if not w.finished and not w.meta.terminating]


class TakenState:
    """The state that a simulation takes over, with a job for each workload and for other pods."""

    def __init__(
        self,
        cluster: ClusterView,
        queues: QueueView,
        settings: Settings,
        *,
        now: float,
        runs: Mapping[str, float],
        assumed: float | None,
    ) -> None:
        """Take a state at a time, in seconds since the epoch.

        `runs` is for how many seconds pods run, by their UID or that of their controller; those
        that do not say it run for `assumed` seconds.
        """
        self._cluster, self._queues, self._settings = cluster, queues, settings
        self._now, self._known_runs, self._assumed = now, runs, assumed
        self._ends: dict[str, float] = {}
        """The ends of pods by UID, in seconds from now."""
        self._taken: set[str] = set()
        self._by_workload: dict[str, list[PodInfo]] = {}
        for pod in cluster.pods.values():
            for key in self._workloads(pod):
                self._by_workload.setdefault(key, []).append(pod)

    def world(self) -> World:
        """Return the world that goes on from the state."""
        cluster, queues, settings = self._cluster, self._queues, self._settings
        running = [*self._of_workloads(), *self._of_others()]
        groups = map(cluster.pod_group, sorted(cluster.pod_groups))
        uids = {pod.controller for pod in cluster.pods.values() if pod.controller}
        jobs = filter(None, map(cluster.job, sorted(uids)))
        return World(
            nodes=[*cluster.nodes.values()],
            records=[*_records(queues)],
            jobs=[],
            queue=settings.queue.options(),
            gang=settings.gang.options(),
            makes_groups=settings.queue.pod_groups == "Auto",
            running=running,
            pod_groups=[*filter(None, groups)],
            # Here the simulated queue alone says which jobs have pods.
            batch_jobs=[replace(each, held_by_queue=None) for each in jobs],
            pod_ends=self._ends,
            began=self._now,
            version=1 + max((each.meta.version for each in queues.workloads.values()), default=0),
        )

    def _workloads(self, pod: PodInfo) -> Iterable[str]:
        if pod.workload is not None:
            return (pod.workload,)
        owner = pod.controller
        return self._queues.workloads_of(owner, pod.namespace) if owner else ()

    def _of_workloads(self) -> Iterator[SimJob]:
        """Yield the jobs of all workloads that have not finished, the oldest first."""
        workloads = _unfinished(self._queues)
        for workload in sorted(workloads, key=lambda w: (w.meta.created, w.meta.version)):
            owner = workload.owner
            yield self._job(
                owner.name if owner is not None else workload.meta.name,
                owner.kind if owner is not None else POD,
                self._by_workload.get(workload.key, []),
                sets=workload.pod_sets,
                runs=self._runs(workload),
                workload=workload,
            )

    def _runs(self, workload: WorkloadInfo) -> float | None:
        owner = workload.owner
        source: dict[str, Any] = {}
        if owner is not None:
            known = self._known_runs.get(owner.uid)
            if known is not None:
                return known
            job = self._queues.job_of(owner.uid, workload.meta.namespace)
            source = _decode(job.raw) if job is not None else {}
        runs = expected(source, map(template_of, workload.pod_sets))
        limit = workload.max_execution
        if limit is not None:
            runs = limit if runs is None else min(runs, limit)
        return self._assumed if runs is None else runs

    def _of_others(self) -> Iterator[SimJob]:
        """Yield the jobs of pods that no queue admits, by what controls them."""
        by_owner: dict[str, list[PodInfo]] = {}
        for pod in self._cluster.pods.values():
            if pod.uid not in self._taken:
                by_owner.setdefault(pod.controller or pod.uid, []).append(pod)
        for owner, pods in sorted(by_owner.items()):
            known = self._known_runs.get(owner, self._known_runs.get(pods[0].uid))
            runs = self._assumed if known is None else known
            name = pods[0].owners[0].partition("/")[2] if pods[0].owners else pods[0].name
            shapes: dict[int, list[PodInfo]] = {}
            for pod in pods:
                shapes.setdefault(id(pod.shape), []).append(pod)
            sets = [
                PodSetInfo(f"pods-{n}", len(some), some[0].shape)
                for n, some in enumerate(shapes.values())
            ]
            kind = "Job" if self._cluster.job(owner) is not None else POD
            yield self._job(name, kind, pods, sets=sets, runs=runs)

    def _job(
        self,
        name: str,
        kind: str,
        pods: list[PodInfo],
        *,
        sets: Iterable[PodSetInfo],
        runs: float | None,
        workload: WorkloadInfo | None = None,
    ) -> SimJob:
        view, now = self._cluster, self._now
        self._taken.update(pod.uid for pod in pods)
        if runs is not None:
            for pod in pods:
                if pod.node is not None:
                    self._ends[pod.uid] = max(0.0, (pod.bound_at or now) + runs - now)
        names = {pod.group for pod in pods if pod.group is not None}
        if workload is not None and not pods:
            names = {pod_group_key(workload)}
        group = next(filter(None, map(view.pod_group, sorted(names))), None)
        # What the queue made for a workload it makes anew.
        own = group if group is not None and group.grant is None and workload is None else None
        first = pods[0] if pods else None
        namespace = workload.meta.namespace if workload is not None else ""
        return SimJob(
            name,
            namespace or (first.namespace if first is not None else ""),
            kind,
            0.0,
            runs,
            [*sets],
            priority=workload.priority if workload is not None else first.priority if first else 0,
            pod_group=own,
            workload=workload,
            uid=(first.controller or first.uid) if first is not None else name,
            gang_size=view.quorum(group) if group is not None and pods else 0,
            pods={p.uid: p if p.nominated is None else replace(p, nominated=None) for p in pods},
        )


async def world_of_cluster(
    source: ObjectSource, settings: Settings, *, assumed: float | None
) -> World:
    """Return a world that starts from the state of a cluster, or of a snapshot.

    Pods that do not say how long they run, run for `assumed` seconds. Raises ApiError.
    """
    runs = dict[str, float]()

    def noting(decode: Callable[[bytes], R]) -> Callable[[bytes], R]:
        def read(raw: bytes) -> R:
            found, parts = decode(raw), _decode(raw)
            runs_for = expected(parts, [parts.get("spec", {}).get("template", {})])
            if runs_for is not None:
                runs[found.uid] = runs_for
            return found

        return read

    read = ClusterReader(source.reader, settings.gang)
    decoder = read.decoder
    await read.read_queues(optional=True)
    await read.read_nodes()
    await read.read_pods(decode=noting(decoder.pod), ended=False)
    await read.read_batch_jobs(noting(decoder.job))
    for each in registry.builtin().values():
        if each.compose is not None:
            continue  # pods, which were read
        path = objects(each.group, each.version, each.plural)
        decode = partial(QueueDecoder(decoder).job, kind=each.name, done=each.done)
        # The roles of users list no job of another kind; its workload says most of it.
        with suppress(NotFoundError, ForbiddenError):
            for job in await everything(source.reader, path, decode):
                read.queues.apply(qe.JobApplied(job))
    state = TakenState(
        read.cluster.view(),
        read.queues.view(),
        settings,
        now=source.clock.wall(),
        runs=runs,
        assumed=assumed,
    )
    return state.world()
