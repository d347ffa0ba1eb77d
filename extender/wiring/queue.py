"""Puts together the queue inside `reconcile`: its sources, its decisions, its writers."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from extender.api.reasons import JobReason, Preempted
from extender.api.wellknown import QUEUE_LABEL
from extender.config import Settings
from extender.controllers.admission import AdmissionLoop
from extender.controllers.admitted_pods import GrantKeeper, LostHosts, TopologyGates
from extender.controllers.job import JobController, JobCounts
from extender.controllers.job_facts import JobOptions, PodGroups
from extender.controllers.queue_status import QueueStatusController
from extender.controllers.workload import WorkloadController, Workloads, about
from extender.explain.facts import Facts
from extender.jobs import registry
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import ManagedJobs, QueueDecoder
from extender.kube.errors import ApiError
from extender.kube.pods import TopologyGateWriter
from extender.kube.queues import QueueWriter, WorkloadWriter, write_managed_jobs
from extender.kube.recorder import Event, ObjectRef, Recorder
from extender.kube.reflector import ObjectsSetAside
from extender.queueing import lifecycle
from extender.queueing.lost_hosts import HostRules
from extender.queueing.preempt import Victim
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionRules
from extender.room.nodes import NodeRoom
from extender.room.pods import members, workloads_of
from extender.runtime.clock import Clock, Pacer
from extender.runtime.controller import Controller, Observer
from extender.runtime.faults import FAULTS
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.state.queue.events import QueueChange
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues
from extender.steps import cut
from extender.telemetry.queue_metrics import JobMetrics, QueueMetrics, QueueState
from extender.wiring.memory import queue_memory, queue_objects
from extender.wiring.queue_sources import Sources
from extender.wiring.reflectors import backoff

_log = structlog.get_logger(__name__)

SETTLE: Final = 0.01
PER_OBJECT: Final = 0.0002
"""Seconds for each object of a job: a look at a group of pods is a look at each of them, and each
of them changes several times, so a large group is looked at less often."""
STATUS_SETTLE: Final = 0.1
NUMBERS_SETTLE: Final = 0.5
"""Seconds before new numbers of workloads are written to the status of a queue."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of the process that the queue shares."""

    decoder: Decoder
    recorder: Recorder
    clock: Clock
    metrics: QueueMetrics
    job_metrics: JobMetrics
    observer: Callable[..., Observer]
    """Makes the observer of a controller; what Events about one of its keys point to may follow
    the name."""
    about_group: Callable[[str], ObjectRef | None]
    cluster: Cluster
    pacer: Pacer
    aside: ObjectsSetAside


class QueueControllers:
    """Everything of the queue, around one client."""

    def __init__(self, settings: Settings, client: KubeClient, shared: Shared) -> None:
        chosen, recorder, clock = settings.queue, shared.recorder, shared.clock
        selected = registry.select(chosen.integrations, chosen.external_integrations)
        self.integrations, manages_all = tuple(selected), chosen.manage_jobs_without_queue_name
        decoder = QueueDecoder(shared.decoder)
        self.queues = Queues(decoder.completed)
        self.queues.on_fault = partial(FAULTS.report, "queues")
        self._view = self.queues.view()
        self._sources = Sources(
            client,
            self.queues,
            decoder,
            cluster=shared.cluster,
            integrations=selected,
            job_selector="" if manages_all else QUEUE_LABEL,
        )
        self.reflectors = self._sources.reflectors
        self._metrics, self._pacer = shared.metrics, shared.pacer
        self._job_counts = JobCounts(self._view, shared.job_metrics, clock)
        workloads = Workloads(
            self.queues,
            WorkloadWriter(client, decoder),
            written=self._count,
            record=recorder.record,
        )
        kinds = frozenset(f"{each.group}/{each.kind}" for each in selected)
        options = replace(chosen.options(), kinds=kinds)
        cluster = self._cluster = shared.cluster.view()
        room = self._room = NodeRoom(self._view, cluster)
        self.admission = AdmissionLoop(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            rules=AdmissionRules(options, room, self._view.flavors),
            metrics=shared.metrics,
        )
        hosts = self._hosts = LostHosts(
            self.queues,
            cluster,
            workloads=workloads,
            room=room,
            record=recorder.record,
            clock=clock,
            rules=HostRules(settings.gang.on_partial, settings.gang.options()),
        )
        # Lost hosts are replaced between two cycles of admission.
        self.admission.before_cycle, hosts.wake = hosts.replace, self.admission.wake
        shared.cluster.watch_room(self._on_room)
        controller = partial(
            Controller[Any], new_backoff=lambda: backoff(0.05, 30.0), retried=ApiError
        )
        jobs = JobController(
            self.queues,
            workloads,
            self._sources.jobs,
            record=partial(self._of_job, recorder.record),
            clock=clock,
            options=JobOptions(
                integrations={each.name: each for each in selected},
                manage_without_queue_name=manages_all,
                namespace_selector=chosen.selector(),
                admission=options,
                release_quota=chosen.release_quota,
                aside=shared.aside,
                pod_groups=PodGroups(
                    self._view,
                    cluster,
                    room,
                    options=options,
                    make=chosen.pod_groups == "Auto",
                    clock=clock,
                ),
            ),
        )
        keeper = self._keeper = GrantKeeper(
            cluster, self._view, self._sources.jobs, clock=clock, record=recorder.record
        )
        self._grants = controller(
            keeper.reconcile,
            observer=shared.observer("granted-room", shared.about_group),
            settle=SETTLE,
        )
        self._gates = controller(
            TopologyGates(self._view, cluster, TopologyGateWriter(client), clock=clock).reconcile,
            observer=shared.observer("topology-gate", self._about_workload),
            settle=SETTLE,
        )
        shared.cluster.subscribe(self._on_cluster)
        of_workloads = WorkloadController(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            rules=lifecycle.LifecycleRules(options, jobs.pods_ready),
            jobs=self._sources,
        )
        self._workloads = controller(
            of_workloads.reconcile, observer=shared.observer("workload"), settle=SETTLE
        )
        self._jobs_controller = controller(
            self._job_counts.counting(jobs.reconcile),
            observer=shared.observer("job"),
            settle=lambda key: SETTLE + PER_OBJECT * self._view.size(key),
        )
        status = QueueStatusController(
            self.queues, QueueWriter(client), record=recorder.record, clock=clock
        )
        self._status = controller(
            status.reconcile,
            observer=shared.observer("queue-status", status.about),
            settle=STATUS_SETTLE,
        )
        self._clock, self._manages_all, self.options = clock, manages_all, options
        self._managed = (
            *(client, settings.reconcile.lease_namespace),
            ManagedJobs(tuple(sorted(kinds)) if manages_all else (), chosen.selector()),
        )
        self._tree: QuotaTree | None = None
        self._leads, self._news = False, asyncio.Event()
        self._queues_to_follow, self._classes_to_follow = set[str](), set[str]()
        self.queues.subscribe(self._on_change)

    def _about_workload(self, key: str) -> ObjectRef | None:
        found = self._view.workloads.get(key)
        return about(found) if found is not None else None

    def seen(self) -> QueueState | None:
        """Return the state for gauges, on the leader."""
        if not self._leads:
            return None
        return QueueState(self._view, self.admission.pending, self._room.reserved)

    def facts(self, cluster: ClusterView) -> Facts | None:
        """Return the state for explanations, on the leader; not to be kept across an `await`."""
        if not self._leads:
            return None
        self._tree = QuotaTree.current(self._view, self._tree)
        self._tree.begin()
        return Facts(
            self._view,
            self.admission.pending,
            self._tree,
            AdmissionRules(self.options, NodeRoom(self._view, cluster), self._view.flavors),
            cluster,
            self._clock.wall(),
            self.admission.reasons.reason_of,
        )

    def memory(self) -> dict[str, object]:
        """Return the objects that were read, and on the leader its memory of workloads."""
        found: dict[str, object] = {"objects": queue_objects(self._view)}
        if not self._leads:
            return found
        pending, room = self.admission.pending, self._room
        kept = ((key, room.kept_for(key)) for key in room.reserved)
        return found | queue_memory(
            self._view,
            pending.preemptors,
            blocking=[key for _, key in pending.blocking_heads()],
            reasons=self.admission.reasons.all(),
            kept=[(key, found) for key, found in kept if found is not None],
        )

    def admitted_of(self, pod: PodInfo) -> str | None:
        """Return the admitted Workload of a pod, as `namespace/name`."""
        found = workloads_of(pod, self._view, self._cluster)
        return next((key for key in found if self._view.admission(key) is not None), None)

    def pods_of(self, workload: str) -> Iterable[PodInfo]:
        """Return the pods of a Workload."""
        found = self._view.workloads.get(workload)
        return members(found, queues=self._view, cluster=self._cluster) if found else ()

    async def preempt(self, workload: str, message: str) -> bool:
        """Evict a Workload whose pods make room for a gang; return whether it leaves."""
        return await self.admission.make_room(Victim(workload, Preempted.FOR_GANG, message))

    def _count(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        held = before.admission or after.admission
        queue = held.cluster_queue if held else self._view.cluster_queue_of(after)
        self._metrics.changed(before, after, queue or "")
        self.admission.starts.written(before, after, queue or "")
        self._job_counts.changed(before, after)

    def _of_job(self, record: Callable[[Event], None], event: Event) -> None:
        """Record an Event about a job; one says that it started."""
        if event.reason == JobReason.STARTED:
            self.admission.starts.job_started(event.about.uid, event.about.namespace)
        record(event)

    async def run(self, *, after_another: bool) -> None:
        """Work as the leader until cancelled; there may have been another leader before."""
        if after_another:
            await self._sources.catch_up(self._pacer)
        self._leads = True
        try:
            await self._pacer.go_through(map(self._on_change, self._everything()))
            self._notice_grants(self._keeper.granted(self._cluster.pod_groups))
            self._notice_cohorts()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._say_what_is_managed())
                tasks.create_task(self._workloads.run())
                tasks.create_task(self._grants.run())
                tasks.create_task(self._gates.run())
                tasks.create_task(self._jobs_controller.run())
                tasks.create_task(self._status.run())
                tasks.create_task(self._hosts.run())
                tasks.create_task(self._follow())
                tasks.create_task(self.admission.run())
        finally:
            self._leads = False

    async def _say_what_is_managed(self) -> None:
        """Record for the extender which jobs are held back without a queue name."""
        pauses = backoff(0.2, 30.0)
        while True:
            try:
                return await write_managed_jobs(*self._managed)
            except ApiError as error:
                _log.warning("could not say which jobs are managed", error=str(error))
                await asyncio.sleep(pauses.next())

    def _everything(self) -> Iterator[QueueChange]:
        """Yield changes that together touch all objects, a few at a time."""
        view = self._view
        yield QueueChange(
            cluster_queues=frozenset(view.cluster_queues),
            local_queues=frozenset(view.local_queues),
            flavors=frozenset(view.flavors),
        )
        for keys in cut([*view.workloads]):
            yield QueueChange(workloads=frozenset(keys))
        for units in cut([*view.units]):
            yield QueueChange(jobs=frozenset(units))

    def _on_room(self) -> None:
        if self._leads:
            self.admission.on_room()

    def _on_cluster(self, change: ClusterChange) -> None:
        """Look at granted room when its PodGroup changed, or has pods on nodes."""
        if not self._leads:
            return
        self._notice_grants(self._keeper.granted(change.groups | change.statuses))
        for key in change.gated:
            self._gates.notice(key)

    def _notice_grants(self, groups: Iterable[str]) -> None:
        for group in groups:
            self._grants.notice(group)

    def _on_change(self, change: QueueChange) -> None:
        if not self._leads:
            return
        self.admission.on_change(change)
        for key in change.workloads:
            self._workloads.notice(key)
            self._gates.notice(key)
        self._notice_grants(self._keeper.backed_by(change.workloads))
        for unit in change.jobs:
            self._notice_job(unit)
        numbers = NUMBERS_SETTLE if change.workloads and not change.structure else None
        for plural, names in (
            ("clusterqueues", change.cluster_queues),
            ("localqueues", change.local_queues),
            ("resourceflavors", change.flavors),
        ):
            for name in names:
                self._status.notice((plural, name), within=numbers)
        if change.structure:
            self._notice_cohorts()
            self._queues_to_follow |= change.cluster_queues
        self._classes_to_follow |= change.priority_classes
        if change.structure or change.priority_classes:
            self._news.set()
        # Jobs without a queue's name in these namespaces may be selected now.
        for unit in self._view.units if change.namespaces and self._manages_all else ():
            if unit[1].split("/", 1)[0] in change.namespaces:
                self._jobs_controller.notice(unit)

    def _notice_cohorts(self) -> None:
        for name in self._view.cohorts:
            self._status.notice(("cohorts", name))

    def _notice_job(self, unit: tuple[str, str]) -> None:
        """Reconcile a job, and its workload: the annotations for time-outs may be new."""
        self._jobs_controller.notice(unit)
        objects = self._view.unit(unit)
        first = objects[0].meta if objects else None
        for key in self._view.workloads_of(first.uid, first.namespace) if first else ():
            self._workloads.notice(key)

    async def _follow(self) -> None:
        """Reconcile all objects that a changed queue or class may concern, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            queues, self._queues_to_follow = self._queues_to_follow, set()
            classes, self._classes_to_follow = self._classes_to_follow, set()
            try:
                await self._pacer.go_through(self._notice_classes(classes))
                names = self.admission.pending.sharing_with(queues, self._view)
                await self._pacer.go_through(map(self._notice_queue, names))
            except Exception as error:  # noqa: BLE001 - what changes next is still followed
                FAULTS.report("queue-settings", error)

    def _notice_classes(self, classes: Collection[str]) -> Iterator[None]:
        """Look at the workloads of WorkloadPriorityClasses, one a step."""
        for key, workload in [*self._view.workloads.items()] if classes else ():
            if workload.workload_priority_class in classes:
                self._workloads.notice(key)
            yield

    def _notice_queue(self, name: str) -> None:
        """Look at a ClusterQueue, its LocalQueues and its workloads."""
        view = self._view
        self._status.notice(("clusterqueues", name))
        keys = {*view.reserving(name)}
        for local_queue in view.local_queues_of(name):
            self._status.notice(("localqueues", local_queue))
            keys.update(view.waiting_in(local_queue))
        for key in keys:
            self._workloads.notice(key)
            workload = view.workloads[key]
            # Of an admitted one the flavor may have been missing.
            for owner in workload.owners if workload.admission is not None else ():
                job = view.job_of(owner.uid, workload.meta.namespace)
                if job is not None:
                    self._jobs_controller.notice(job.unit)
