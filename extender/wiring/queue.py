"""Puts together the queue inside `reconcile`: its sources, its decisions, its writers.

`Sources` are watches, lists, and reads of single jobs, which feed the queue's state;
`QueueControllers` are everything that decides and writes.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from extender.api.reasons import JobReason, Preempted
from extender.api.wellknown import DEPLOYMENTS, MANAGED_LABEL, QUEUE_LABEL, is_unprepared
from extender.config.settings import Settings
from extender.controllers.admission import AdmissionLoop
from extender.controllers.admitted_pods import GrantKeeper, LostHosts, TopologyGates
from extender.controllers.job import JobController, JobCounts
from extender.controllers.job_facts import JobOptions, PodGroups
from extender.controllers.node_requests import NodeRequests
from extender.controllers.provisioning import ProvisioningChecks
from extender.controllers.queue_status import QueueStatusController
from extender.controllers.timing import CONCURRENT_WRITES, LOOK_AGAIN
from extender.controllers.unqueued import Unqueued
from extender.controllers.workload import WorkloadController, Workloads, about
from extender.explain.facts import Facts
from extender.jobs import registry
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import Integration
from extender.jobs.workload import made_for
from extender.kube.autoscaling import GROUP, REQUESTS, VERSIONS, Autoscaling
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import (
    RECORDS,
    ManagedJobs,
    QueueDecoder,
    RecordKind,
    admitted_pods_of,
)
from extender.kube.errors import ApiError, NotFoundError
from extender.kube.pods import PodWriter
from extender.kube.queues import (
    JobWriter,
    Owners,
    QueueWriter,
    WorkloadWriter,
    collection,
    objects,
    write_managed_jobs,
)
from extender.kube.recorder import Event, ObjectRef, Recorder
from extender.kube.reflector import Feed, Identity, ObjectsSetAside, Reflector, identify
from extender.kube.watch import Watcher, everything
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
from extender.state.cluster import events as cluster_events
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import AdmittedPods, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.state.queue import events
from extender.state.queue.events import QueueChange
from extender.state.queue.records import (
    SERVICES,
    JobObject,
    OwnerRef,
    ProvisioningConfigInfo,
    ProvisioningRequestInfo,
    WorkloadInfo,
    group_unit,
)
from extender.state.queue.store import Queues
from extender.steps import cut
from extender.telemetry.queue_metrics import JobMetrics, QueueMetrics, QueueState
from extender.wiring.memory import queue_memory, queue_objects
from extender.wiring.reflectors import backoff, watcher

_log = structlog.get_logger(__name__)

SETTLE: Final = 0.01
PER_OBJECT: Final = 0.0002
"""Seconds for each object of a job: a look at a group of pods is a look at each of them, and each
of them changes several times, so a large group is looked at less often."""
PER_REPLICA: Final = 0.005
"""Seconds for each replica of a service: a change of a pod is a look at all of them."""

_CONFIGS: Final = RecordKind(
    collection("provisioningrequestconfigs", ""),
    ProvisioningConfigInfo,
    QueueDecoder.provisioning_config,
)
_REQUESTS: Final = RecordKind(
    f"/{REQUESTS}", ProvisioningRequestInfo, QueueDecoder.provisioning_request
)


class Sources:
    """Keeps the queue's state in step with the API server.

    Jobs are watched by a label where `job_selector` names one; those without it can be asked for.
    """

    def __init__(
        self,
        client: KubeClient,
        queues: Queues,
        decoder: QueueDecoder,
        *,
        cluster: Cluster,
        integrations: Sequence[Integration],
        job_selector: str,
    ) -> None:
        self._client = client
        self._owners = Owners(client)
        self._queues = queues
        self._cluster = cluster
        self._decoder = decoder
        self._integrations = {each.name: each for each in integrations}
        self._job_selector = job_selector
        self._requests = watcher(
            client,
            [objects(GROUP, version, REQUESTS) for version in VERSIONS[REQUESTS]],
            labels=f"{MANAGED_LABEL}=true",
            optional=True,
        )
        self._job_reflectors = {each.name: self._jobs(each) for each in integrations}
        self.reflectors: list[Reflector[Any]] = [*self._records(), *self._job_reflectors.values()]
        self.jobs = JobWriter(client, self._decode_job)
        """Reads and writes jobs."""

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
            found = await self.jobs.read(f"{path}/{owner.name}", kind=of.name)
        except NotFoundError:
            return None
        return found if found.meta.uid == owner.uid else None

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an object of any kind is there, None where our role may not read it."""
        return await self._owners.exists(owner, namespace)

    def is_watched(self, job: JobObject) -> bool:
        """Return whether the watch shows a job as it is now."""
        return bool(job.queue_name) or not self._job_selector

    async def catch_up(self, pacer: Pacer) -> None:
        """Read all that another leader wrote: a watch may be behind, and not notice for minutes."""
        pauses = backoff(0.2, 5.0)
        while True:
            try:
                return await self._read_all(pacer)
            except ApiError as error:
                _log.warning("could not read what there is", error=str(error))
                await asyncio.sleep(pauses.next())

    async def _read_all(self, pacer: Pacer) -> None:
        path = collection("workloads", "")
        found = await everything(self._client, path, self._decoder.workload, pacer=pacer)
        await pacer.go_through(self._guarded(events.Applied(workload)) for workload in found)
        for each in self._integrations.values():
            path = objects(each.group, each.version, each.plural)
            decode = partial(self._decode_job, kind=each.name)
            chosen = self._selector_of(each)
            selector = f"&labelSelector={quote(chosen)}" if chosen else ""
            with suppress(NotFoundError):  # there may be no such kind
                jobs = await everything(self._client, path, decode, selector=selector, pacer=pacer)
                await pacer.go_through(self._guarded(events.JobApplied(job)) for job in jobs)

    def _selector_of(self, kind: Integration) -> str:
        """Return the label of the jobs that are watched; services without a queue never wait."""
        return QUEUE_LABEL if kind.parts is not None else self._job_selector

    def _guarded(self, event: events.Event) -> bool:
        """Apply an event; return whether the state accepted it."""
        try:
            self._queues.apply(event)
        except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
            FAULTS.report("state", error, key=type(event).__name__)
            return False
        return True

    def _decode_job(self, raw: bytes, kind: str) -> JobObject:
        integration = self._integrations[kind]
        return self._decoder.job(
            raw,
            kind=kind,
            group_of=integration.group_of,
            done=integration.done,
            concerns=integration.concerns,
            read=integration.read,
        )

    def _records(self) -> Iterator[Reflector[Any]]:
        for each in RECORDS:
            is_workload = each.record is WorkloadInfo
            yield self._workloads(each) if is_workload else self._record_reflector(each)
        yield self._record_reflector(_CONFIGS)
        yield self._record_reflector(_REQUESTS, self._requests)

    def _workloads(self, kind: RecordKind) -> Reflector[WorkloadInfo]:
        """Return the reflector that says to the cluster's state how many pods are admitted, too."""
        found: Reflector[WorkloadInfo] = self._record_reflector(kind)
        of_queues, cluster, pods = found.feed, self._cluster, admitted_pods_of

        def listed(workloads: Sequence[WorkloadInfo], version: int) -> Iterator[object]:
            admitted = [*map(pods, workloads)]
            yield from cluster.replace(cluster_events.ObjectsListed(AdmittedPods, admitted))
            yield cluster.apply(cluster_events.AdmissionKnown(in_use=True))
            yield from of_queues.listed(workloads, version)

        def applied(workload: WorkloadInfo) -> None:
            cluster.apply(cluster_events.ObjectApplied(pods(workload)))
            of_queues.applied(workload)

        def deleted(workload: WorkloadInfo) -> None:
            cluster.apply(cluster_events.ObjectDeleted(AdmittedPods, workload.key))
            of_queues.deleted(workload)

        found.feed = Feed(listed, applied, deleted, of_queues.known)
        return found

    def provisioning_version(self) -> str:
        """Return the version in which there are ProvisioningRequests, or nothing."""
        return self._requests.served.removeprefix(f"/apis/{GROUP}/").partition("/")[0]

    def _record_reflector(self, kind: RecordKind, watch: Watcher | None = None) -> Reflector[Any]:
        queues, of = self._queues, kind.record
        return Reflector[Any](
            kind.plural,
            watch or watcher(self._client, kind.path, optional=True),
            partial(kind.decode, self._decoder),
            feed=Feed(
                listed=lambda found, version: queues.replace(events.Listed(of, found, version)),
                applied=lambda found: queues.apply(events.Applied(found)),
                deleted=lambda found: queues.apply(events.Deleted(found)),
                known=lambda which: queues.known(of, which.key, which.uid),
            ),
        )

    def _jobs(self, integration: Integration) -> Reflector[JobObject]:
        name, queues = integration.name, self._queues
        path = objects(integration.group, integration.version, integration.plural)
        decode = partial(self._decode_job, kind=name)
        optional = name != BatchJob.integration  # every cluster has Jobs
        return Reflector[JobObject](
            f"jobs of {name}",
            watcher(self._client, path, labels=self._selector_of(integration), optional=optional),
            decode,
            feed=Feed(
                listed=lambda found, version: queues.replace(
                    events.JobsListed(name, found, version)
                ),
                applied=lambda found: queues.apply(events.JobApplied(found)),
                deleted=lambda found: queues.apply(events.JobDeleted(found)),
                known=lambda which: queues.view().job_of(which.uid, which.namespace),
            ),
        )


def unqueued(
    client: KubeClient, integrations: Iterable[Integration], into: Unqueued
) -> Iterator[Reflector[Identity]]:
    """Yield the reflectors of Deployments, and of the kinds that are not queued.

    Nothing waits for them.
    """
    left_out = set(registry.builtin()) - {each.name for each in integrations}

    def reflector(kind: str, version: str, path: str) -> Reflector[Identity]:
        def decode(raw: bytes) -> Identity:
            is_queued = path == DEPLOYMENTS and not is_unprepared(msgspec.json.decode(raw))
            return replace(identify(raw), kind="" if is_queued else kind, api_version=version)

        watch = watcher(client, path, labels=QUEUE_LABEL, optional=True)
        found = Reflector[Identity](f"unqueued {kind}", watch, decode, feed=into.feed(kind))
        found.needed = False
        return found

    yield reflector("Deployment", "apps/v1", DEPLOYMENTS)
    for each in registry.builtin().values():
        if each.name in left_out and each.compose is None:
            path = objects(each.group, each.version, each.plural)
            yield reflector(each.kind, each.api_version, path)


class QueueControllers:
    """Everything of the queue, around one client."""

    def __init__(  # noqa: PLR0913 - the parts of the process that the queue shares
        self,
        settings: Settings,
        client: KubeClient,
        store: Cluster,
        *,
        decoder: Decoder,
        recorder: Recorder,
        clock: Clock,
        metrics: CollectorRegistry,
        observer: Callable[..., Observer],
        about_group: Callable[[str], ObjectRef | None],
        pacer: Pacer,
        aside: ObjectsSetAside,
    ) -> None:
        """Put it together, with the state of the cluster in `store`.

        `observer` makes the observer of a controller; what Events about one of its keys point to
        may follow the name.
        """
        chosen = settings.queue
        selected = registry.select(chosen.integrations, chosen.external_integrations)
        self.integrations, manages_all = tuple(selected), chosen.manage_jobs_without_queue_name
        of_queues = QueueDecoder(decoder)
        self.queues = Queues(of_queues.completed)
        self.queues.on_fault = partial(FAULTS.report, "queues")
        self._view = self.queues.view()
        self._sources = Sources(
            client,
            self.queues,
            of_queues,
            cluster=store,
            integrations=selected,
            job_selector="" if manages_all else QUEUE_LABEL,
        )
        self._unqueued = Unqueued(recorder.record)
        self.reflectors = [*self._sources.reflectors, *unqueued(client, selected, self._unqueued)]
        self._metrics, self._pacer = QueueMetrics(metrics), pacer
        self._job_counts = JobCounts(self._view, JobMetrics(metrics), clock)
        workloads = Workloads(
            self.queues,
            WorkloadWriter(client, of_queues),
            written=self._count,
            record=recorder.record,
        )
        kinds = frozenset(f"{each.group}/{each.kind}" for each in selected)
        options = replace(chosen.options(), kinds=kinds)
        cluster = self._cluster = store.view()
        room = self._room = NodeRoom(self._view, cluster)
        autoscaling = Autoscaling(client)
        provisioning = self._provisioning = ProvisioningChecks(
            self.queues,
            workloads,
            autoscaling,
            decoder=of_queues,
            record=recorder.record,
            clock=clock,
        )
        provisioning.version = self._sources.provisioning_version
        asking = self._asking = NodeRequests(
            self._view,
            workloads,
            autoscaling,
            room=room,
            record=recorder.record,
            clock=clock,
            class_name=chosen.provisioning_class,
        )
        self.admission = AdmissionLoop(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            rules=AdmissionRules(options, room, self._view.flavors, asking.can_ask),
            metrics=self._metrics,
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
        store.watch_room(self._on_room)
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
                aside=aside,
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
            observer=observer("granted-room", about_group),
            settle=SETTLE,
        )
        self._gates = controller(
            TopologyGates(self._view, cluster, PodWriter(client), clock=clock).reconcile,
            observer=observer("topology-gate", self._about_workload),
            settle=SETTLE,
        )
        self._node_requests = controller(
            asking.reconcile, observer=observer("node-requests", self._about_workload)
        )
        self._checks = controller(
            provisioning.reconcile,
            observer=observer("provisioning-request", self._about_workload),
            settle=SETTLE,
        )
        store.subscribe(self._on_cluster)
        of_workloads = WorkloadController(
            self.queues,
            workloads,
            record=recorder.record,
            clock=clock,
            rules=lifecycle.LifecycleRules(options, jobs.pods_ready),
            jobs=self._sources,
        )
        self._workloads = controller(
            of_workloads.reconcile, observer=observer("workload"), settle=SETTLE
        )
        self._jobs_controller = controller(
            self._job_counts.counting(jobs.reconcile),
            observer=observer("job"),
            settle=self._settle,
            parallel=CONCURRENT_WRITES,
        )
        status = QueueStatusController(
            self.queues, QueueWriter(client), record=recorder.record, clock=clock
        )
        status.provisions = lambda: bool(provisioning.version())
        # What is applied in one go is one write: a status settles for as long as is usual.
        self._status = controller(status.reconcile, observer=observer("queue-status", status.about))
        self._clock, self._manages_all, self.options = clock, manages_all, options
        self._managed = (
            *(client, settings.reconcile.lease_namespace),
            ManagedJobs(tuple(sorted(kinds)) if manages_all else (), chosen.selector()),
        )
        self._tree: QuotaTree | None = None
        self._leads, self._news = False, asyncio.Event()
        self._queues_to_follow, self._classes_to_follow = set[str](), set[str]()
        self.queues.subscribe(self._on_change)

    def _settle(self, key: tuple[str, str]) -> float:
        """Return the seconds in which changes of a job are one."""
        found = self._view.unit(key) if key[0] in SERVICES.values() else ()
        pods = [
            self._view.size(group_unit(workload))
            for each in found
            for workload in self._view.workloads_of(each.meta.uid, each.meta.namespace)
        ]
        replicas = PER_REPLICA * len(pods) + PER_OBJECT * sum(pods)
        return SETTLE + replicas + PER_OBJECT * self._view.size(key)

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
            AdmissionRules(
                self.options,
                NodeRoom(self._view, cluster),
                self._view.flavors,
                self._asking.can_ask,
            ),
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
        self._leads = self._unqueued.leads = True
        try:
            self._unqueued.report()
            await self._pacer.go_through(map(self._on_change, self._everything()))
            self._notice_grants(self._keeper.granted(self._cluster.pod_groups))
            self._notice_cohorts()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._say_what_is_managed())
                tasks.create_task(self._workloads.run())
                tasks.create_task(self._grants.run())
                tasks.create_task(self._gates.run())
                tasks.create_task(self._node_requests.run())
                tasks.create_task(self._checks.run())
                tasks.create_task(
                    self._asking.run(self._node_requests.notice, self.admission.retry_all)
                )
                tasks.create_task(self._jobs_controller.run())
                tasks.create_task(self._status.run())
                tasks.create_task(self._hosts.run())
                tasks.create_task(self._follow())
                tasks.create_task(self.admission.run())
        finally:
            self._leads = self._unqueued.leads = False

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
            checks=frozenset(view.admission_checks),
        )
        for keys in cut([*view.workloads]):
            yield QueueChange(workloads=frozenset(keys))
        for units in cut([*view.units]):
            yield QueueChange(jobs=frozenset(units))

    def _on_room(self) -> None:
        if self._leads:
            self.admission.on_room()

    def _on_cluster(self, change: ClusterChange) -> None:
        """Look at granted room when its PodGroup or a pod of it changed."""
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
        self._asking.on_change(change.workloads, self._node_requests.notice)
        self._provisioning.on_change(change.workloads, self._checks.notice)
        for key in change.workloads:
            self._notice_workload(key)
        self._notice_grants(self._keeper.granted(map(made_for, change.workloads)))
        for unit in change.jobs:
            self._notice_job(unit)
        numbers = LOOK_AGAIN if change.workloads and not change.structure else None
        for plural, names in (
            ("clusterqueues", change.cluster_queues),
            ("localqueues", change.local_queues),
            ("resourceflavors", change.flavors),
            ("admissionchecks", change.checks),
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

    def _notice_workload(self, key: str) -> None:
        self._workloads.notice(key)
        held = self._view.admission(key)
        if held is not None and any(each.topology for each in held.assignments):
            self._gates.notice(key)

    def _notice_cohorts(self) -> None:
        for name in self._view.cohorts:
            self._status.notice(("cohorts", name))

    def _notice_job(self, unit: tuple[str, str]) -> None:
        """Reconcile a job, and its workload: the annotations for time-outs may be new."""
        self._jobs_controller.notice(unit)
        objects = self._view.unit(unit)
        first = objects[0].meta if objects else None
        for key in self._view.workloads_of(first.uid, first.namespace) if first else ():
            self._workloads.notice(key, within=LOOK_AGAIN)

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
        self._provisioning.on_change(keys, self._checks.notice)
        for key in keys:
            self._workloads.notice(key)
            workload = view.workloads[key]
            # Of an admitted one the flavor may have been missing.
            for owner in workload.owners if workload.admission is not None else ():
                job = view.job_of(owner.uid, workload.meta.namespace)
                if job is not None:
                    self._jobs_controller.notice(job.unit)
