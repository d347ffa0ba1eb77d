"""The process of `gang-extender reconcile`.

Every replica follows the cluster and answers for its health; the one that holds the Lease also
works. It begins when its caches are full, and has stopped writing before it lets the Lease go.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import structlog
from fastapi import FastAPI

from extender.api.wellknown import Phase
from extender.config.sections import SettingsError
from extender.config.settings import Settings
from extender.controllers.claim_buffers import ClaimBuffers
from extender.controllers.pod_group import PodGroupController
from extender.controllers.preemption import (
    FailedCalls,
    PreemptionController,
    StoredNominations,
)
from extender.kube.autoscaling import Autoscaling
from extender.kube.certificates import issue
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.errors import ApiError, ConflictError, RefusedError
from extender.kube.lease import LeadershipLost, LeaseElection, LeaseName
from extender.kube.pod_groups import PodGroupWriter, about
from extender.kube.recorder import Event, ObjectRef, Recorder, refusal, unreadable
from extender.kube.reflector import Aside, ObjectsSetAside, Reflector
from extender.kube.reviews import Reviews
from extender.permit.background import NodeClaims
from extender.runtime.clock import SystemClock
from extender.runtime.controller import Controller, Observer
from extender.server.access import Guard
from extender.server.connections import Connections
from extender.server.explanations import add_visibility
from extender.server.health import Probes, add_snapshot, health_app
from extender.server.tls import Files, ServingTls
from extender.state.cluster.events import ClusterChange
from extender.telemetry.logs import IDS
from extender.telemetry.metrics import ComputedMetrics, ReconcilerMetrics, page, waiting_groups
from extender.telemetry.queue_metrics import QueueGauges
from extender.telemetry.starts import AdmissionStarts
from extender.wiring.memory import cluster_memory, header
from extender.wiring.process import FEW, Loop, Server, Watches, http_config, tracing
from extender.wiring.queue import QueueControllers
from extender.wiring.reflectors import ALL_PODS, backoff, empty_cluster, reflectors, set_aside
from extender.wiring.webhooks import WebhookServer, conversion_gate, is_converted, load, webhooks

_log = structlog.get_logger(__name__)

SERVICE: Final = "gang-extender-reconciler"
"""The service in traces."""


class Reconciler:
    """Everything that `reconcile` runs, around one client."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        # The parts that others use.
        self._settings = settings
        self._identity = f"{socket.gethostname()}_{os.getpid()}_{uuid4().hex[:8]}"
        self._leads = False
        self._lost: LeadershipLost | None = None
        self._clock = clock = SystemClock()
        self._options = options = settings.gang.options()
        self._cluster = cluster = empty_cluster(settings.gang)
        self._view = view = cluster.view()
        self.metrics = ReconcilerMetrics()
        self._registry = registry = self.metrics.registry
        self._loop = Loop(clock, registry, settings.health)
        self._aside = ObjectsSetAside()
        self._recorder = Recorder(
            client,
            clock=clock,
            instance=self._identity,
            count=lambda result: self.metrics.events.labels(result).inc(),
        )
        decoder = Decoder(settings.gang.ignored(), placement=settings.gang.placement)

        # The controllers. They hear of a change of the cluster in the order in which they are made.
        self._groups = PodGroupController(
            cluster,
            PodGroupWriter(client),
            record=self._recorder.record,
            clock=clock,
            options=options,
            on_partial=settings.gang.on_partial,
        )
        self._controller = self._of_groups("pod-group", self._groups.reconcile, longest=30.0)
        self._queue = self._queue_of(client, decoder) if settings.queue.enabled else None
        self._nominations = StoredNominations(cluster)
        self._failed_calls = FailedCalls(cluster, PodGroupWriter(client))
        self._preemption = PreemptionController(
            view,
            PodGroupWriter(client),
            record=self._recorder.record,
            count=lambda how: self.metrics.victims.labels(how).inc(),
            clock=clock,
            options=options,
            workloads=self._queue,
        )
        self._preemption.stale = lambda: self.watches.stale()
        self._victims = self._of_groups("preemption", self._preemption.reconcile, longest=10.0)
        # The extender claims room for groups that have waited long, and this process does too.
        self._aging = NodeClaims(cluster, options=options, clock=clock)
        self._buffers = ClaimBuffers(
            view, Autoscaling(client), clock=clock, on=settings.gang.publish_kept_room
        )
        cluster.subscribe(self._on_change)

        # The watches, and the objects that they cannot read.
        of_queue = self._queue.reflectors if self._queue is not None else []
        of_cluster = reflectors(client, cluster, decoder, pods=ALL_PODS)
        self.reflectors = [*of_cluster, *of_queue]
        self.watches = Watches(self.reflectors, stale_seconds=settings.kube.stale_seconds)
        set_aside(cluster, self.reflectors, self._aside, registry=registry)
        self._aside.subscribe(self._on_aside)
        self._gate = conversion_gate(settings, client) if settings.queue.enabled else None

        # The election.
        lease = settings.reconcile
        self._election = (
            LeaseElection(
                client,
                of=LeaseName(lease.lease_namespace, lease.lease_name, self._identity),
                times=lease.times(),
                clock=clock,
            )
            if lease.leader_elect
            else None
        )

        # What is served.
        self._webhooks = webhooks(
            settings, client, clock=clock, queue=self._queue, connections=self._new_connections()
        )
        self.context, self._files = serving_tls(settings, self._webhooks)
        self.connections = self._new_connections()
        self._gauges = QueueGauges(self._queue.seen) if self._queue is not None else None
        guard = Guard(Reviews(client)) if lease.authenticates else None
        probes = Probes(self.ready, self._loop.trouble, remarks=self.watches.remarks)
        self.app: FastAPI = health_app(self._page, probes, guard=guard)
        add_snapshot(self.app, self._memory, pacer=self._loop.pacer, guard=guard)
        if self._queue is not None:
            queue, election = self._queue, self._election
            add_visibility(
                self.app,
                lambda: queue.facts(view),
                lambda: election.leader if election else None,
                pacer=self._loop.pacer,
                guard=guard,
            )
        self._add_metrics(client)

    def _queue_of(self, client: KubeClient, decoder: Decoder) -> QueueControllers:
        return QueueControllers(
            self._settings,
            client,
            self._cluster,
            decoder=decoder,
            recorder=self._recorder,
            clock=self._clock,
            metrics=self._registry,
            observer=self._observer,
            about_group=self._about_group,
            pacer=self._loop.pacer,
            aside=self._aside,
        )

    def _of_groups(
        self, name: str, reconcile: Callable[[str], Awaitable[float | None]], *, longest: float
    ) -> Controller[str]:
        """Return a controller of groups that retries within `longest` seconds."""
        return Controller[str](
            reconcile,
            new_backoff=lambda: backoff(0.2, longest),
            retried=ApiError,
            observer=self._observer(name, self._about_group),
        )

    def _observer(
        self, controller: str, about: Callable[[Any], ObjectRef | None] = lambda _: None
    ) -> Observer:
        return KeyObserver(self.metrics, controller, about, record=self._recorder.record)

    def _new_connections(self) -> Connections:
        return Connections(FEW, self.metrics.closed_connections, self.metrics.handshakes)

    def _add_metrics(self, client: KubeClient) -> None:
        """Have the metrics page show the state of these parts."""
        for phase in Phase:
            count = partial(lambda word: self._groups.phases()[word], phase)
            self.metrics.groups.labels(phase).set_function(count)
        self._registry.register(ComputedMetrics(lambda: waiting_groups(self._groups.waiting())))
        self._registry.register(ComputedMetrics(lambda: self.watches.metrics(client.keyring)))
        if self._gauges is not None:
            self._registry.register(ComputedMetrics(self._gauges.collect))
        if self._webhooks is not None:
            certificates = self._webhooks.certificates
            self.metrics.certificate_ends.set_function(lambda: certificates.ends)

    def _about_group(self, key: str) -> ObjectRef | None:
        found = self._view.pod_group(key)
        return about(found) if found is not None else None

    def _on_aside(self, each: Aside) -> None:
        if self._leads and each.object.kind:
            self._recorder.record(unreadable(each))

    def _memory(self) -> dict[str, object]:
        """Return what this process remembers, for a snapshot."""
        found = header(
            "reconciler",
            self._settings,
            now=self._clock.wall(),
            watches=self.watches.states(),
            unready="; ".join(f"{name}: {why}" for name, why in self.ready().items() if why),
            leads=self._leads,
        )
        found |= cluster_memory(self._view)
        return found if self._queue is None else found | self._queue.memory()

    async def _page(self) -> bytes:
        filling = self._gauges.fill() if self._gauges is not None else ()
        return await page(self._registry, self._loop.pacer, filling)

    @property
    def starts(self) -> tuple[AdmissionStarts, ...]:
        """The admissions that are noted, where there is a queue."""
        return (self._queue.admission.starts,) if self._queue is not None else ()

    def ready(self) -> dict[str, str | None]:
        """Return the problems of caches and webhooks; a replica need not lead to be ready."""
        checks = self.watches.checks()
        if self._webhooks is not None:
            checks["webhooks"] = None if self._webhooks.serving else "not served yet"
        if self._gate is not None:
            why = self._gate.refusal or "not open yet"
            checks["conversion"] = None if self._gate.is_open else why
        return checks

    async def run(self, serve: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
        """Run everything until `serve` returns; `stop` makes it. Raises LeadershipLost."""
        works = [self._follow(each) for each in self.reflectors]
        works += [self._loop.lag.run(), self._age(), self._lead(stop)]
        if self._files is not None:
            every = self._settings.webhooks.check_seconds
            works.append(self._files.keep_fresh(every, self.connections.end_old))
        if self._gate is not None:
            works.append(self._gate.run())
        if self._webhooks is not None:
            works.append(self._webhooks.run())
        await self._loop.beside(serve, works)
        if self._lost is not None:
            raise self._lost

    def _on_change(self, change: ClusterChange) -> None:
        groups = change.groups | change.statuses
        for group in groups:
            self._controller.notice(group)
        for group in self._preemption.concerns(groups) if self._leads else ():
            self._victims.notice(group)

    async def _follow(self, reflector: Reflector[Any]) -> None:
        if self._gate is not None and is_converted(reflector.kind):
            await self._gate.wait()
        await reflector.run(self._loop.pacer)

    async def _age(self) -> None:
        await self.watches.wait()
        self._loop.garbage.freeze()
        self._nominations.again()
        await self._aging.run()

    async def _lead(self, stop: Callable[[], None]) -> None:
        await self.watches.wait()
        if self._election is None:
            await self._work()
            return
        try:
            await self._election.acquire()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._work())
                await self._election.keep()
        except* LeadershipLost as group:
            self._lost = LeadershipLost(str(group.exceptions[0]))
            stop()
        finally:
            await self._election.release()

    async def _work(self) -> None:
        self.metrics.leader.set(1)
        self._leads = True
        for each in self._aside:
            self._on_aside(each)
        try:
            for group in {*self._view.pod_groups, *self._view.groups_of_jobs}:
                self._controller.notice(group)
            for group in self._preemption.begin():
                self._victims.notice(group)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._controller.run())
                tasks.create_task(self._victims.run())
                tasks.create_task(self._failed_calls.run())
                tasks.create_task(self._buffers.run())
                tasks.create_task(self._recorder.run())
                if self._queue is not None:
                    tasks.create_task(self._queue.run(after_another=self._election is not None))
        finally:
            self._leads = False
            self.metrics.leader.set(0)


def serving_tls(
    settings: Settings, webhooks: WebhookServer | None
) -> tuple[ssl.SSLContext | None, ServingTls | None]:
    """Return the TLS of the port, and its files where they may be renewed.

    Another address than loopback is always served with TLS. Raises SettingsError where a
    certificate cannot be read.
    """
    chosen = settings.reconcile
    if chosen.tls is not None:
        try:
            files = ServingTls(Files(chosen.tls.cert_file, chosen.tls.key_file))
        except OSError as error:
            raise SettingsError(f"reconcile.tls: {chosen.tls.cert_file}: {error}") from error
        return files.context, files
    if chosen.is_local:
        return None, None
    # The webhooks get their certificate from the API server. Until then their port has this one, so
    # that a kubelet finds the process alive whatever the API server does.
    if webhooks is not None:
        context = webhooks.tls
    else:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        _log.warning(
            "callers cannot check the certificate of health, metrics and what waits; "
            "reconcile.tls gives one that they can"
        )
    made = issue((chosen.host,), now=SystemClock().wall(), days=settings.webhooks.certificate_days)
    load(context, made)
    return context, None


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
        posts=kube.connections // 2,
        all_writes=True,
        timeout=kube.timeout_seconds,
    ) as client:
        reconciler = Reconciler(settings, client)
        config = http_config(reconciler.app, host=chosen.host, port=chosen.port)
        server = Server(config, reconciler.connections, context=reconciler.context)

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
