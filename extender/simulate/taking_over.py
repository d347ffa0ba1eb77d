"""A world out of the state of a cluster: what runs there goes on, and what waits has its turn."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from extender.gang.options import GangOptions
from extender.jobs.gang import pod_group_key
from extender.jobs.job import template_of
from extender.queueing.options import AdmissionOptions
from extender.simulate.expected import expected
from extender.simulate.jobs import SimJob
from extender.simulate.world import World
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.events import Record
from extender.state.queue.records import PodSetInfo, WorkloadInfo
from extender.state.queue.view import QueueView

_decode = msgspec.json.Decoder(dict[str, Any]).decode
POD: Final = "Pod"


@dataclass(frozen=True, slots=True)
class Believed:
    """The state that a simulation takes over, at a time in seconds since the epoch."""

    cluster: ClusterView
    queues: QueueView
    now: float
    gang: GangOptions
    admission: AdmissionOptions
    makes_groups: bool = True
    runs: Mapping[str, float] = field(default_factory=dict)
    """For how many seconds pods run in all, by their UID or that of their controller."""
    assumed: float | None = None
    """The same of pods of which nothing says it."""


def world_of_state(found: Believed) -> World:
    """Return the world that goes on from a state."""
    taken = _Taking(found)
    running = [*taken.of_workloads(), *taken.of_others()]
    for number, job in enumerate(running):
        job.number = number
    groups = (found.cluster.pod_group(key) for key in sorted(found.cluster.pod_groups))
    uids = {pod.controller for pod in found.cluster.pods.values() if pod.controller}
    return World(
        nodes=[*found.cluster.nodes.values()],
        records=[*_records(found.queues)],
        jobs=[],
        queue=found.admission,
        gang=found.gang,
        makes_groups=found.makes_groups,
        running=running,
        pod_groups=[each for each in groups if each is not None],
        # Here the simulated queue alone says which jobs have pods.
        batch_jobs=[
            replace(j, held_by_queue=None) for j in map(found.cluster.job, sorted(uids)) if j
        ],
        ends=taken.ends,
        began=found.now,
        version=1 + max((each.meta.version for each in found.queues.workloads.values()), default=0),
    )


def _records(view: QueueView) -> Iterator[Record]:
    tables = (
        *(view.namespaces, view.flavors, view.topologies, view.cohorts, view.cluster_queues),
        *(view.local_queues, view.priority_classes, view.workload_priority_classes),
    )
    for table in tables:
        yield from table.values()
    for workload in view.workloads.values():
        if not workload.finished and not workload.meta.terminating:
            yield workload


class _Taking:
    """Jobs out of workloads and pods."""

    def __init__(self, found: Believed) -> None:
        self._found = found
        self.ends: dict[str, float] = {}
        """When pods end, in seconds from now, by UID."""
        self._taken: set[str] = set()
        self._by_workload: dict[str, list[PodInfo]] = {}
        for pod in found.cluster.pods.values():
            for key in self._workloads(pod):
                self._by_workload.setdefault(key, []).append(pod)

    def _workloads(self, pod: PodInfo) -> Iterable[str]:
        if pod.workload is not None:
            return (pod.workload,)
        owner = pod.controller
        return self._found.queues.workloads_of(owner, pod.namespace) if owner else ()

    def of_workloads(self) -> Iterator[SimJob]:
        """Yield the jobs of all workloads that have not finished, the oldest first."""
        workloads = [w for w in self._found.queues.workloads.values() if not w.finished]
        for workload in sorted(workloads, key=lambda w: (w.meta.created, w.meta.version)):
            if workload.meta.terminating:
                continue
            pods = self._by_workload.get(workload.key, [])
            runs = self._runs(workload)
            owner = workload.owner
            yield self._job(
                owner.name if owner is not None else workload.meta.name,
                owner.kind if owner is not None else POD,
                pods,
                sets=workload.pod_sets,
                runs=runs,
                workload=workload,
            )

    def _runs(self, workload: WorkloadInfo) -> float | None:
        owner = workload.owner
        source: dict[str, Any] = {}
        if owner is not None:
            known = self._found.runs.get(owner.uid)
            if known is not None:
                return known
            job = self._found.queues.job_of(owner.uid, workload.meta.namespace)
            source = _decode(job.raw) if job is not None else {}
        runs = expected(source, map(template_of, workload.pod_sets))
        limit = workload.max_execution
        if limit is not None:
            runs = limit if runs is None else min(runs, limit)
        return self._found.assumed if runs is None else runs

    def of_others(self) -> Iterator[SimJob]:
        """Yield the jobs of pods that no queue admits, by what controls them."""
        by_owner: dict[str, list[PodInfo]] = {}
        for pod in self._found.cluster.pods.values():
            if pod.uid not in self._taken:
                by_owner.setdefault(pod.controller or pod.uid, []).append(pod)
        for owner, pods in sorted(by_owner.items()):
            known = self._found.runs.get(owner, self._found.runs.get(pods[0].uid))
            runs = self._found.assumed if known is None else known
            name = pods[0].owners[0].partition("/")[2] if pods[0].owners else pods[0].name
            shapes: dict[int, list[PodInfo]] = {}
            for pod in pods:
                shapes.setdefault(id(pod.shape), []).append(pod)
            sets = [
                PodSetInfo(f"pods-{n}", len(some), some[0].shape)
                for n, some in enumerate(shapes.values())
            ]
            kind = "Job" if self._found.cluster.job(owner) is not None else POD
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
        view, now = self._found.cluster, self._found.now
        self._taken.update(pod.uid for pod in pods)
        if runs is not None:
            for pod in pods:
                if pod.node is not None:
                    self.ends[pod.uid] = max(0.0, (pod.bound_at or now) + runs - now)
        names = {pod.group for pod in pods if pod.group is not None}
        if workload is not None and not pods:
            names = {pod_group_key(workload)}
        group = next(filter(None, map(view.pod_group, sorted(names))), None)
        # What the queue made for a workload it makes anew.
        own = group if group is not None and group.grant is None and workload is None else None
        first = pods[0] if pods else None
        namespace = workload.meta.namespace if workload is not None else ""
        return SimJob(
            0,
            name,
            namespace or (first.namespace if first is not None else ""),
            kind,
            0.0,
            runs,
            [*sets],
            priority=workload.priority if workload is not None else first.priority if first else 0,
            queue=workload.queue_name if workload is not None else "",
            pod_group=own,
            workload=workload,
            uid=(first.controller or first.uid) if first is not None else name,
            need=view.quorum(group) if group is not None and pods else 0,
            pods={pod.uid: replace(pod, nominated=None) for pod in pods},
        )
