"""The queue inside `reconcile`: what feeds it, what decides, what writes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import quote

import structlog

from extender.api.wellknown import QUEUE_LABEL
from extender.config import Settings
from extender.controllers.admitter import Admitter
from extender.controllers.job import JobController, JobOptions
from extender.controllers.job_counts import JobCounts
from extender.controllers.queue_status import QueueStatusController
from extender.controllers.workload import WorkloadController
from extender.controllers.workload_writer import Workloads
from extender.explain.view import View
from extender.jobs import registry
from extender.jobs.registry import Integration
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ApiError, NotFoundError
from extender.kube.lists import everything
from extender.kube.queues import (
    JobWriter,
    QueueWriter,
    WorkloadWriter,
    collection,
    objects,
)
from extender.kube.recorder import Recorder
from extender.kube.reflector import Reflector
from extender.kube.watch import Watcher
from extender.queueing import lifecycle
from extender.queueing.quota import QuotaTree
from extender.queueing.room import requires_room
from extender.room.nodes import NodeRoom
from extender.runtime.clock import Clock
from extender.runtime.controller import Controller, Observer
from extender.state.cluster import Cluster
from extender.state.queues import events as ev
from extender.state.queues.events import Change, Record
from extender.state.queues.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    JobObject,
    LocalQueueInfo,
    NamespaceInfo,
    OwnerRef,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queues.store import Queues
from extender.state.snapshot import Snapshot
from extender.telemetry.jobs import JobMetrics
from extender.telemetry.queue import QueueMetrics
from extender.telemetry.queue_gauges import Seen
from extender.wiring.reflectors import backoff

_log = structlog.get_logger(__name__)

R = TypeVar("R", bound=Record)

SETTLE: Final = 0.01
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


class Queue:
    """Everything of the queue, around one client."""

    def __init__(self, settings: Settings, client: KubeClient, given: Given) -> None:
        chosen, recorder, clock = settings.queue, given.recorder, given.clock
        self.queues = Queues()
        self._snapshot = self.queues.snapshot()
        selected = registry.select(chosen.integrations, chosen.external_integrations)
        self.integrations = tuple(selected)
        self._integrations = {each.name: each for each in selected}
        self._decoder = QueueDecoder(given.decoder)
        self._client = client
        manages_all = chosen.manage_jobs_without_queue_name
        self._job_selector = "" if manages_all else QUEUE_LABEL
        self._job_reflectors = {each.name: self._jobs(each) for each in selected}
        self.reflectors = [*self._records(), *self._job_reflectors.values()]
        self._metrics = given.metrics
        self._job_counts = JobCounts(self._snapshot, given.job_metrics, clock)
        workloads = Workloads(
            self.queues, WorkloadWriter(client, self._decoder), written=self._count
        )
        options = chosen.options()
        self.admitter = Admitter(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            options=options,
            metrics=given.metrics,
        )
        self.admitter.room = NodeRoom(self._snapshot, given.cluster.snapshot())
        given.cluster.watch_room(self._on_room)
        self._job_writer = JobWriter(client, self._decode_job)
        controller = partial(
            Controller[Any], new_backoff=lambda: backoff(0.05, 30.0), retried=ApiError
        )
        jobs = JobController(
            self.queues,
            workloads,
            self._job_writer,
            record=recorder.record,
            clock=clock,
            options=JobOptions(
                integrations=self._integrations,
                manage_without_queue_name=manages_all,
                namespace_selector=chosen.selector(),
                admission=options,
                release_quota=chosen.release_quota,
                makes_pod_groups=self._makes_pod_groups(chosen.pod_groups),
            ),
        )
        self._workloads = controller(
            WorkloadController(
                self.queues,
                workloads,
                record=recorder.record,
                clock=clock,
                given=lifecycle.Given(options, jobs.pods_ready),
                jobs=self,
            ).reconcile,
            observer=given.observer("workload"),
            settle=SETTLE,
        )
        self._jobs_controller = controller(
            self._job_counts.counting(jobs.reconcile),
            observer=given.observer("job"),
            settle=SETTLE,
        )
        self._status = controller(
            QueueStatusController(self.queues, QueueWriter(client), clock=clock).reconcile,
            observer=given.observer("queue-status"),
            settle=STATUS_SETTLE,
        )
        self._clock, self._options = clock, options
        self._tree: QuotaTree | None = None
        self._leads = False
        self.queues.subscribe(self._on_change)

    def _decode_job(self, raw: bytes, kind: str) -> JobObject:
        integration = self._integrations[kind]
        return self._decoder.job(raw, kind=kind, group_of=integration.group_of)

    def _makes_pod_groups(self, mode: Literal["Auto", "Off"]) -> Callable[[str], bool]:
        """Return whether jobs of a ClusterQueue get PodGroups: where they also need room."""

        def makes(name: str) -> bool:
            queue = self._snapshot.cluster_queues.get(name)
            return mode == "Auto" and queue is not None and requires_room(queue, self._options)

        return makes

    def kinds(self) -> set[str]:
        """Return the kinds, as group/Kind, all of whose jobs are known."""
        return {
            f"{each.group}/{each.kind}"
            for each in self._integrations.values()
            if self._job_reflectors[each.name].synced
        }

    async def read(self, owner: OwnerRef, namespace: str) -> JobObject | None:
        """Return a job as it is stored, None where it is gone. Raises ApiError."""
        group = owner.api_version.rpartition("/")[0]
        of = next(
            i for i in self._integrations.values() if (i.group, i.kind) == (group, owner.kind)
        )
        path = objects(of.group, of.version, of.plural, namespace=namespace)
        try:
            found = await self._job_writer.read(f"{path}/{owner.name}", kind=of.name)
        except NotFoundError:
            return None
        return found if found.meta.uid == owner.uid else None

    def is_watched(self, job: JobObject) -> bool:
        """Return whether the watch shows a job as it is now."""
        return bool(job.queue_name) or not self._job_selector

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
            await self._catch_up()
        self._leads = True
        try:
            self._on_change(self._everything())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._workloads.run())
                tasks.create_task(self._jobs_controller.run())
                tasks.create_task(self._status.run())
                tasks.create_task(self.admitter.run())
        finally:
            self._leads = False

    async def _catch_up(self) -> None:
        """Know all that another leader wrote: a watch may be behind, and not notice for minutes."""
        pauses = backoff(0.2, 5.0)
        while True:
            try:
                return await self._read_all()
            except ApiError as error:
                _log.warning("could not read what there is", error=str(error))
                await asyncio.sleep(pauses.next())

    async def _read_all(self) -> None:
        path = collection("workloads", "")
        for workload in await everything(self._client, path, self._decoder.workload):
            self._tell(ev.Applied(workload))
        for each in self._integrations.values():
            path = objects(each.group, each.version, each.plural)
            decode = partial(self._decode_job, kind=each.name)
            selector = f"&labelSelector={quote(self._job_selector)}" if self._job_selector else ""
            with suppress(NotFoundError):  # there may be no such kind
                for job in await everything(self._client, path, decode, selector=selector):
                    self._tell(ev.JobApplied(job))

    def _everything(self) -> Change:
        view = self._snapshot
        return Change(
            workloads=frozenset(view.workloads),
            cluster_queues=frozenset(view.cluster_queues),
            local_queues=frozenset(view.local_queues),
            flavors=frozenset(view.flavors),
            jobs=frozenset(view.units),
        )

    def _on_room(self) -> None:
        if self._leads:
            self.admitter.on_room()

    def _on_change(self, change: Change) -> None:
        if not self._leads:
            return
        self.admitter.on_change(change)
        for key in change.workloads:
            self._workloads.notice(key)
        for job in change.jobs:
            self._notice_job(job)
        for plural, names in (
            ("clusterqueues", change.cluster_queues),
            ("localqueues", change.local_queues),
            ("resourceflavors", change.flavors),
        ):
            for name in names:
                self._status.notice((plural, name))
        if change.structure:
            self._restructured()

    def _notice_job(self, job: tuple[str, str]) -> None:
        """Look at a job, and at its workload: what is said of its time-outs may be new."""
        self._jobs_controller.notice(job)
        objects = self._snapshot.unit(job)
        for key in self._snapshot.workloads_of(objects[0].meta.uid) if objects else ():
            self._workloads.notice(key)

    def _restructured(self) -> None:
        """Look at everybody for whom a queue's spec may have made a difference."""
        for name in self._snapshot.cluster_queues:
            self._status.notice(("clusterqueues", name))
        for name in self._snapshot.local_queues:
            self._status.notice(("localqueues", name))
        for key, workload in self._snapshot.workloads.items():
            if workload.finished:
                continue
            self._workloads.notice(key)
            if workload.admission is not None:  # its flavor may have been missing
                self._notice_jobs(workload)
        if not self._job_selector:  # their namespace may be selected now
            for unit in self._snapshot.units:
                self._jobs_controller.notice(unit)

    def _notice_jobs(self, workload: WorkloadInfo) -> None:
        for owner in workload.owners:
            job = self._snapshot.job_of(owner.uid)
            if job is not None:
                self._jobs_controller.notice(job.unit)

    def _records(self) -> list[Reflector[Any]]:
        decoder = self._decoder
        return [
            self._reflector("resourceflavors", FlavorInfo, decoder.flavor),
            self._reflector("clusterqueues", ClusterQueueInfo, decoder.cluster_queue),
            self._reflector("cohorts", CohortInfo, decoder.cohort),
            self._reflector("localqueues", LocalQueueInfo, decoder.local_queue),
            self._reflector("workloads", WorkloadInfo, decoder.workload),
            self._reflector(
                "workloadpriorityclasses",
                WorkloadPriorityClassInfo,
                decoder.workload_priority_class,
            ),
            self._reflector(
                "namespaces", NamespaceInfo, decoder.namespace, path="/api/v1/namespaces"
            ),
            self._reflector(
                "priorityclasses",
                PriorityClassInfo,
                decoder.priority_class,
                path="/apis/scheduling.k8s.io/v1/priorityclasses",
            ),
        ]

    def _reflector(
        self, kind: str, record: type[R], decode: Callable[[bytes], R], *, path: str = ""
    ) -> Reflector[R]:
        def listed(found: Sequence[R]) -> None:
            of = cast("type[Record]", record)
            self._tell(ev.Listed(of, found, reflector.version))

        reflector = Reflector[R](
            kind,
            self._watcher(path or collection(kind, "")),
            decode,
            listed=listed,
            applied=lambda found: self._tell(ev.Applied(found)),
            deleted=lambda found: self._tell(ev.Deleted(found)),
        )
        return reflector

    def _jobs(self, integration: Integration) -> Reflector[JobObject]:
        name = integration.name
        reflector = Reflector[JobObject](
            f"jobs of {name}",
            self._watcher(
                objects(integration.group, integration.version, integration.plural),
                self._job_selector,
            ),
            lambda raw: self._decode_job(raw, name),
            listed=lambda found: self._tell(ev.JobsListed(name, found, reflector.version)),
            applied=lambda found: self._tell(ev.JobApplied(found)),
            deleted=lambda found: self._tell(ev.JobDeleted(found)),
        )
        return reflector

    def _watcher(self, path: str, label_selector: str = "") -> Watcher:
        return Watcher(
            self._client,
            path,
            sleep=asyncio.sleep,
            backoff=backoff(0.1, 5.0),
            selectors={"labelSelector": label_selector},
            optional=True,
        )

    def _tell(self, event: ev.Event) -> None:
        self.queues.apply(event)
