"""The queue inside `reconcile`: what feeds it, what decides, what writes."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from extender.api.wellknown import QUEUE_LABEL
from extender.config import Settings
from extender.controllers.admitter import Admitter
from extender.controllers.granted_room import GrantKeeper
from extender.controllers.job import JobController, JobOptions
from extender.controllers.job_counts import JobCounts
from extender.controllers.job_groups import GroupOptions
from extender.controllers.queue_status import QueueStatusController
from extender.controllers.workload import WorkloadController
from extender.controllers.workload_writer import Workloads
from extender.explain.view import View
from extender.jobs import registry
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ApiError
from extender.kube.queues import (
    QueueWriter,
    WorkloadWriter,
)
from extender.kube.recorder import Recorder
from extender.kube.set_aside import SetAside
from extender.queueing import lifecycle
from extender.queueing.quota import QuotaTree
from extender.queueing.room import requires_room
from extender.room.nodes import NodeRoom
from extender.runtime.clock import Clock
from extender.runtime.controller import Controller, Observer
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.state.cluster import Cluster
from extender.state.events import Change as ClusterChange
from extender.state.queues.events import Change
from extender.state.queues.records import (
    WorkloadInfo,
)
from extender.state.queues.store import Queues
from extender.state.relist import cut
from extender.state.snapshot import Snapshot
from extender.telemetry.jobs import JobMetrics
from extender.telemetry.queue import QueueMetrics
from extender.telemetry.queue_gauges import Seen
from extender.wiring.later import Later
from extender.wiring.queue_sources import Sources
from extender.wiring.reflectors import backoff

SETTLE: Final = 0.01
PER_OBJECT: Final = 0.0002
"""Seconds for each object of a job: a look at a group of pods is a look at each of them, and each
of them changes several times, so a large group is looked at less often."""
STATUS_SETTLE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Given:
    """What the queue shares with the rest of the process."""

    decoder: Decoder
    recorder: Recorder
    clock: Clock
    metrics: QueueMetrics
    job_metrics: JobMetrics
    observer: Callable[[str], Observer]
    cluster: Cluster
    pacer: Pacer
    aside: SetAside


class Queue:
    """Everything of the queue, around one client."""

    def __init__(self, settings: Settings, client: KubeClient, given: Given) -> None:
        chosen, recorder, clock = settings.queue, given.recorder, given.clock
        selected = registry.select(chosen.integrations, chosen.external_integrations)
        self.integrations = tuple(selected)
        manages_all = chosen.manage_jobs_without_queue_name
        decoder = QueueDecoder(given.decoder)
        self.queues = Queues(decoder.completed)
        self.queues.on_fault = partial(FAULTS.report, "queues")
        self._snapshot = self.queues.snapshot()
        self._sources = Sources(
            client,
            self.queues,
            decoder,
            integrations=selected,
            job_selector="" if manages_all else QUEUE_LABEL,
            pacer=given.pacer,
        )
        self.reflectors = self._sources.reflectors
        self._metrics = given.metrics
        self._job_counts = JobCounts(self._snapshot, given.job_metrics, clock)
        workloads = Workloads(self.queues, WorkloadWriter(client, decoder), written=self._count)
        kinds = frozenset(f"{each.group}/{each.kind}" for each in selected)
        options = replace(chosen.options(), kinds=kinds)
        self.admitter = Admitter(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            options=options,
            metrics=given.metrics,
        )
        cluster = self._cluster = given.cluster.snapshot()
        room = self.admitter.room = NodeRoom(self._snapshot, cluster)
        given.cluster.watch_room(self._on_room)
        controller = partial(
            Controller[Any], new_backoff=lambda: backoff(0.05, 30.0), retried=ApiError
        )
        jobs = JobController(
            self.queues,
            workloads,
            self._sources.jobs,
            record=recorder.record,
            clock=clock,
            options=JobOptions(
                integrations={each.name: each for each in selected},
                manage_without_queue_name=manages_all,
                namespace_selector=chosen.selector(),
                admission=options,
                release_quota=chosen.release_quota,
                pod_groups=GroupOptions(
                    makes_pod_groups=self._makes_pod_groups(chosen.pod_groups),
                    rooms=room.found_for,
                    group_size=partial(_group_size, cluster),
                    is_granted=lambda group: bool(cluster.stored_grants(group)),
                ),
            ),
        )
        jobs.aside = given.aside
        keeper = self._keeper = GrantKeeper(
            cluster, self._snapshot, self._sources.jobs, clock=clock
        )
        self._grants = controller(
            keeper.reconcile, observer=given.observer("granted-room"), settle=SETTLE
        )
        given.cluster.subscribe(self._on_cluster)
        of_workloads = WorkloadController(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            given=lifecycle.Given(options, jobs.pods_ready),
            jobs=self._sources,
        )
        of_workloads.learn = jobs.learn
        self._workloads = controller(
            of_workloads.reconcile,
            observer=given.observer("workload"),
            settle=SETTLE,
        )
        self._jobs_controller = controller(
            self._job_counts.counting(jobs.reconcile),
            observer=given.observer("job"),
            settle=lambda key: SETTLE + PER_OBJECT * self._snapshot.size(key),
        )
        self._status = controller(
            QueueStatusController(
                self.queues, QueueWriter(client), record=recorder.record, clock=clock
            ).reconcile,
            observer=given.observer("queue-status"),
            settle=STATUS_SETTLE,
        )
        self._clock, self._options, self._manages_all = clock, options, manages_all
        self._tree: QuotaTree | None = None
        self._leads = False
        self._later, self._pacer = Later(), given.pacer
        self.queues.subscribe(self._on_change)

    def _makes_pod_groups(self, mode: Literal["Auto", "Off"]) -> Callable[[str], bool]:
        """Return whether jobs of a ClusterQueue get PodGroups: where they also need room."""

        def makes(name: str) -> bool:
            queue = self._snapshot.cluster_queues.get(name)
            return mode == "Auto" and queue is not None and requires_room(queue, self._options)

        return makes

    def seen(self) -> Seen | None:
        """Return the state for gauges, on the leader."""
        return Seen(self._snapshot, self.admitter.pending) if self._leads else None

    def view(self, cluster: Snapshot) -> View | None:
        """Return the state for explanations, on the leader; not to be kept across an `await`."""
        if not self._leads:
            return None
        self._tree = QuotaTree.of(self._snapshot, self._tree)
        self._tree.begin()
        return View(
            self._snapshot,
            self.admitter.pending,
            self._tree,
            self._options,
            cluster,
            self._clock.wall(),
            self.admitter.why,
            NodeRoom(self._snapshot, cluster),
        )

    def _count(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        held = before.admission or after.admission
        queue = held.cluster_queue if held else self._snapshot.cluster_queue_of(after)
        self._metrics.changed(before, after, queue or "")
        self._job_counts.changed(before, after)

    async def run(self, *, after_another: bool) -> None:
        """Work, as the leader, until cancelled; there may have been another one before."""
        if after_another:
            await self._sources.catch_up()
        self._leads = True
        try:
            await self._pacer.go_through(map(self._on_change, self._everything()))
            self._notice_grants(self._keeper.granted(self._cluster.pod_groups))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._workloads.run())
                tasks.create_task(self._grants.run())
                tasks.create_task(self._jobs_controller.run())
                tasks.create_task(self._status.run())
                tasks.create_task(self._follow())
                tasks.create_task(self.admitter.run())
        finally:
            self._leads = False

    def _everything(self) -> Iterator[Change]:
        """Yield changes that touch all there is, a few objects each."""
        view = self._snapshot
        yield Change(
            cluster_queues=frozenset(view.cluster_queues),
            local_queues=frozenset(view.local_queues),
            flavors=frozenset(view.flavors),
        )
        for keys in cut([*view.workloads]):
            yield Change(workloads=frozenset(keys))
        for units in cut([*view.units]):
            yield Change(jobs=frozenset(units))

    def _on_room(self) -> None:
        if self._leads:
            self.admitter.on_room()

    def _on_cluster(self, change: ClusterChange) -> None:
        """Look at granted room when its PodGroup changed, or has pods on nodes."""
        if self._leads:
            self._notice_grants(self._keeper.granted(change.groups | change.statuses))

    def _notice_grants(self, groups: Iterable[str]) -> None:
        for group in groups:
            self._grants.notice(group)

    def _on_change(self, change: Change) -> None:
        if not self._leads:
            return
        self.admitter.on_change(change)
        for key in change.workloads:
            self._workloads.notice(key)
        self._notice_grants(self._keeper.backed_by(change.workloads))
        for job in change.jobs:
            self._notice_job(job)
        for plural, names in (
            ("clusterqueues", change.cluster_queues),
            ("localqueues", change.local_queues),
            ("resourceflavors", change.flavors),
        ):
            for name in names:
                self._status.notice((plural, name))
        self._later.note(change)
        if change.namespaces:
            self._notice_namespaces(change.namespaces)

    def _notice_job(self, job: tuple[str, str]) -> None:
        """Look at a job, and at its workload: what is said of its time-outs may be new."""
        self._jobs_controller.notice(job)
        objects = self._snapshot.unit(job)
        first = objects[0].meta if objects else None
        for key in self._snapshot.workloads_of(first.uid, first.namespace) if first else ():
            self._workloads.notice(key)

    async def _follow(self) -> None:
        """Look at all for which a setting may have made a difference, until cancelled."""
        while True:
            queues, classes = await self._later.take()
            names = self.admitter.pending.together(queues, self._snapshot)
            await self._pacer.go_through(map(self._notice_queue, names))
            await self._pacer.go_through(self._notice_classes(classes))

    def _notice_classes(self, classes: Collection[str]) -> Iterator[None]:
        """Look at the workloads of WorkloadPriorityClasses, one a step."""
        for key, workload in [*self._snapshot.workloads.items()] if classes else ():
            if workload.workload_priority_class in classes:
                self._workloads.notice(key)
            yield

    def _notice_queue(self, name: str) -> None:
        """Look at a ClusterQueue, its LocalQueues and its workloads."""
        view = self._snapshot
        self._status.notice(("clusterqueues", name))
        keys = {*view.reserving(name)}
        for local_queue in view.local_queues_of(name):
            self._status.notice(("localqueues", local_queue))
            keys.update(view.waiting_in(local_queue))
        for key in keys:
            self._workloads.notice(key)
            workload = view.workloads[key]
            if workload.admission is not None:  # its flavor may have been missing
                self._notice_jobs(workload)

    def _notice_namespaces(self, namespaces: Collection[str]) -> None:
        """Look at the jobs without a queue's name in namespaces that may be selected now."""
        for unit in self._snapshot.units if self._manages_all else ():
            if unit[1].split("/", 1)[0] in namespaces:
                self._jobs_controller.notice(unit)

    def _notice_jobs(self, workload: WorkloadInfo) -> None:
        for owner in workload.owners:
            job = self._snapshot.job_of(owner.uid, workload.meta.namespace)
            if job is not None:
                self._jobs_controller.notice(job.unit)


def _group_size(cluster: Snapshot, group: str) -> tuple[int, int] | None:
    found = cluster.pod_group(group)
    return (found.min_member, found.done) if found is not None else None
