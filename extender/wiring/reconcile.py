"""The process of `gang-extender reconcile`.

Every replica follows the cluster and answers for its health; the one that holds the Lease also
works. It begins when its caches are full, and has stopped writing before it lets the Lease go.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import structlog
from fastapi import FastAPI

from extender.api.wellknown import Phase
from extender.config import Reconcile as Section
from extender.config import Settings
from extender.controllers.pod_group import PodGroupController, touched
from extender.controllers.preemption import (
    FailedCalls,
    Outlet,
    PreemptionController,
    StoredNominations,
)
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.errors import ApiError, ConflictError, RefusedError
from extender.kube.lease import LeadershipLost, LeaseElection, LeaseName
from extender.kube.pod_groups import PodGroupWriter, VictimWriter, about
from extender.kube.recorder import Event, ObjectRef, Recorder, refusal, unreadable
from extender.kube.reflector import Reflector
from extender.kube.reviews import Reviews
from extender.kube.set_aside import Aside, ObjectsSetAside
from extender.permit.node_claims import NodeClaims
from extender.runtime.clock import SystemClock
from extender.runtime.controller import Controller, Observer
from extender.server.access import Guard
from extender.server.connections import Connections
from extender.server.explanations import Visibility, add_visibility
from extender.server.health import Probes, health_app
from extender.server.snapshot import SnapshotSource, add_snapshot
from extender.snapshot.memory import cluster_memory, header
from extender.state.cluster.events import ClusterChange
from extender.telemetry.admission_starts import AdmissionStarts
from extender.telemetry.logs import IDS
from extender.telemetry.metrics import GuardedCollector, ReconcilerMetrics, WaitingCollector, page
from extender.telemetry.queue_metrics import JobMetrics, QueueGauges, QueueMetrics
from extender.wiring import http
from extender.wiring.health import watches
from extender.wiring.loop import Loop
from extender.wiring.natives import empty_cluster
from extender.wiring.queue import QueueControllers, Shared
from extender.wiring.reflectors import ALL_PODS, backoff, reflectors, set_aside
from extender.wiring.serving import serving
from extender.wiring.tracing import tracing
from extender.wiring.webhooks import WebhookServer, conversion_gate, is_converted, webhooks

_log = structlog.get_logger(__name__)

KEEP_ALIVE_SECONDS: Final = 30
SERVICE: Final = "gang-extender-reconciler"
"""The service in traces."""


class Reconciler:
    """Everything that `reconcile` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        self.lost: LeadershipLost | None = None
        self._leads = False
        self._identity = f"{socket.gethostname()}_{os.getpid()}_{uuid4().hex[:8]}"
        self._clock = clock = SystemClock()
        self._options = settings.gang.options()
        self._cluster = cluster = empty_cluster(settings.gang)
        self._view = cluster.view()
        self.metrics = ReconcilerMetrics()
        self._loop = Loop(clock, self.metrics.registry, settings.health)
        self._aside = ObjectsSetAside()
        self._recorder = Recorder(
            client,
            clock=clock,
            instance=self._identity,
            count=lambda result: self.metrics.events.labels(result).inc(),
        )
        # The listeners of the cluster hear of a change in the order in which they are made here.
        self._groups, self._controller = self._pod_groups(settings, client)
        self._gate = conversion_gate(settings, client) if settings.queue.enabled else None
        decoder = Decoder(settings.gang.ignored(), placement=settings.gang.placement)
        self._queue = self._queue_of(settings, client, decoder)
        self._nominations = StoredNominations(cluster)
        self._failed_calls = FailedCalls(cluster, VictimWriter(client))
        self._preemption, self._victims = self._preempting(client)
        # The extender claims room for groups that have waited long, and this process does too.
        self._aging = NodeClaims(cluster, options=self._options, clock=clock)
        cluster.subscribe(self._on_change)
        self.reflectors = self._follows(client, decoder)
        self.watches = watches(
            self.reflectors,
            client,
            self.metrics.registry,
            stale_seconds=settings.kube.stale_seconds,
        )
        self._election = _election(settings.reconcile, client, clock, identity=self._identity)
        self._webhooks = self._serving_webhooks(settings, client)
        self.tls = serving(settings.reconcile, self._webhooks)
        self.connections = self._connections()
        self._gauges: QueueGauges | None = None
        guard = Guard(Reviews(client), clock) if settings.reconcile.authenticates else None
        self.app: FastAPI = health_app(
            self._page,
            Probes(self.ready, self._loop.trouble, remarks=self.watches.remarks),
            guard=guard,
        )
        self._show(settings, guard)

    @property
    def starts(self) -> tuple[AdmissionStarts, ...]:
        """The admissions that are noted, where there is a queue."""
        return (self._queue.admission.starts,) if self._queue is not None else ()

    # -- the parts

    def _pod_groups(
        self, settings: Settings, client: KubeClient
    ) -> tuple[PodGroupController, Controller[str]]:
        groups = PodGroupController(
            self._cluster,
            PodGroupWriter(client),
            record=self._recorder.record,
            clock=self._clock,
            options=self._options,
            on_partial=settings.gang.on_partial,
        )
        for phase in Phase:
            count = partial(lambda word: groups.phases()[word], phase)
            self.metrics.groups.labels(phase).set_function(count)
        self.metrics.registry.register(WaitingCollector(groups.waiting))
        return groups, self._keyed("pod-group", groups.reconcile, longest=30.0)

    def _queue_of(
        self, settings: Settings, client: KubeClient, decoder: Decoder
    ) -> QueueControllers | None:
        if not settings.queue.enabled:
            return None
        shared = Shared(
            decoder,
            self._recorder,
            self._clock,
            QueueMetrics(self.metrics.registry),
            JobMetrics(self.metrics.registry),
            self._observer,
            self._about_group,
            self._cluster,
            self._loop.pacer,
            self._aside,
        )
        return QueueControllers(settings, client, shared)

    def _preempting(self, client: KubeClient) -> tuple[PreemptionController, Controller[str]]:
        evicting = PreemptionController(
            self._view,
            VictimWriter(client),
            outlet=Outlet(
                self._recorder.record, lambda how: self.metrics.victims.labels(how).inc()
            ),
            clock=self._clock,
            options=self._options,
            workloads=self._queue,
        )
        evicting.stale = lambda: self.watches.stale()
        return evicting, self._keyed("preemption", evicting.reconcile, longest=10.0)

    def _keyed(
        self, name: str, reconcile: Callable[[str], Awaitable[float | None]], *, longest: float
    ) -> Controller[str]:
        """Return a controller of groups that retries within `longest` seconds."""
        return Controller[str](
            reconcile,
            new_backoff=lambda: backoff(0.2, longest),
            retried=ApiError,
            observer=self._observer(name, self._about_group),
        )

    def _follows(self, client: KubeClient, decoder: Decoder) -> list[Reflector[Any]]:
        """Return all reflectors; an Event about each object that they cannot read is written."""
        of_queue = self._queue.reflectors if self._queue is not None else []
        found = [*reflectors(client, self._cluster, decoder, pods=ALL_PODS), *of_queue]
        set_aside(self._cluster, found, self._aside, registry=self.metrics.registry)
        self._aside.subscribe(self._on_aside)
        return found

    def _serving_webhooks(self, settings: Settings, client: KubeClient) -> WebhookServer | None:
        found = webhooks(
            settings,
            client,
            clock=self._clock,
            queue=self._queue,
            connections=self._connections(),
        )
        if found is not None:
            certificates = found.certificates
            self.metrics.certificate_ends.set_function(lambda: certificates.ends)
        return found

    def _connections(self) -> Connections:
        return Connections(http.FEW, self.metrics.closed_connections, self.metrics.handshakes)

    def _observer(
        self, controller: str, about: Callable[[Any], ObjectRef | None] = lambda _: None
    ) -> Observer:
        return KeyObserver(self.metrics, controller, about, record=self._recorder.record)

    def _about_group(self, key: str) -> ObjectRef | None:
        found = self._view.pod_group(key)
        return about(found) if found is not None else None

    def _on_aside(self, each: Aside) -> None:
        if self._leads and each.object.kind:
            self._recorder.record(unreadable(each))

    def _show(self, settings: Settings, guard: Guard | None) -> None:
        """Serve what the process remembers, and the queue."""
        memory = partial(self._memory, settings)
        add_snapshot(self.app, SnapshotSource(memory, self._loop.pacer, guard))
        if self._queue is not None:
            self._show_queue(self._queue, guard)

    def _memory(self, settings: Settings) -> dict[str, object]:
        """Return what this process remembers, for a snapshot."""
        found = header(
            "reconciler",
            settings,
            now=SystemClock().wall(),
            watches=self.watches.states(),
            unready=self._unready(),
            leads=self._leads,
        )
        found |= cluster_memory(self._view)
        return found if self._queue is None else found | self._queue.memory()

    def _show_queue(self, queue: QueueControllers, guard: Guard | None) -> None:
        """Show the queue over HTTP and in metrics."""
        self._gauges = QueueGauges(queue.seen)
        self.metrics.registry.register(GuardedCollector(self._gauges))
        election = self._election
        add_visibility(
            self.app,
            Visibility(
                facts=lambda: queue.facts(self._view),
                leader=lambda: election.leader if election else None,
                pacer=self._loop.pacer,
                guard=guard,
            ),
        )

    async def _page(self) -> bytes:
        filling = self._gauges.fill() if self._gauges is not None else ()
        return await page(self.metrics.registry, self._loop.pacer, filling)

    def ready(self) -> dict[str, str | None]:
        """Return the problems of caches and webhooks; a replica need not lead to be ready."""
        checks = self.watches.checks()
        if self._webhooks is not None:
            checks["webhooks"] = None if self._webhooks.serving else "not served yet"
        if self._gate is not None:
            why = self._gate.refusal or "not open yet"
            checks["conversion"] = None if self._gate.is_open else why
        return checks

    def _unready(self) -> str:
        return "; ".join(f"{name}: {why}" for name, why in self.ready().items() if why)

    async def run(self, serve: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
        """Run everything until `serve` returns; `stop` makes it. Raises LeadershipLost."""
        works = [self._follow(each) for each in self.reflectors]
        works += [self._loop.lag.run(), self._age(), self._lead(stop), self.tls.run()]
        if self._gate is not None:
            works.append(self._gate.run())
        if self._webhooks is not None:
            works.append(self._webhooks.run())
        await self._loop.beside(serve, works)
        if self.lost is not None:
            raise self.lost

    def _on_change(self, change: ClusterChange) -> None:
        groups = touched(change)
        for group in groups:
            self._controller.notice(group)
        for group in self._preemption.concerns(groups) if self._leads else ():
            self._victims.notice(group)

    async def _follow(self, reflector: Reflector[Any]) -> None:
        if self._gate is not None and is_converted(reflector.kind):
            await self._gate.wait()
        await reflector.run(self._loop.pacer)

    async def _age(self) -> None:
        for reflector in self.watches.needed:
            await reflector.first_list.wait()
        self._loop.garbage.freeze()
        self._nominations.again()
        await self._aging.run()

    async def _lead(self, stop: Callable[[], None]) -> None:
        for reflector in self.watches.needed:
            await reflector.first_list.wait()
        if self._election is None:
            await self._work()
            return
        try:
            await self._election.acquire()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._work())
                await self._election.keep()
        except* LeadershipLost as group:
            self.lost = LeadershipLost(str(group.exceptions[0]))
            stop()
        finally:
            await self._election.release()

    async def _work(self) -> None:
        self.metrics.leader.set(1)
        self._leads = True
        for each in self._aside:
            self._on_aside(each)
        try:
            for group in self._view.pod_groups:
                self._controller.notice(group)
            for group in self._preemption.begin():
                self._victims.notice(group)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._controller.run())
                tasks.create_task(self._victims.run())
                tasks.create_task(self._failed_calls.run())
                tasks.create_task(self._recorder.run())
                if self._queue is not None:
                    tasks.create_task(self._queue.run(after_another=self._election is not None))
        finally:
            self._leads = False
            self.metrics.leader.set(0)


def _election(
    chosen: Section, client: KubeClient, clock: SystemClock, *, identity: str
) -> LeaseElection | None:
    """Return the candidate for the Lease, None where there is no election."""
    if not chosen.leader_elect:
        return None
    return LeaseElection(
        client,
        of=LeaseName(chosen.lease_namespace, chosen.lease_name, identity),
        times=chosen.times(),
        clock=clock,
    )


class KeyObserver:
    """Counts and logs the reconciliations of one controller; reports what is refused in Events."""

    def __init__(
        self,
        metrics: ReconcilerMetrics,
        controller: str,
        about: Callable[[Any], ObjectRef | None],
        *,
        record: Callable[[Event], None],
    ) -> None:
        self._controller, self._record, self._about = controller, record, about
        self._seconds = metrics.reconcile_seconds.labels(controller)
        self._done = metrics.reconciles.labels(controller, "done")
        self._failed = metrics.reconciles.labels(controller, "failed")

    def done(self, seconds: float) -> None:
        """Count a reconciliation that succeeded."""
        self._seconds.observe(seconds)
        self._done.inc()

    def failed(self, key: object, error: Exception, retry_in: float) -> None:
        """Count and log a reconciliation that failed."""
        self._failed.inc()
        log = _log.debug if isinstance(error, ConflictError) else _log.warning
        log(
            "could not reconcile",
            controller=self._controller,
            key=key,
            error=str(error),
            retry_in=round(retry_in, 2),
        )
        if isinstance(error, RefusedError) and (found := self._about(key)) is not None:
            self._record(refusal(found, error))


async def reconcile(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the reconciler until SIGTERM or SIGINT.

    Raises SettingsError, ConfigurationError, OSError, and LeadershipLost when another replica has
    to take over.
    """
    kube, chosen = settings.kube, settings.reconcile
    async with KubeClient(
        await keyring(kubeconfig),
        connections=kube.connections,
        posts=1,  # for Events, which are written one after the other
        timeout=kube.timeout_seconds,
    ) as client:
        reconciler = Reconciler(settings, client)
        config = http.config(
            reconciler.app, host=chosen.host, port=chosen.port, keep_alive=KEEP_ALIVE_SECONDS
        )
        server = http.Server(config, reconciler.connections, context=reconciler.tls.context)

        def stop() -> None:
            server.should_exit = True

        for starts in reconciler.starts:
            IDS.add("workload", "admission_id", starts.id_of)
        async with tracing(
            settings.telemetry.traces, SERVICE, reconciler.metrics, *reconciler.starts
        ):
            _log.info("reconciling", host=chosen.host, port=chosen.port, api_server=client.host)
            await reconciler.run(server.serve, stop)
    _log.info("stopped")
